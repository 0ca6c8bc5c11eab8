//! The expectations of registrations: the first line is an object of `schema`, `range` and `unit`, the rest a value.

#![no_main]

use estimand_api::fields::Fields;
use estimand_api::json::{parse_document, parse_object};
use estimand_api::registration::Expectations;
use estimand_fuzz::{assert_line, assert_short, two_texts};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((fields, value)) = two_texts(data) else { return };
    let Ok(map) = parse_object(fields.as_bytes()) else { return };
    let mut fields = Fields::new(map);
    let expected = Expectations::read(&mut fields);
    let errors = fields.end();
    if !errors.is_empty() {
        return errors.iter().for_each(|error| assert_short(&error.message));
    }
    let entries = expected.entries().into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    let mut fields = Fields::new(entries);
    assert_eq!(Expectations::read(&mut fields), expected);
    assert!(fields.end().is_empty());
    if parse_document(value.as_bytes()).is_ok() {
        expected.check(value).map_or_else(|reason| assert_line(&reason), |()| {});
    } else {
        drop(expected.check(value));
    }
});
