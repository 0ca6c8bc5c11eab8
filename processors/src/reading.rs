//! Reads numbers out of the values of inputs.
//!
//! There are three cases: a number; `null`, the figure of a collector that does not know it yet, of which there is no
//! estimate; and anything else, which is a failure with the input and the place.

use serde_json::Value;

/// How much of a wrong value a message repeats.
const MOST_SHOWN: usize = 60;

/// The value at a pointer; none if there is a `null` there or on the way there.
pub(crate) fn value_at<'a>(
    input: &str,
    value: &'a Value,
    pointer: &str,
) -> Result<Option<&'a Value>, String> {
    if let Some(found) = value.pointer(pointer) {
        return Ok(Some(found).filter(|found| !found.is_null()));
    }
    let cuts = pointer.char_indices().filter(|(_, c)| *c == '/').map(|(at, _)| at);
    match cuts.filter_map(|at| value.pointer(&pointer[..at])).any(Value::is_null) {
        true => Ok(None),
        false => Err(format!("`{input}` has nothing at {pointer}; it is {}", shown(value))),
    }
}

/// The number at a pointer; none for `null`.
pub(crate) fn number_at(input: &str, value: &Value, pointer: &str) -> Result<Option<f64>, String> {
    value_at(input, value, pointer)?.map(|found| number(input, found, pointer)).transpose()
}

/// The same where it may also be absent.
pub(crate) fn optional_number_at(input: &str, value: &Value, pointer: &str) -> Result<Option<f64>, String> {
    match value.pointer(pointer) {
        None | Some(Value::Null) => Ok(None),
        Some(found) => number(input, found, pointer).map(Some),
    }
}

pub(crate) fn number(input: &str, value: &Value, pointer: &str) -> Result<f64, String> {
    value
        .as_f64()
        .filter(|number| number.is_finite())
        .ok_or_else(|| format!("{} is {}, which is no number", place(input, pointer), shown(value)))
}

/// How a message names a place in an input.
pub(crate) fn place(input: &str, pointer: &str) -> String {
    match pointer {
        "" => format!("`{input}`"),
        _ => format!("{pointer} of `{input}`"),
    }
}

/// A value as a message shows it.
pub(crate) fn shown(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(MOST_SHOWN) {
        None => text,
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}
