//! Label selectors: which nodes something is meant for, in the notation users know from Kubernetes.
//!
//! A selector is a list of requirements, all of which must hold; the empty one matches every node. Parsing
//! checks everything and says at which character it stopped; matching cannot fail and allocates nothing.
//! A displayed selector parses to the same selector.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::names::MAX_NODE_NAME;
use crate::problem::shorten;
use crate::schema;

macro_rules! requirement_pattern {
    () => {
        "(!?[A-Za-z0-9][A-Za-z0-9._/-]{0,62}|[A-Za-z0-9][A-Za-z0-9._/-]{0,62}((==?|!=)[A-Za-z0-9._-]{0,253}| (not)?in \\(([A-Za-z0-9._-]{1,253}|[A-Za-z0-9._-]{0,253}(, ?[A-Za-z0-9._-]{0,253})+)\\)))"
    };
}

/// The longest text of a selector that is stored: of a registration, of a task.
pub const MAX_SELECTOR_BYTES: usize = 1024;
/// The longest one of a read, which is not: it may name thousands of nodes.
pub const MAX_READ_SELECTOR_BYTES: usize = 1024 * 1024;
/// The most requirements of a selector.
pub const MAX_REQUIREMENTS: usize = 32;
/// The longest key of a label.
pub const MAX_KEY_BYTES: usize = 63;
/// The longest value of a label: a node's name is one.
pub const MAX_VALUE_BYTES: usize = MAX_NODE_NAME;

/// The form of a label's key, for messages.
pub const KEY_EXPECTED: &str =
    "a label key: a letter or digit, then at most 62 of letters, digits and `._/-`";
/// The form of a label's value, for messages.
pub const VALUE_EXPECTED: &str = "a label value: at most 253 of letters, digits and `._-`";

/// The form of a label's key as a regular expression.
pub const KEY_PATTERN: &str = "^[A-Za-z0-9][A-Za-z0-9._/-]{0,62}$";
/// The form of a label's value as a regular expression.
pub const VALUE_PATTERN: &str = "^[A-Za-z0-9._-]{0,253}$";
/// The same of a selector, with white space only where it has to be and after commas.
const PATTERN: &str = concat!("^(", requirement_pattern!(), "(, ?", requirement_pattern!(), "){0,31})?$");

/// Chooses nodes by their labels.
///
/// | text | holds if the label `k` |
/// | --- | --- |
/// | `k=v`, `k==v` | is `v` |
/// | `k!=v` | is not `v`, or is absent |
/// | `k in (a,b)` | is one of them |
/// | `k notin (a,b)` | is none of them, or is absent |
/// | `k` | is there |
/// | `!k` | is absent |
///
/// ```
/// use estimand_api::selector::Selector;
///
/// let selector: Selector = "zone in (b, a), gpu, arch!=arm64".parse()?;
/// let labels = |pairs: &[(&str, &str)]| pairs.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
/// assert!(selector.matches(&labels(&[("zone", "a"), ("gpu", "h200")])));
/// assert!(!selector.matches(&labels(&[("zone", "a")])));
/// assert_eq!(selector.to_string(), "zone in (a,b),gpu,arch!=arm64");
/// # Ok::<(), estimand_api::selector::SelectorError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Selector {
    requirements: Vec<Requirement>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Requirement {
    key: String,
    condition: Condition,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Condition {
    Exists,
    Absent,
    Is(String),
    IsNot(String),
    In(BTreeSet<String>),
    NotIn(BTreeSet<String>),
}

/// A selector that is not one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SelectorError {
    #[error("the selector has {bytes} bytes; at most {most} are taken")]
    TooLong { bytes: usize, most: usize },
    #[error("the selector has more than {MAX_REQUIREMENTS} requirements")]
    TooMany,
    /// `position` counts characters from 1.
    #[error("at character {position}: found {found}; expected {expected}")]
    Syntax { position: usize, found: String, expected: &'static str },
}

/// A label may have this key.
pub fn is_label_key(text: &str) -> bool {
    text.len() <= MAX_KEY_BYTES
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.bytes().all(is_key_byte)
}

/// A label may have this value; the empty text is one.
pub fn is_label_value(text: &str) -> bool {
    text.len() <= MAX_VALUE_BYTES && text.bytes().all(is_value_byte)
}

fn is_key_byte(byte: u8) -> bool {
    is_value_byte(byte) || byte == b'/'
}

fn is_value_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"._-".contains(&byte)
}

