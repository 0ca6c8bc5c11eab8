//! `text`: any text, as a JSON string.
//!
//! White space around it goes, most of all the newline that programs end with; white space inside stays, line
//! breaks too.

use estimand_api::json::push_string;
use estimand_api::registration::Format;

use super::{Answer, Dialect, DialectKind, Output, Reading, bounded, if_said};

pub(super) const KIND: DialectKind =
    DialectKind { name: "text", about: "any text", format: Format::Text, dialect: &Text };

struct Text;

impl Dialect for Text {
    fn read(&self, output: Output<'_>) -> Result<Reading, String> {
        if_said(output, |text| value(text).map(|json| Answer::One(json).into()))
    }
}

/// The text as a JSON string.
pub(super) fn value(text: &str) -> Result<Box<str>, String> {
    let mut json = Vec::with_capacity(text.len() + 2);
    push_string(&mut json, text);
    let json = String::from_utf8(json).map_err(|error| format!("the output is not UTF-8: {error}"))?;
    bounded("the text", json)
}
