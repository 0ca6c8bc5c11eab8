//! `json`: exactly one JSON document.

use estimand_api::json::compact;
use estimand_api::registration::Format;
use serde_json::StreamDeserializer;
use serde_json::de::StrRead;
use serde_json::value::RawValue;

use super::{Answer, Dialect, DialectKind, Output, Reading, bounded, head, if_said, tail};

pub(super) const KIND: DialectKind =
    DialectKind { name: "json", about: "exactly one JSON document", format: Format::Json, dialect: &Json };

struct Json;

impl Dialect for Json {
    fn read(&self, output: Output<'_>) -> Result<Reading, String> {
        if_said(output, |text| value(text).map(|json| Answer::One(json).into()))
    }
}

/// True if the text is one JSON document as far as syntax goes.
pub(super) fn is_document(text: &str) -> bool {
    serde_json::from_str::<&RawValue>(text).is_ok()
}

/// The text as a value, if it is one JSON document that every reader can take.
pub(super) fn value(text: &str) -> Result<Box<str>, String> {
    checked(text).and_then(|json| bounded("the value", json))
}

/// The document in compact form, of whatever size.
pub(super) fn checked(text: &str) -> Result<Box<str>, String> {
    match serde_json::from_str::<&RawValue>(text) {
        Ok(raw) => match compact(raw.get()) {
            Ok(json) => Ok(json.into()),
            Err(error) => Err(format!("the output {error}; expected JSON that every reader can take")),
        },
        Err(error) => Err(explain(text, &error)),
    }
}

/// The reason why the text is not one JSON document.
fn explain(text: &str, error: &serde_json::Error) -> String {
    let mut documents: StreamDeserializer<'_, StrRead<'_>, &RawValue> =
        serde_json::Deserializer::from_str(text).into_iter();
    let has_first = matches!(documents.next(), Some(Ok(_)));
    let rest = text.get(documents.byte_offset()..).unwrap_or_default().trim_start();
    if has_first && !rest.is_empty() {
        let problem = if is_document(rest) || matches!(documents.next(), Some(Ok(_))) {
            "holds more than one JSON document; the second one begins with"
        } else {
            "goes on after its JSON document with"
        };
        return format!("the output {problem} `{}`; expected exactly one JSON document", head(rest));
    }
    let place = position(text, error.line(), error.column());
    let excerpt = match error.is_eof() {
        true => format!("it ends with `{}`", tail(text)),
        false => format!("near `{}`", head(&text[place..])),
    };
    format!("the output is not JSON: {error}, {excerpt}; expected exactly one JSON document")
}

/// Where in the text a line and a column are, both counted from 1, a column being a byte.
fn position(text: &str, line: usize, column: usize) -> usize {
    let start = match line {
        0 | 1 => 0,
        _ => text.match_indices('\n').nth(line - 2).map_or(0, |(at, _)| at + 1),
    };
    let mut at = (start + column.saturating_sub(1)).min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}