/// The form of a selector.
fn described() -> Value {
    let mut text = schema::text("A label selector", PATTERN, "zone in (a, b),gpu,!slow");
    text["maxLength"] = MAX_SELECTOR_BYTES.into();
    text
}

crate::described!(Selector, [], described());

/// The form of a selector in a read.
#[derive(Debug)]
pub enum ReadSelector {}

/// A selector's form, but for its length.
fn described_of_reads() -> Value {
    let mut text = described();
    text["maxLength"] = MAX_READ_SELECTOR_BYTES.into();
    text
}

crate::described!(ReadSelector, [], described_of_reads());

impl Selector {
    pub fn parse(text: &str) -> Result<Selector, SelectorError> {
        Selector::parse_within(text, MAX_SELECTOR_BYTES)
    }

    /// Parses the selector of a read, which may be longer.
    pub fn parse_of_read(text: &str) -> Result<Selector, SelectorError> {
        Selector::parse_within(text, MAX_READ_SELECTOR_BYTES)
    }

    fn parse_within(text: &str, most: usize) -> Result<Selector, SelectorError> {
        if text.len() > most {
            return Err(SelectorError::TooLong { bytes: text.len(), most });
        }
        let mut parser = Parser { text, at: 0 };
        let mut requirements = Vec::new();
        parser.skip_white_space();
        while !parser.rest().is_empty() {
            if requirements.len() == MAX_REQUIREMENTS {
                return Err(SelectorError::TooMany);
            }
            requirements.push(parser.requirement()?);
            if parser.rest().is_empty() {
                break;
            }
            parser.expect(",", "`,` and the next requirement, or the end")?;
            // A comma announces another requirement, so the text must not end after it.
            if parser.rest().is_empty() {
                return Err(parser.error(KEY_EXPECTED));
            }
        }
        let selector = Selector { requirements };
        // Its displayed form can be longer than the given one, and must still be a selector.
        match selector.to_string().len() {
            bytes if bytes <= most => Ok(selector),
            bytes => Err(SelectorError::TooLong { bytes, most }),
        }
    }

    /// A node with these labels is chosen.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.requirements.iter().all(|requirement| requirement.holds(labels))
    }

    /// The keys of the labels that it asks for.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.requirements.iter().map(|requirement| requirement.key.as_str())
    }

    /// It asks for nothing, and so matches every node.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }
}

impl Requirement {
    fn holds(&self, labels: &BTreeMap<String, String>) -> bool {
        let label = labels.get(&self.key);
        match &self.condition {
            Condition::Exists => label.is_some(),
            Condition::Absent => label.is_none(),
            Condition::Is(value) => label == Some(value),
            Condition::IsNot(value) => label != Some(value),
            Condition::In(values) => label.is_some_and(|label| values.contains(label)),
            Condition::NotIn(values) => label.is_none_or(|label| !values.contains(label)),
        }
    }
}

