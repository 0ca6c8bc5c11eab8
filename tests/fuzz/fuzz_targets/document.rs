//! JSON from outside: `parse_document`, `parse_object`, `compact`, `push_string`.

#![no_main]

use estimand_api::json::{compact, parse_document, parse_object, push_string};
use estimand_fuzz::{assert_refused, assert_line, is_json, text};
use serde_json::Value;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let object = parse_object(data);
    let document = parse_document(data);
    match (&document, &object) {
        (Ok(Value::Object(map)), object) => assert_eq!(object.as_ref().ok(), Some(map)),
        (_, Ok(map)) => panic!("an object, but no document: {map:?}"),
        (Err(problem), _) | (_, Err(problem)) => assert_refused(problem),
    }
    let Some(text) = text(data) else { return };
    let mut token = Vec::new();
    push_string(&mut token, text);
    assert_eq!(serde_json::from_slice::<String>(&token).ok().as_deref(), Some(text));
    if !is_json(text) {
        return assert!(document.is_err());
    }
    match compact(text) {
        Ok(short) => {
            assert!(short.len() <= text.len() && !short.contains(['\n', '\r', '\t']));
            assert_eq!(compact(&short).as_deref(), Ok(&*short));
            assert_eq!(document.ok(), serde_json::from_str(&short).ok());
        }
        Err(error) => {
            assert!(document.is_err());
            assert_line(&error.to_string());
        }
    }
});
