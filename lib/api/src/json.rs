//! The rules for a JSON document from outside beyond its syntax, and the text form in which values are kept.
//!
//! Text is valid UTF-8, nests at most [`MAX_DEPTH`] deep and names no key twice in one object: a duplicate
//! key means that sender and reader may disagree about the value. Its numbers are finite and its strings are
//! text, so that every reader can take the text of any writer. [`compact`] checks that on text whose
//! syntax serde_json has already accepted, and removes the white space between tokens, so that a value is one
//! line. Numbers and strings are kept to the letter.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::problem::{FieldError, Problem, shorten};

/// How deep arrays and objects may nest.
pub const MAX_DEPTH: usize = 64;

/// Why a document is refused although its syntax is right.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JsonError {
    #[error("nests deeper than {MAX_DEPTH} levels")]
    TooDeep,
    #[error("has the key `{0}` twice in one object")]
    DuplicateKey(String),
    #[error("has the number {0}, which is larger than any reader can take")]
    NumberTooLarge(String),
    #[error("has the string {0} with half a surrogate pair, which is no character")]
    LoneSurrogate(String),
}

/// Checks syntactically valid JSON and removes white space between tokens; copies only if there is any.
pub fn compact(text: &str) -> Result<Cow<'_, str>, JsonError> {
    let text = text.trim_matches([' ', '\t', '\r', '\n']);
    let bytes = text.as_bytes();
    let mut scan = Scan { text, open: Vec::new(), out: None, copied: 0 };
    let mut at = 0;
    while at < bytes.len() {
        at = scan.token(at)?;
    }
    match scan.out {
        None => Ok(Cow::Borrowed(text)),
        Some(mut out) => {
            out.push_str(&text[scan.copied..]);
            Ok(Cow::Owned(out))
        }
    }
}

/// One open array or object; an object remembers its keys.
enum Open<'a> {
    Array,
    Object { keys: Keys<'a>, expects_key: bool },
}

/// The keys of one object. Few are searched one by one, which is fastest; of many each is found at once.
#[derive(Default)]
struct Keys<'a> {
    few: Vec<Cow<'a, str>>,
    many: HashSet<Cow<'a, str>>,
}

impl<'a> Keys<'a> {
    const FEW: usize = 32;

    /// Adds a key; an error with the key if it is there already.
    fn add(&mut self, key: Cow<'a, str>) -> Result<(), Cow<'a, str>> {
        if self.few.contains(&key) || self.many.contains(&key) {
            return Err(key);
        }
        match self.few.len() {
            0..Self::FEW => self.few.push(key),
            _ => drop(self.many.insert(key)),
        }
        Ok(())
    }
}

struct Scan<'a> {
    text: &'a str,
    open: Vec<Open<'a>>,
    /// The compacted text so far, once white space was met.
    out: Option<String>,
    /// Up to where the text has been copied into `out` or skipped.
    copied: usize,
}

impl<'a> Scan<'a> {
    /// Takes the token that starts at `at` and returns where the next one starts.
    fn token(&mut self, at: usize) -> Result<usize, JsonError> {
        match self.text.as_bytes()[at] {
            b'{' => self.enter(Open::Object { keys: Keys::default(), expects_key: true })?,
            b'[' => self.enter(Open::Array)?,
            b'}' | b']' => drop(self.open.pop()),
            b',' => {
                if let Some(Open::Object { expects_key, .. }) = self.open.last_mut() {
                    *expects_key = true;
                }
            }
            b'"' => return self.string(at),
            b'-' | b'0'..=b'9' => return self.number(at),
            b' ' | b'\t' | b'\r' | b'\n' => return Ok(self.skip_white_space(at)),
            _ => {}
        }
        Ok(at + 1)
    }

    fn enter(&mut self, open: Open<'a>) -> Result<(), JsonError> {
        if self.open.len() == MAX_DEPTH {
            return Err(JsonError::TooDeep);
        }
        self.open.push(open);
        Ok(())
    }

    fn string(&mut self, start: usize) -> Result<usize, JsonError> {
        let bytes = self.text.as_bytes();
        let mut end = start + 1;
        while bytes[end] != b'"' {
            end += if bytes[end] == b'\\' { 2 } else { 1 };
        }
        let next = end + 1;
        let token = &self.text[start..next];
        if token.contains("\\u") && serde_json::from_str::<String>(token).is_err() {
            return Err(JsonError::LoneSurrogate(shorten(token)));
        }
        if let Some(Open::Object { keys, expects_key: expects_key @ true }) = self.open.last_mut() {
            *expects_key = false;
            if let Err(key) = keys.add(unescape(token)) {
                return Err(JsonError::DuplicateKey(shorten(&key)));
            }
        }
        Ok(next)
    }

