//! Readers of the texts of options that give fields.

use std::str::FromStr;

use serde_json::{Value, json};

use crate::declaration::Input;
use crate::duration::Span;

/// An option's text that must be a `T`.
pub(crate) fn text_of<T>(text: &str) -> Result<Value, String>
where
    T: FromStr + serde::Serialize,
    T::Err: std::fmt::Display,
{
    text.parse::<T>().map(|value| json!(value)).map_err(|e| e.to_string())
}

/// A number or a boolean if the text is exactly how JSON writes it, so that nothing of it changes on its way;
/// otherwise the text.
pub(crate) fn scalar(text: &str) -> Value {
    let read =
        serde_json::from_str::<Value>(text).ok().filter(|value| value.is_number() || value.is_boolean());
    let written = read.as_ref().map(Value::to_string);
    read.filter(|_| written.as_deref() == Some(text)).unwrap_or_else(|| json!(text))
}

/// An option's text that is a duration.
pub(crate) const SPAN: Input =
    Input::Text(|text| Span::parse(text).map(|span| json!(span)).map_err(|e| e.to_string()));

/// A member of an object, whose value is a number or a truth if the text is one.
pub(crate) fn pair_of_scalar(key: &str, text: &str) -> (String, Value) {
    (key.to_owned(), scalar(text))
}

/// A member of an object, whose value is the text.
pub(crate) fn pair_of_text(key: &str, text: &str) -> (String, Value) {
    (key.to_owned(), Value::from(text))
}

/// An option's text that is a number.
pub(crate) const NUMBER: Input = Input::Text(|text| match serde_json::from_str::<Value>(text) {
    Ok(number @ Value::Number(_)) => Ok(number),
    _ => Err("expected a number".to_owned()),
});

/// An option's text as it stands.
pub(crate) const TEXT: Input = Input::Text(|text| Ok(Value::from(text)));