/// A place in the text. Every method that takes something also takes the white space after it.
struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Parser<'a> {
    fn requirement(&mut self) -> Result<Requirement, SelectorError> {
        if self.take("!") {
            return Ok(Requirement { key: self.key()?, condition: Condition::Absent });
        }
        let key = self.key()?;
        let condition = if self.take("!=") {
            Condition::IsNot(self.value()?)
        } else if self.take("==") || self.take("=") {
            Condition::Is(self.value()?)
        } else if self.take_word("in") {
            Condition::In(self.values()?)
        } else if self.take_word("notin") {
            Condition::NotIn(self.values()?)
        } else if self.rest().is_empty() || self.rest().starts_with(',') {
            Condition::Exists
        } else {
            return Err(self.error("`=`, `!=`, `in (…)`, `notin (…)`, `,` or the end after a key"));
        };
        Ok(Requirement { key, condition })
    }

    fn key(&mut self) -> Result<String, SelectorError> {
        let text = self.peek(is_key_byte);
        if !is_label_key(text) {
            return Err(self.error(KEY_EXPECTED));
        }
        self.advance(text.len());
        Ok(text.to_owned())
    }

    fn value(&mut self) -> Result<String, SelectorError> {
        let text = self.peek(is_value_byte);
        // The empty value is one only if nothing else stands in its place.
        let other = text.is_empty() && !(self.rest().is_empty() || self.rest().starts_with([',', ')']));
        if other || !is_label_value(text) {
            return Err(self.error(VALUE_EXPECTED));
        }
        self.advance(text.len());
        Ok(text.to_owned())
    }

    fn values(&mut self) -> Result<BTreeSet<String>, SelectorError> {
        self.expect("(", "`(` and a list of values")?;
        // `(,)` is the empty value; `()` says nothing, which is more likely a slip.
        if self.rest().starts_with(')') {
            return Err(self.error("at least one value"));
        }
        let mut values = BTreeSet::from([self.value()?]);
        while self.take(",") {
            values.insert(self.value()?);
        }
        self.expect(")", "`,` and another value, or `)`")?;
        Ok(values)
    }

    fn take(&mut self, token: &str) -> bool {
        let found = self.rest().starts_with(token);
        if found {
            self.advance(token.len());
        }
        found
    }

    /// Takes a word that ends where the word ends, so that `in` is not found in `index`.
    fn take_word(&mut self, word: &str) -> bool {
        self.peek(is_key_byte) == word && self.take(word)
    }

    fn expect(&mut self, token: &str, expected: &'static str) -> Result<(), SelectorError> {
        match self.take(token) {
            true => Ok(()),
            false => Err(self.error(expected)),
        }
    }

    fn peek(&self, belongs: fn(u8) -> bool) -> &'a str {
        let rest = self.rest();
        &rest[..rest.bytes().position(|byte| !belongs(byte)).unwrap_or(rest.len())]
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn advance(&mut self, bytes: usize) {
        self.at += bytes;
        self.skip_white_space();
    }

    fn skip_white_space(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start().len();
    }

    fn error(&self, expected: &'static str) -> SelectorError {
        let word = self.peek(is_key_byte);
        let found = match self.rest().chars().next() {
            None => "the end".to_owned(),
            Some(_) if !word.is_empty() => format!("`{}`", shorten(word)),
            Some(c) => format!("`{}`", c.escape_debug()),
        };
        SelectorError::Syntax { position: self.text[..self.at].chars().count() + 1, found, expected }
    }
}

impl FromStr for Selector {
    type Err = SelectorError;
    fn from_str(text: &str) -> Result<Selector, SelectorError> {
        Selector::parse(text)
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.requirements.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{requirement}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = &self.key;
        match &self.condition {
            Condition::Exists => write!(f, "{key}"),
            Condition::Absent => write!(f, "!{key}"),
            Condition::Is(value) => write!(f, "{key}={value}"),
            Condition::IsNot(value) => write!(f, "{key}!={value}"),
            Condition::In(values) => write!(f, "{key} in ({})", Values(values)),
            Condition::NotIn(values) => write!(f, "{key} notin ({})", Values(values)),
        }
    }
}

struct Values<'a>(&'a BTreeSet<String>);

impl fmt::Display for Values<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The empty value alone needs a comma to be seen.
        if self.0.iter().all(String::is_empty) {
            return f.write_str(",");
        }
        for (index, value) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{value}")?;
        }
        Ok(())
    }
}

impl Serialize for Selector {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Selector {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        Selector::parse(&text).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests;
