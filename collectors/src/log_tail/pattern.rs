//! The pattern, and the match of a line.

use regex::bytes::{Regex, RegexBuilder};
use serde_json::{Map, Number, Value, json};

const MOST_PATTERN: usize = 4096;
const MOST_GROUPS: usize = 32;

/// The most memory of a compiled pattern, and of its scratch memory.
const MOST_MEMORY: usize = 1 << 20;

/// As much of a line is shown.
const MOST_LINE: usize = 1024;

/// As much of what a group captured.
const MOST_GROUP: usize = 512;

pub(super) struct Pattern {
    regex: Regex,
    text: String,
}

impl Pattern {
    pub(super) fn new(text: &str) -> Result<Self, String> {
        let wrong = |why: String| format!("the parameter `pattern` is invalid: {why}");
        if text.len() > MOST_PATTERN {
            return Err(wrong(format!("it has {} bytes, more than {MOST_PATTERN}", text.len())));
        }
        let mut builder = RegexBuilder::new(text);
        let regex = builder.size_limit(MOST_MEMORY).dfa_size_limit(MOST_MEMORY).build();
        let regex = regex.map_err(|error| wrong(error.to_string()))?;
        if regex.captures_len() > MOST_GROUPS + 1 {
            return Err(wrong(format!("it has more than {MOST_GROUPS} groups")));
        }
        Ok(Pattern { regex, text: text.to_owned() })
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// The match of a line, if it matches; `at` is when its file was last written.
    pub(super) fn on(&self, line: &[u8], at: Option<&str>) -> Option<Match> {
        let captures = self.regex.captures(line)?;
        let groups = self.regex.capture_names().flatten().map(|name| {
            let value = captures.name(name).map_or(Value::Null, |group| value_of(group.as_bytes()));
            (name.to_owned(), value)
        });
        Some(Match { matched: groups.collect(), line: shown(line, MOST_LINE), at: at.map(str::to_owned) })
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Match {
    pub matched: Map<String, Value>,
    pub line: String,
    pub at: Option<String>,
}

impl Match {
    pub(super) fn shown(&self) -> Value {
        let mut value = json!({"matched": self.matched, "line": self.line});
        if let Some(at) = &self.at {
            value["at"] = json!(at);
        }
        value
    }

    /// Reads what `shown` gave.
    pub(super) fn read(value: &Value) -> Option<Self> {
        Some(Match {
            matched: value.get("matched")?.as_object()?.clone(),
            line: value.get("line")?.as_str()?.to_owned(),
            at: value.get("at").and_then(Value::as_str).map(str::to_owned),
        })
    }
}

/// A JSON number is a number, if all of its digits can be kept; all else is text.
fn value_of(bytes: &[u8]) -> Value {
    let text = shown(bytes, MOST_GROUP);
    let number = serde_json::from_str::<Number>(&text).ok();
    if bytes.len() > MOST_GROUP {
        return Value::String(text);
    }
    let whole = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    match number.filter(|number| !whole || !number.is_f64()) {
        // Blanks around a number are not part of it.
        Some(number) if text.trim() == text => Value::Number(number),
        _ => Value::String(text),
    }
}

/// The beginning as text. Bytes that are no text, and characters that would grow when they are written as JSON, become `�`.
fn shown(bytes: &[u8], most: usize) -> String {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(most + 4)]);
    let mut out = String::new();
    for letter in text.chars() {
        let letter = if letter.is_control() && letter != '\t' { '\u{fffd}' } else { letter };
        if out.len() + letter.len_utf8() > most {
            break;
        }
        out.push(letter);
    }
    out
}
