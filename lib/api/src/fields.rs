//! Reads a JSON object field by field and says everything that is wrong with it, not only the first thing.
//!
//! A field that is never taken is unknown, and the answer names it together with the known field that it resembles.
//! Nothing is ever ignored.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::json::{self, kind_of};
use crate::names::{DataName, NodeName, UserName};
use crate::problem::{FieldError, Problem};

/// The longest id of a task or promise.
pub const MAX_ID_BYTES: usize = 64;

/// An object being read.
pub struct Fields {
    /// Where the object stands, with a trailing dot, or empty at the top.
    prefix: String,
    map: Map<String, Value>,
    known: Vec<&'static str>,
    errors: Vec<FieldError>,
}

impl Fields {
    pub fn new(map: Map<String, Value>) -> Self {
        Fields { prefix: String::new(), map, known: Vec::new(), errors: Vec::new() }
    }

    /// Reads an object that is the value of `field`.
    pub fn nested(field: &str, map: Map<String, Value>) -> Self {
        Fields { prefix: format!("{field}."), ..Self::new(map) }
    }

    /// Reads an object that stands at `prefix`, which ends with a dot or is empty.
    pub fn within(prefix: String, map: Map<String, Value>) -> Self {
        Fields { prefix, ..Self::new(map) }
    }

    /// Takes an optional field; `null` is the same as absent. `read` returns its value, or a message about the
    /// error.
    pub fn optional<T>(
        &mut self,
        name: &'static str,
        expected: &str,
        read: impl FnOnce(&Value) -> Result<T, String>,
    ) -> Option<T> {
        self.known.push(name);
        let value = self.value(name)?;
        match read(value) {
            Ok(read) => Some(read),
            Err(message) => {
                let given = match value {
                    Value::String(text) => text.clone(),
                    other => other.to_string(),
                };
                let error = FieldError::new(self.place(name), message).given(given).expected(expected);
                self.errors.push(error);
                None
            }
        }
    }

    /// The same for a field whose reader gives the places of the errors in it.
    pub fn part<T>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(&Value) -> Result<T, Vec<FieldError>>,
    ) -> Option<T> {
        self.known.push(name);
        let read = read(self.value(name)?);
        read.map_err(|errors| self.errors.extend(errors)).ok()
    }

    /// Takes a field that must be there.
    pub fn required<T>(
        &mut self,
        name: &'static str,
        expected: &str,
        read: impl FnOnce(&Value) -> Result<T, String>,
    ) -> Option<T> {
        let is_null = self.map.get(name).map(Value::is_null);
        let value = self.optional(name, expected, read);
        let error = match is_null {
            None => FieldError::new(self.place(name), "is missing"),
            Some(true) => FieldError::new(self.place(name), "is null").given("null"),
            Some(false) => return value,
        };
        self.errors.push(error.expected(expected));
        None
    }

    /// The value of a field that is there and not null; it may have been taken already.
    pub fn value(&self, name: &str) -> Option<&Value> {
        self.map.get(name).filter(|value| !value.is_null())
    }

    pub fn error(&mut self, name: &str, message: impl Into<String>) -> &mut FieldError {
        let place = self.errors.len();
        self.errors.push(FieldError::new(self.place(name), message));
        &mut self.errors[place]
    }

    /// Adds errors found elsewhere, e.g. in a nested object.
    pub fn extend(&mut self, errors: Vec<FieldError>) {
        self.errors.extend(errors);
    }

    /// Ends the reading: the fields that are left are unknown. Returns every error.
    pub fn end(mut self) -> Vec<FieldError> {
        for (name, value) in std::mem::take(&mut self.map) {
            if self.known.contains(&name.as_str()) {
                continue;
            }
            let expected = match meant(&name, &self.known) {
                Some(close) => format!("`{close}`?"),
                None => format!("one of {}", self.known.join(", ")),
            };
            let error = FieldError::new(self.place(&name), "is not a known field");
            self.errors.push(error.given(value).expected(expected));
        }
        self.errors
    }

    /// Ends the reading of a whole body.
    pub fn end_body(self) -> Result<(), Problem> {
        match self.end() {
            errors if errors.is_empty() => Ok(()),
            errors => Err(Problem::invalid(errors)),
        }
    }

    /// Where a field stands, as errors in it say.
    pub fn place(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }
}

/// Reads a string.
pub fn string(value: &Value) -> Result<&str, String> {
    value.as_str().ok_or_else(|| format!("is {}, not a string", kind_of(value)))
}

/// Reads a text that has something in it, and no more than so many bytes.
pub fn text(value: &Value, most: usize) -> Result<String, String> {
    match string(value)? {
        text if text.trim().is_empty() => Err("is empty".to_owned()),
        text if text.len() > most => Err(format!("has more than {most} bytes")),
        text if text.contains('\0') => Err("has a NUL".to_owned()),
        text => Ok(text.to_owned()),
    }
}

/// Reads the id of a task or promise: at most [`MAX_ID_BYTES`] of letters, digits and `._-`, a letter or digit first.
pub fn id(value: &Value) -> Result<String, String> {
    let text = string(value)?;
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
    let first = text.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric());
    match first && text.len() <= MAX_ID_BYTES && text.bytes().all(allowed) {
        true => Ok(text.to_owned()),
        false => Err("is not an id".to_owned()),
    }
}

