//! The dialect `number`: what it gives is the number that was printed.

#![no_main]

use estimand_api::registration::Format;
use estimand_dialects::Answer;
use estimand_fuzz::dialects::{feed, read_whole};
use estimand_fuzz::text;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    feed(Format::Number, data);
    let Ok(reading) = read_whole(Format::Number, data) else { return };
    if let (Answer::One(json), Some(text)) = (reading.answer, text(data)) {
        let printed = text.strip_prefix('\u{feff}').unwrap_or(text).trim().parse::<f64>();
        assert_eq!(json.parse::<f64>(), printed);
        assert!(printed.is_ok_and(f64::is_finite));
    }
});
