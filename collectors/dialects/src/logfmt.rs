//! `logfmt`: a line of `key=value` pairs is a row.
//!
//! A value without quotes is a number, `true`, `false` or null (empty) if it looks like it; a value in quotes is
//! a text, with the escapes of JSON. A key alone is true, but a line of words without any pair is a line of some
//! text and left out, as is one whose quotes are wrong. Of a key that comes twice the first value stays.

use estimand_api::registration::Format;
use std::borrow::Cow;
use std::collections::HashSet;

use super::build::{MAX_OUTPUT_BYTES, MAX_RECORDS, Object, Rows, none_good, too_many};
use super::{Answer, Dialect, DialectKind, Output, Reading, RejectedRecords, head, text_of};

pub(super) const KIND: DialectKind =
    DialectKind { name: "logfmt", about: "lines of `key=value`", format: Format::Logfmt, dialect: &Logfmt };

struct Logfmt;

impl Dialect for Logfmt {
    fn most_output(&self) -> usize {
        MAX_OUTPUT_BYTES
    }

    fn read(&self, output: Output<'_>) -> Result<Reading, String> {
        let Some(text) = text_of(output.stdout)? else { return Ok(Reading::default()) };
        let mut rows = Rows::default();
        let mut rejected = RejectedRecords::default();
        let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        for (count, (number, line)) in lines.enumerate() {
            if count == MAX_RECORDS {
                return Err(too_many("lines"));
            }
            match row(line) {
                Ok((row, twice)) => {
                    rows.push(&row);
                    for key in twice {
                        rejected.push(|| {
                            format!(
                                "line {}: the key `{}` comes twice; expected each once",
                                number + 1,
                                head(key)
                            )
                        });
                    }
                }
                Err(problem) => rejected.push(|| format!("line {}: {problem}", number + 1)),
            }
            if rows.is_full() {
                break;
            }
        }
        match rows.is_empty() {
            true => Err(none_good("lines", &rejected)),
            false => Ok(Reading { answer: Answer::One(rows.finish()?), rejected }),
        }
    }
}

/// The row of a line, and the keys that came again.
fn row(line: &str) -> Result<(Object, Vec<&str>), String> {
    let mut row = Object::default();
    let mut seen = HashSet::new();
    let mut twice = Vec::new();
    let mut has_pair = false;
    let mut rest = line.trim();
    while !rest.is_empty() {
        let (key, value, next) = pair(rest)?;
        has_pair |= value.is_some();
        rest = next.trim_start();
        if !seen.insert(key) {
            twice.push(key);
            continue;
        }
        match value {
            None => row.raw(key, "true"),
            Some(Value::Bare(text)) => row.scalar(key, text),
            Some(Value::Quoted(text)) => row.text(key, &text),
        }
    }
    match has_pair {
        true => Ok((row, twice)),
        false => {
            Err(format!("`{}` has no `=`; expected pairs such as load=0.5 state=\"all well\"", head(line)))
        }
    }
}

enum Value<'a> {
    Bare(&'a str),
    Quoted(Cow<'a, str>),
}

/// The pair that a text begins with, and what follows it.
fn pair(text: &str) -> Result<(&str, Option<Value<'_>>, &str), String> {
    let end =
        text.find(|char: char| char == '=' || char == '"' || char.is_whitespace()).unwrap_or(text.len());
    let (key, rest) = text.split_at(end);
    if key.is_empty() || rest.starts_with('"') {
        return Err(format!("`{}` begins with no key; expected one such as load=0.5", head(text)));
    }
    let Some(rest) = rest.strip_prefix('=') else { return Ok((key, None, rest)) };
    if let Some(quoted) = rest.strip_prefix('"') {
        let (value, rest) = unquote(quoted)?;
        return match rest.is_empty() || rest.starts_with(char::is_whitespace) {
            true => Ok((key, Some(Value::Quoted(value)), rest)),
            false => Err(format!("`{}` follows a closing quote; expected a space", head(rest))),
        };
    }
    let (value, rest) = rest.split_at(rest.find(char::is_whitespace).unwrap_or(rest.len()));
    match value.contains('"') {
        false => Ok((key, Some(Value::Bare(value)), rest)),
        true => Err(format!("the value `{}` has a quote inside; expected quotes around it", head(value))),
    }
}

/// The text up to a closing quote, and what follows the quote.
fn unquote(text: &str) -> Result<(Cow<'_, str>, &str), String> {
    let mut out = Cow::Borrowed("");
    let mut rest = text;
    loop {
        let end = rest.find(['"', '\\']).ok_or_else(|| {
            format!("the quote before `{}` is never closed; expected one on the same line", head(text))
        })?;
        out += &rest[..end];
        rest = &rest[end..];
        if let Some(rest) = rest.strip_prefix('"') {
            return Ok((out, rest));
        }
        let length = escape_length(rest);
        // JSON knows these escapes and has no others.
        let escaped =
            rest.get(..length).and_then(|token| serde_json::from_str::<String>(&format!("\"{token}\"")).ok());
        let escaped = escaped.ok_or_else(|| {
            let shown: String = rest.chars().take(length).collect();
            format!("`{}` is no escape; expected one as in JSON, such as \\\" or \\n", head(&shown))
        })?;
        out.to_mut().push_str(&escaped);
        rest = &rest[length..];
    }
}

/// How many bytes the escape has that a text begins with. Half of a surrogate pair needs the other half.
fn escape_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    match bytes {
        [b'\\', b'u', b'd' | b'D', b'8'..=b'9' | b'a'..=b'b' | b'A'..=b'B', ..] => 12,
        [b'\\', b'u', ..] => 6,
        _ => 2,
    }
}

#[cfg(test)]
mod tests;