    fn number(&self, start: usize) -> Result<usize, JsonError> {
        let rest = &self.text[start..];
        let is_part = |b: u8| b.is_ascii_digit() || matches!(b, b'-' | b'+' | b'.' | b'e' | b'E');
        let length = rest.bytes().position(|b| !is_part(b)).unwrap_or(rest.len());
        let token = &rest[..length];
        // Only an exponent or hundreds of digits can leave the range of numbers.
        let is_suspect = length > 300 || token.contains(['e', 'E']);
        match !is_suspect || token.parse::<f64>().is_ok_and(f64::is_finite) {
            true => Ok(start + length),
            false => Err(JsonError::NumberTooLarge(shorten(token))),
        }
    }

    fn skip_white_space(&mut self, start: usize) -> usize {
        let bytes = self.text.as_bytes();
        let mut end = start;
        while matches!(bytes.get(end), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            end += 1;
        }
        let out = self.out.get_or_insert_with(|| String::with_capacity(self.text.len()));
        out.push_str(&self.text[self.copied..start]);
        self.copied = end;
        end
    }
}

/// The text of a string token without quotes and escapes.
fn unescape(token: &str) -> Cow<'_, str> {
    if token.contains('\\') {
        return match serde_json::from_str::<String>(token) {
            Ok(text) => Cow::Owned(text),
            Err(_) => Cow::Borrowed(token),
        };
    }
    Cow::Borrowed(&token[1..token.len() - 1])
}

/// Parses a body that must be one JSON object; the problem names the kind of any other body.
pub fn parse_object(body: &[u8]) -> Result<Map<String, Value>, Problem> {
    match parse_document(body)? {
        Value::Object(map) => Ok(map),
        other => Err(body_error(format!("is {}", kind_of(&other)), Some(&other.to_string()))),
    }
}

/// The text of a member of a body that must be one JSON object, for whoever passes it on; none if the body has no such member.
pub fn member_of(body: &[u8], name: &str) -> Result<Option<String>, Problem> {
    let text = checked_text(body)?;
    let members: HashMap<Cow<'_, str>, &RawValue> =
        serde_json::from_str(&text).map_err(|_| body_error("is not an object".to_owned(), Some(&text)))?;
    Ok(members.get(name).map(|member| member.get().to_owned()))
}

/// Parses a body that must be JSON and satisfy the rules of this module.
pub fn parse_document(body: &[u8]) -> Result<Value, Problem> {
    let text = checked_text(body)?;
    serde_json::from_str(&text).map_err(|e| body_error(format!("is not JSON: {e}"), None))
}

/// The text of a body that is JSON and satisfies the rules of this module, without white space between its tokens.
fn checked_text(body: &[u8]) -> Result<Cow<'_, str>, Problem> {
    let text = std::str::from_utf8(body)
        .map_err(|e| body_error(format!("is not UTF-8 from byte {} on", e.valid_up_to()), None))?;
    if text.trim().is_empty() {
        return Err(body_error("is empty".to_owned(), None));
    }
    let raw: &RawValue =
        serde_json::from_str(text).map_err(|e| body_error(format!("is not JSON: {e}"), Some(text)))?;
    compact(raw.get()).map_err(|e| body_error(e.to_string(), None))
}

fn body_error(message: String, given: Option<&str>) -> Problem {
    let error = FieldError::new("body", message).expected("a JSON object in UTF-8");
    Problem::invalid_field(match given {
        Some(given) => error.given(given),
        None => error,
    })
}

/// The whole number that a value is, also if it is written with nothing behind its point: `3.0` is 3.
pub fn whole(value: &Value) -> Option<u64> {
    const BEYOND: f64 = (1_u128 << 64) as f64;
    let fraction = || value.as_f64().filter(|number| number.fract() == 0.0 && (0.0..BEYOND).contains(number));
    value.as_u64().or_else(|| fraction().map(|number| number as u64))
}

/// The same document with its whole numbers written as such: a derived reader of `u64` does not take `3.0` for one.
pub fn written_whole(document: Value) -> Value {
    match document {
        Value::Number(_) => whole(&document).map_or(document, Value::from),
        Value::Array(items) => items.into_iter().map(written_whole).collect(),
        Value::Object(map) => map.into_iter().map(|(key, value)| (key, written_whole(value))).collect(),
        other => other,
    }
}

/// `#[serde(deserialize_with = "whole_or_null")]` on an optional field that is such a number.
pub fn whole_or_null<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let Some(number) = Option::<serde_json::Number>::deserialize(deserializer)? else { return Ok(None) };
    let wrong = || serde::de::Error::custom(format!("{number} is not a whole number of at least 0"));
    whole(&Value::Number(number.clone())).map(Some).ok_or_else(wrong)
}

