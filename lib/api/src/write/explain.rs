//! The errors of a write that was not accepted: reads it again, field by field.

use std::collections::BTreeMap;

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::{MAX_ORDER, MAX_PROVENANCE_BYTES, check_batch_size, positive};
use crate::duration::Span;
use crate::fields::{self, Fields};
use crate::instant;
use crate::json::{self, kind_of};
use crate::names::{DataName, NodeName};
use crate::problem::{FieldError, Problem};
use crate::value::MAX_VALUE_BYTES;

/// Finds the errors of a single write.
pub(super) fn explain(body: &[u8]) -> Problem {
    let map = match json::parse_object(body) {
        Ok(map) => map,
        Err(problem) => return problem,
    };
    match read(map, String::new()) {
        Err(WriteFault::Wrong(errors)) => Problem::invalid(errors),
        Err(WriteFault::TooLarge(detail)) => Problem::too_large(detail),
        Ok(()) => as_written(body)
            .unwrap_or_else(|| Problem::invalid_field(FieldError::new("body", "is not a write of a value"))),
    }
}

/// A value that is too large only as it is written: it is kept to the letter, escapes too.
fn as_written(write: &[u8]) -> Option<Problem> {
    let parts: BTreeMap<String, &RawValue> = serde_json::from_slice(write).ok()?;
    let limits = [("dataValue", MAX_VALUE_BYTES), ("provenance", MAX_PROVENANCE_BYTES)];
    limits.into_iter().find_map(|(name, most)| {
        let bytes = parts.get(name)?.get().len();
        (bytes > most)
            .then(|| Problem::too_large(format!("{name} has {bytes} bytes; at most {most} are taken")))
    })
}

/// Why a write is refused.
enum WriteFault {
    Wrong(Vec<FieldError>),
    TooLarge(String),
}

/// Finds the errors of a batch.
pub(super) fn explain_batch(body: &[u8]) -> Problem {
    let items = match json::parse_document(body) {
        Err(problem) => return problem,
        Ok(Value::Array(items)) => items,
        Ok(other) => {
            let error = FieldError::new("body", format!("is {}", kind_of(&other)));
            return Problem::invalid_field(error.expected("an array of writes"));
        }
    };
    if let Err(problem) = check_batch_size(items.len()) {
        return problem;
    }
    let mut errors = Vec::new();
    for (place, item) in items.into_iter().enumerate() {
        let refused = match item {
            Value::Object(map) => read(map, format!("[{place}].")),
            other => {
                let error = FieldError::new(format!("[{place}]"), format!("is {}", kind_of(&other)));
                Err(WriteFault::Wrong(vec![error.expected("a write of a value")]))
            }
        };
        match refused {
            Ok(()) => {}
            Err(WriteFault::TooLarge(detail)) => {
                return Problem::too_large(format!("item [{place}]: {detail}"));
            }
            Err(WriteFault::Wrong(wrong)) => errors.extend(wrong),
        }
        if errors.len() >= 100 {
            break;
        }
    }
    if !errors.is_empty() {
        return Problem::invalid(errors);
    }
    let items: Vec<&RawValue> = serde_json::from_slice(body).unwrap_or_default();
    items
        .into_iter()
        .find_map(|item| as_written(item.get().as_bytes()))
        .unwrap_or_else(|| Problem::invalid_field(FieldError::new("body", "is not a batch of writes")))
}

/// Reads a write field by field, and returns its errors.
fn read(map: Map<String, Value>, prefix: String) -> Result<(), WriteFault> {
    let mut too_large = None;
    let has_value = map.contains_key("dataValue");
    if let Some(value) = map.get("dataValue") {
        let bytes = value.to_string().len();
        if bytes > MAX_VALUE_BYTES {
            too_large = Some(format!("dataValue has {bytes} bytes; a value has at most {MAX_VALUE_BYTES}"));
        }
    }
    let mut fields = Fields::within(prefix, map);
    fields.required("dataName", DataName::EXPECTED, fields::data_name);
    fields.required("nodeName", NodeName::EXPECTED, fields::node_name);
    fields.optional("dataValue", "any JSON", |_| Ok(()));
    fields.optional("collectedAt", "an instant such as 2026-01-31T23:59:59Z", |value| {
        instant::parse_rfc3339(fields::string(value)?).ok_or("is not an RFC 3339 instant".to_owned())
    });
    let valid_for =
        fields.optional("validFor", "more than 0: seconds, or a duration such as \"15s\"", |value| {
            let span: Span = serde_json::from_value(value.clone()).map_err(|e| e.to_string())?;
            positive(span).ok_or("is not more than 0".to_owned())
        });
    let epoch = fields.optional("epoch", "a whole number", |value| fields::whole(value, 0, MAX_ORDER));
    let sequence = fields.optional("sequence", "a whole number", |value| fields::whole(value, 0, MAX_ORDER));
    if epoch.is_some() != sequence.is_some() {
        fields.error("epoch", "and `sequence` go together: give both or neither");
    }
    let failed = fields
        .optional("state", "`fresh` with a value or `failed` without one", |value| {
            fields::word(value, &[("fresh", false), ("failed", true)])
        })
        .unwrap_or(false);
    let provenance = fields.optional("provenance", "an object of at most 16 KiB", |value| match value {
        Value::Object(_) if value.to_string().len() <= MAX_PROVENANCE_BYTES => Ok(()),
        Value::Object(_) => Err("is too large".to_owned()),
        other => Err(format!("is {}", kind_of(other))),
    });
    if failed && (has_value || valid_for.is_some() || provenance.is_some()) {
        fields
            .error("state", "`failed` keeps the last good value: give no dataValue, validFor or provenance");
    }
    if !failed && !has_value {
        let _ = fields.error("dataValue", "is missing").expected.insert("any JSON".to_owned());
    }
    match (fields.end(), too_large) {
        (_, Some(detail)) => Err(WriteFault::TooLarge(detail)),
        (errors, None) if !errors.is_empty() => Err(WriteFault::Wrong(errors)),
        _ => Ok(()),
    }
}