/// Reads a number.
pub fn number(value: &Value) -> Result<f64, String> {
    value.as_f64().ok_or_else(|| format!("is {}, not a number", kind_of(value)))
}

/// Reads a whole number from `least` to `most`.
pub fn whole(value: &Value, least: u64, most: u64) -> Result<u64, String> {
    let number = json::whole(value).ok_or_else(|| match value {
        Value::Number(_) => "is not a whole number of at least 0".to_owned(),
        other => format!("is {}, not a number", kind_of(other)),
    })?;
    match (least..=most).contains(&number) {
        true => Ok(number),
        false => Err(format!("is not from {least} to {most}")),
    }
}

/// Names that people give to the same field. The interface has one of each row.
const SYNONYMS: &[&[&str]] = &[
    &["cmd", "command", "exec", "argv"],
    &["dataName", "name"],
    &["nodeName", "node", "host", "hostname"],
    &["dataValue", "value"],
    &["to", "target"],
    &["max-Time", "every", "interval", "period"],
    &["schedule", "cron"],
    &["env", "environment"],
];

/// The known field that was probably meant: one of another name for it, or else the nearest.
fn meant<'n>(given: &str, known: &[&'n str]) -> Option<&'n str> {
    let is_same = |name: &str| {
        SYNONYMS
            .iter()
            .any(|row| row.contains(&name) && row.iter().any(|one| one.eq_ignore_ascii_case(given)))
    };
    known.iter().copied().find(|name| is_same(name)).or_else(|| nearest(given, known.iter().copied()))
}

/// More of a given name is not compared.
const MAX_GIVEN_CHARS: usize = 64;

/// The known name that was probably meant, if one is near enough. A short word is a few edits away
/// from any other; a guess must keep most of the given letters. Two letters in each other's place are one edit.
pub fn nearest<'n>(given: &str, known: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let given: String = given.chars().take(MAX_GIVEN_CHARS).collect::<String>().to_ascii_lowercase();
    let distance = |known: &str| strsim::osa_distance(&known.to_ascii_lowercase(), &given);
    let close = known.min_by_key(|known| distance(known))?;
    (distance(close) <= (given.len() / 3).min(3)).then_some(close)
}

/// Reads a truth value.
pub fn truth(value: &Value) -> Result<bool, String> {
    value.as_bool().ok_or_else(|| format!("is {}, not true or false", kind_of(value)))
}

/// Reads a string and parses it.
pub fn parsed<T: std::str::FromStr>(value: &Value) -> Result<T, String>
where
    T::Err: std::fmt::Display,
{
    string(value)?.parse().map_err(|e: T::Err| e.to_string())
}

/// Reads a data name. The field says its form.
pub fn data_name(value: &Value) -> Result<DataName, String> {
    DataName::parse(string(value)?).map_err(|_| "is not a data name".to_owned())
}

/// Reads a user's name.
pub fn user_name(value: &Value) -> Result<UserName, String> {
    UserName::parse(string(value)?).map_err(|_| "is not a user's name".to_owned())
}

/// Reads a node name.
pub fn node_name(value: &Value) -> Result<NodeName, String> {
    NodeName::parse(string(value)?).map_err(|_| "is not a node name".to_owned())
}

/// Reads one word of an enum.
pub fn variant<T: DeserializeOwned>(value: &Value) -> Result<T, String> {
    string(value)?;
    T::deserialize(value).map_err(|_| "is not known".to_owned())
}

/// Reads one of a fixed set of words.
pub fn word<T: Copy>(value: &Value, words: &[(&str, T)]) -> Result<T, String> {
    let text = string(value)?;
    words.iter().find(|(word, _)| *word == text).map(|(_, meaning)| *meaning).ok_or("is not known".to_owned())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::json::parse_object;

    #[test]
    fn another_name_for_a_field_is_understood_in_the_hint() {
        for (given, known, expected) in [
            ("command", &["dataName", "cmd"][..], Some("cmd")),
            ("cmd", &["id", "command"], Some("command")),
            ("node", &["dataName", "nodeName"], Some("nodeName")),
            ("node", &["command", "nodes"], Some("nodes")),
            ("value", &["dataValue", "validFor"], Some("dataValue")),
            ("target", &["to", "field"], Some("to")),
            ("Interval", &["max-Time", "gap"], Some("max-Time")),
            ("timout", &["timeout", "to"], Some("timeout")),
            ("colour", &["to", "field"], None),
        ] {
            assert_eq!(meant(given, known), expected, "{given}");
        }
    }

    #[test]
    fn all_errors_are_reported_at_once() {
        let map = parse_object(br#"{"max-time": 5, "cmd": 7, "n": 11}"#).unwrap();
        let mut fields = Fields::new(map);
        fields.required("dataName", "a data name", |v| string(v).map(str::to_owned));
        fields.required("cmd", "a command", |v| string(v).map(str::to_owned));
        fields.optional("max-Time", "seconds", number);
        fields.optional("n", "1 to 10", |v| whole(v, 1, 10));
        let errors: Vec<String> = fields.end().iter().map(ToString::to_string).collect();
        assert_eq!(
            errors,
            [
                "dataName: is missing; expected a data name",
                "cmd: is a number, not a string, given 7; expected a command",
                "n: is not from 1 to 10, given 11; expected 1 to 10",
                "max-time: is not a known field, given 5; expected `max-Time`?",
            ]
        );
    }
}