/// The kind of a JSON value, in words.
pub fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// Appends a string as a JSON string token.
pub fn push_string(out: &mut Vec<u8>, text: &str) {
    // Names and most texts need no escape; then this is one copy.
    if text.bytes().all(|b| b >= 0x20 && b != b'"' && b != b'\\') {
        out.push(b'"');
        out.extend_from_slice(text.as_bytes());
        out.push(b'"');
    } else if let Ok(token) = serde_json::to_string(text) {
        out.extend_from_slice(token.as_bytes());
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn white_space_goes_and_text_stays() {
        let check = |given: &str, expected: &str| assert_eq!(compact(given).unwrap(), expected);
        check(" 1.50 ", "1.50");
        check("{ \"a b\" : [ 1 , 2 ] }\n", "{\"a b\":[1,2]}");
        check("\"two  spaces\"", "\"two  spaces\"");
        check("[\"\\\" \", {}]", "[\"\\\" \",{}]");
        check("12345678901234567890123", "12345678901234567890123");
    }

    #[test]
    fn a_key_twice_is_refused_wherever_it_hides() {
        let twice = |text: &str| matches!(compact(text), Err(JsonError::DuplicateKey(_)));
        assert!(twice(r#"{"a":1,"a":2}"#));
        assert!(twice(r#"[{"b":{"a":1,"\u0061":2}}]"#));
        assert!(!twice(r#"{"a":{"a":1},"b":["a","a"]}"#));
        let many: Vec<String> = (0..200).map(|n| format!("\"k{n}\":{n}")).collect();
        assert!(!twice(&format!("{{{}}}", many.join(","))));
        assert!(twice(&format!("{{{},\"k7\":0}}", many.join(","))));
        assert!(twice(&format!("{{{},\"k199\":0}}", many.join(","))));
    }

    #[test]
    fn a_document_that_no_reader_could_take_is_rejected() {
        for number in ["1e999", "-1E+400", "[1e309]", &"9".repeat(400)] {
            assert!(matches!(compact(number), Err(JsonError::NumberTooLarge(_))), "{number}");
        }
        for text in [r#""\ud800""#, r#"{"a":["x\udc00y"]}"#, r#"{"\ud800":1}"#] {
            assert!(matches!(compact(text), Err(JsonError::LoneSurrogate(_))), "{text}");
        }
        for fine in ["1e300", "-0.5", "1E-400", r#""\ud83d\ude00""#, &"9".repeat(200)] {
            assert_eq!(compact(fine).unwrap(), fine);
        }
    }

    #[test]
    fn nesting_has_a_bound() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(compact(&nested(MAX_DEPTH)).is_ok());
        assert_eq!(compact(&nested(MAX_DEPTH + 1)), Err(JsonError::TooDeep));
        assert!(parse_document(nested(10_000).as_bytes()).unwrap_err().detail.contains("nests deeper"));
    }

    #[test]
    fn a_number_is_whole_however_it_is_written() {
        let read = |text: &str| whole(&serde_json::from_str(text).unwrap());
        assert_eq!(
            (read("3"), read("3.0"), read("2e3"), read("-0.0")),
            (Some(3), Some(3), Some(2000), Some(0))
        );
        assert_eq!(read("18446744073709551615"), Some(u64::MAX));
        for other in ["3.5", "-1", "-1.0", "18446744073709551616", "1e300", "true"] {
            assert_eq!(read(other), None, "{other}");
        }
        let document: Value = serde_json::from_str(r#"{"a":[1.0,{"b":2.5}]}"#).unwrap();
        assert_eq!(written_whole(document).to_string(), r#"{"a":[1,{"b":2.5}]}"#);
    }

    #[test]
    fn a_body_that_is_no_object_is_told_so() {
        let detail = |body: &[u8]| parse_object(body).unwrap_err().detail;
        assert!(detail(b"").contains("is empty"));
        assert!(detail(b"{\"a\":").contains("is not JSON"));
        assert!(detail(b"[1]").contains("is an array"));
        assert!(detail(b"\"\xff\"").contains("is not UTF-8 from byte 1 on"));
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            ".{0,12}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 64, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::btree_map(".{0,6}", inner, 0..6)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn compacting_pretty_json_gives_compact_json(value in any_json()) {
            let pretty = serde_json::to_string_pretty(&value).unwrap();
            let text = compact(&pretty).unwrap().into_owned();
            prop_assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value.clone());
            prop_assert_eq!(text, serde_json::to_string(&value).unwrap());
        }
    }
}
