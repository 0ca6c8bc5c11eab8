//! Attributes as texts: the labels that tell series apart, as `--format prometheus` writes them.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use estimand_api::json::push_string;
use estimand_api::series;

use crate::messages::{AnyValue, AnyValueKind, KeyValue};

/// Attributes by their names. Of one that comes twice the last counts.
pub type Labels = BTreeMap<String, String>;

pub fn labels(attributes: &[KeyValue]) -> Labels {
    attributes.iter().map(|one| (one.key.clone(), text(one.value.as_ref()))).collect()
}

pub fn label_text(labels: &Labels) -> String {
    series::label_text(labels.iter().map(|(name, value)| (&**name, &**value)))
}

/// A text is itself, everything else is JSON; bytes are in base64, and nothing is the empty text.
fn text(value: Option<&AnyValue>) -> String {
    match value.and_then(|value| value.value.as_ref()) {
        None => String::new(),
        Some(AnyValueKind::Text(text)) => text.clone(),
        Some(AnyValueKind::Bytes(bytes)) => STANDARD.encode(bytes),
        Some(_) => {
            let mut out = Vec::new();
            push_json(&mut out, value);
            String::from_utf8(out).unwrap_or_default()
        }
    }
}

/// As deep as the message that was decoded, which is bounded.
fn push_json(out: &mut Vec<u8>, value: Option<&AnyValue>) {
    match value.and_then(|value| value.value.as_ref()) {
        None => out.extend_from_slice(b"null"),
        Some(AnyValueKind::Text(text)) => push_string(out, text),
        Some(AnyValueKind::Bool(bool)) => out.extend_from_slice(bool.to_string().as_bytes()),
        Some(AnyValueKind::Int(int)) => out.extend_from_slice(int.to_string().as_bytes()),
        Some(AnyValueKind::Double(double)) => out.extend_from_slice(number(*double).as_bytes()),
        Some(AnyValueKind::Bytes(bytes)) => push_string(out, &STANDARD.encode(bytes)),
        Some(AnyValueKind::Array(array)) => {
            out.push(b'[');
            for (place, value) in array.values.iter().enumerate() {
                out.extend_from_slice(if place == 0 { b"" } else { b"," });
                push_json(out, Some(value));
            }
            out.push(b']');
        }
        Some(AnyValueKind::Members(members)) => {
            out.push(b'{');
            for (place, member) in members.values.iter().enumerate() {
                out.extend_from_slice(if place == 0 { b"" } else { b"," });
                push_string(out, &member.key);
                out.push(b':');
                push_json(out, member.value.as_ref());
            }
            out.push(b'}');
        }
    }
}

/// A number as JSON; what JSON has no number for is a text, as `--format prometheus` has it.
pub fn number(double: f64) -> String {
    match serde_json::Number::from_f64(double) {
        Some(number) => number.to_string(),
        None if double.is_nan() => "\"NaN\"".to_owned(),
        None if double > 0.0 => "\"+Inf\"".to_owned(),
        None => "\"-Inf\"".to_owned(),
    }
}
