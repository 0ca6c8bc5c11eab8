//! Instants: one that was read is written as the same.

#![no_main]

use estimand_api::instant::{parse_rfc3339, to_rfc3339};
use estimand_fuzz::text;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Some(micros) = text(data).and_then(parse_rfc3339) {
        assert_eq!(parse_rfc3339(&to_rfc3339(micros)), Some(micros));
    }
});
