//! The dialect `nagios`: the first byte is the exit code.

#![no_main]

use estimand_api::registration::Format;
use estimand_fuzz::dialects::{feed, feed_exit};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((exit, output)) = data.split_first() else { return };
    match exit % 4 {
        0 => feed(Format::Nagios, output),
        exit => feed_exit(Format::Nagios, output, i32::from(exit)),
    }
});
