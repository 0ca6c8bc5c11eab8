//! Registrations: one that was taken, written as JSON and read again is the same.

#![no_main]

use estimand_api::registration::Registration;
use estimand_fuzz::assert_refused;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let registration = match Registration::parse(data) {
        Ok(submitted) => submitted.registration,
        Err(problem) => return assert_refused(&problem),
    };
    let written = serde_json::to_vec(&registration.to_map()).unwrap_or_default();
    let again = Registration::parse(&written).map(|submitted| submitted.registration);
    assert_eq!(again.as_ref(), Ok(&registration));
    assert_eq!(again.map(|again| again.to_map()), Ok(registration.to_map()));
});
