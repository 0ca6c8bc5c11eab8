//! JSON pointers: the first line is the pointer, the rest a value. A look into the text finds what a look into the
//! tree finds.

#![no_main]

use estimand_api::json::parse_document;
use estimand_api::pointer::Pointer;
use estimand_fuzz::{assert_line, is_json, two_texts};
use serde_json::Value;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((pointer, json)) = two_texts(data) else { return };
    let pointer = match Pointer::parse(pointer) {
        Ok(pointer) => pointer,
        Err(error) => {
            assert_line(&error.to_string());
            return assert_line(&error.at("field").to_string());
        }
    };
    assert_eq!(Pointer::parse(&pointer.to_string()).as_ref(), Ok(&pointer));
    let found = pointer.find(json);
    let nearby = pointer.nearby(json, 4);
    assert!(nearby.len() <= 4);
    let Ok(document) = parse_document(json.as_bytes()) else { return };
    let parsed = found.map(|part| {
        assert!(is_json(part), "{part}");
        serde_json::from_str::<Value>(part).ok()
    });
    assert_eq!(parsed, document.pointer(pointer.as_str()).cloned().map(Some));
    for near in nearby {
        assert!(document.pointer(&near).is_some(), "{near}");
        // One that is too long, or whose key has a NUL, is none that can be asked for.
        if let Ok(near) = Pointer::parse(&near) {
            assert!(near.find(json).is_some(), "{near}");
        }
    }
});
