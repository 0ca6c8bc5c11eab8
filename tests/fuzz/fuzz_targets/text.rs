//! The dialect `text`: what it gives is the text, to the letter.

#![no_main]

use estimand_api::registration::Format;
use estimand_dialects::Answer;
use estimand_fuzz::dialects::{feed, read_whole};
use estimand_fuzz::{assert_value, text};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    feed(Format::Text, data);
    let Ok(reading) = read_whole(Format::Text, data) else { return };
    if let (Answer::One(json), Some(text)) = (reading.answer, text(data)) {
        let bare = text.strip_prefix('\u{feff}').unwrap_or(text).trim();
        assert_eq!(assert_value(&json).as_str(), Some(bare));
    }
});
