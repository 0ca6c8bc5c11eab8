//! The expectations of registrations: the first line is an object of `schema`, `range` and `unit`, the rest a value.

#![no_main]

use estimand_api::json::{parse_document, parse_object};
use estimand_api::registration::Registration;
use estimand_fuzz::{assert_line, assert_short, two_texts};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((fields, value)) = two_texts(data) else { return };
    let Ok(fields) = parse_object(fields.as_bytes()) else { return };
    let Ok(mut map) = parse_object(br#"{"dataName":"a","cmd":"x","max-Time":1}"#) else { return };
    map.extend(fields);
    let registration = match Registration::from_map(map) {
        Ok(submitted) => submitted.registration,
        Err(problem) => return problem.errors.iter().for_each(|error| assert_short(&error.message)),
    };
    let expected = &registration.expect;
    let again = Registration::from_map(registration.to_map()).map(|submitted| submitted.registration.expect);
    assert_eq!(again.as_ref(), Ok(expected));
    if parse_document(value.as_bytes()).is_ok() {
        expected.check(value).map_or_else(|reason| assert_line(&reason), |()| {});
    } else {
        drop(expected.check(value));
    }
});
