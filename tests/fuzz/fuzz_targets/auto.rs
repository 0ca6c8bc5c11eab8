//! The dialect `auto`: what `json` takes it takes as `json` does.

#![no_main]

use estimand_api::registration::Format;
use estimand_fuzz::dialects::{feed, read_whole};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    feed(Format::Auto, data);
    if let Ok(reading) = read_whole(Format::Json, data) {
        assert_eq!(read_whole(Format::Auto, data), Ok(reading));
    }
});
