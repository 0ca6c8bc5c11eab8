//! The dialect `ndjson`.

#![no_main]

use estimand_api::registration::Format;
use estimand_fuzz::dialects::feed;

libfuzzer_sys::fuzz_target!(|data: &[u8]| feed(Format::Ndjson, data));
