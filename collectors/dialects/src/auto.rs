//! `auto`: JSON if it is JSON, else the text.
//!
//! So `0.5`, `true` and `null` are what they are in JSON, and `007`, `1.`, `NaN` and `up 3 days` are texts.
//! JSON that no reader could take (a key twice, `1e999`) is a failure, and a text that begins like a JSON
//! object, array or string has to be one: half a document is a failure of the program, not a text.

use super::{Answer, Dialect, DialectKind, Output, Reading, if_said, json, text};
use estimand_api::registration::Format;

pub(super) const KIND: DialectKind =
    DialectKind { name: "auto", about: "JSON, else any text", format: Format::Auto, dialect: &Auto };

struct Auto;

impl Dialect for Auto {
    fn read(&self, output: Output<'_>) -> Result<Reading, String> {
        if_said(output, |text| read(text).map(Reading::from))
    }
}

fn read(text: &str) -> Result<Answer, String> {
    if json::is_document(text) {
        return json::value(text).map(Answer::One);
    }
    if text.starts_with(['{', '[', '"']) {
        let problem = json::value(text).err().unwrap_or_default();
        return Err(format!("{problem}, or the format `text` if it is none"));
    }
    text::value(text).map(Answer::One)
}
