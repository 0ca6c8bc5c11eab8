//! A place inside a JSON value, as RFC 6901 writes it: `/value`, `/cores/0/usage`.
//!
//! A pointer is looked up in the *text* of a value, which becomes no tree: the result is a piece of the
//! text, so numbers keep their digits, and a look costs one pass over the text before the place. It is
//! meant for text that was checked when it came in (see [`crate::json`]); in any other text it may find
//! nothing or something odd, but never panics and never looks at a byte twice.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::problem::{FieldError, shorten};
use crate::schema;

/// The longest pointer, in bytes.
pub const MAX_POINTER_BYTES: usize = 512;

/// A JSON pointer that leads into a value. A clone counts a reference.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pointer(Arc<str>);

/// A text that is no such pointer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is not a JSON pointer: {message}", shorten(.given))]
pub struct PointerError {
    given: String,
    message: &'static str,
}

impl PointerError {
    /// The same as an error of the field in which the pointer stood.
    pub fn at(&self, field: &str) -> FieldError {
        let error = FieldError::new(field, format!("is not a JSON pointer: {}", self.message));
        let error = error.given(&self.given);
        // Without a slash, most people mean a key of the value itself.
        match Pointer::parse(&format!("/{}", self.given)) {
            Ok(meant) if !self.given.is_empty() && !self.given.starts_with('/') => {
                error.expected(format!("`{meant}`?"))
            }
            _ => error.expected(Pointer::EXPECTED),
        }
    }
}

/// The form of a pointer.
fn described() -> Value {
    let mut text = schema::text(Pointer::EXPECTED, Pointer::PATTERN, "/value");
    text["maxLength"] = MAX_POINTER_BYTES.into();
    text
}

crate::described!(Pointer, [], described());

impl Pointer {
    /// The form of a pointer, for messages.
    pub const EXPECTED: &'static str =
        "a JSON pointer such as `/value` or `/cores/0`, in which `~1` stands for `/` and `~0` for `~`";

    /// The same as a regular expression.
    pub const PATTERN: &'static str = r"^(/([^~/\x00]|~[01])*)+$";

    /// Checks the text and makes a pointer of it. The empty pointer, which leads to the whole value, is rejected:
    /// a request for the whole value has no field.
    pub fn parse(text: &str) -> Result<Self, PointerError> {
        let wrong = |message| Err(PointerError { given: text.to_owned(), message });
        if !text.starts_with('/') {
            return wrong("it does not begin with `/`");
        }
        if text.len() > MAX_POINTER_BYTES {
            return wrong("it is longer than 512 bytes");
        }
        // Not every database keeps such a text.
        if text.contains('\0') {
            return wrong("it has a character U+0000");
        }
        let mut escapes = text.split('~').skip(1);
        if !escapes.all(|rest| rest.starts_with(['0', '1'])) {
            return wrong("a `~` in it is not followed by `0` or `1`");
        }
        Ok(Pointer(Arc::from(text)))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The part of a JSON text that it leads to.
    pub fn find<'j>(&self, json: &'j str) -> Option<&'j str> {
        let mut place = Cursor::new(json);
        for token in self.tokens() {
            place.enter(&token)?;
        }
        json.get(place.value()?)
    }

    /// The pointers that lead on from the last place on the way that is there, at most `most` of them: hints for
    /// a pointer that finds nothing.
    pub fn nearby(&self, json: &str, most: usize) -> Vec<String> {
        let mut place = Cursor::new(json);
        let mut at = String::new();
        for token in self.tokens() {
            let mut next = place.clone();
            if next.enter(&token).is_none() {
                break;
            }
            place = next;
            push_token(&mut at, &token);
        }
        let child = |token: Cow<'_, str>| {
            let mut pointer = at.clone();
            push_token(&mut pointer, &token);
            pointer
        };
        place.children().take(most).map(child).collect()
    }

    /// The keys and places on the way.
    fn tokens(&self) -> impl Iterator<Item = Cow<'_, str>> {
        self.0.split('/').skip(1).map(|token| match token.contains('~') {
            false => Cow::Borrowed(token),
            true => Cow::Owned(token.replace("~1", "/").replace("~0", "~")),
        })
    }
}

fn push_token(pointer: &mut String, token: &str) {
    pointer.push('/');
    pointer.push_str(&token.replace('~', "~0").replace('/', "~1"));
}

/// A place in a JSON text: before a value, white space aside.
#[derive(Clone)]
struct Cursor<'j> {
    text: &'j str,
    at: usize,
}

impl<'j> Cursor<'j> {
    fn new(text: &'j str) -> Self {
        Cursor { text, at: 0 }
    }

    /// The next byte that is no white space.
    fn peek(&mut self) -> Option<u8> {
        let rest = &self.text.as_bytes()[self.at..];
        self.at += rest.iter().position(|b| !matches!(b, b' ' | b'\t' | b'\r' | b'\n'))?;
        self.text.as_bytes().get(self.at).copied()
    }

    fn take(&mut self, wanted: u8) -> Option<()> {
        (self.peek()? == wanted).then(|| self.at += 1)
    }

    /// Goes to the value of a key, or of a place in an array.
    fn enter(&mut self, token: &str) -> Option<()> {
        match self.peek()? {
            b'{' => {
                self.at += 1;
                while self.peek()? != b'}' {
                    let key = self.string()?;
                    self.take(b':')?;
                    if is_key(key, token) {
                        return self.peek().map(drop);
                    }
                    self.next_member()?;
                }
                None
            }
            b'[' => {
                let index = index(token)?;
                self.at += 1;
                for _ in 0..index {
                    if self.peek()? == b']' {
                        return None;
                    }
                    self.next_member()?;
                }
                (self.peek()? != b']').then_some(())
            }
            _ => None,
        }
    }

    /// Passes over a value and the comma that follows it, if one does.
    fn next_member(&mut self) -> Option<()> {
        self.value()?;
        if self.peek()? == b',' {
            self.at += 1;
        }
        Some(())
    }

    /// Passes over a string and returns it with its quotes.
    fn string(&mut self) -> Option<&'j str> {
        let start = self.at;
        self.take(b'"')?;
        let bytes = self.text.as_bytes();
        while *bytes.get(self.at)? != b'"' {
            self.at += if bytes[self.at] == b'\\' { 2 } else { 1 };
        }
        self.at += 1;
        self.text.get(start..self.at)
    }

    /// Passes over a value and says where it stood.
    fn value(&mut self) -> Option<Range<usize>> {
        let first = self.peek()?;
        let start = self.at;
        let mut depth = 0_usize;
        loop {
            match self.peek()? {
                b'"' => drop(self.string()?),
                b'{' | b'[' => {
                    depth += 1;
                    self.at += 1;
                }
                b'}' | b']' => {
                    depth = depth.checked_sub(1)?;
                    self.at += 1;
                }
                b',' | b':' if depth > 0 => self.at += 1,
                _ => self.scalar()?,
            }
            if depth == 0 {
                break;
            }
        }
        debug_assert!(self.at > start, "passed over nothing at {first}");
        Some(start..self.at)
    }

    /// Passes over a number or a word.
    fn scalar(&mut self) -> Option<()> {
        let is_part = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'+' | b'.');
        let rest = &self.text.as_bytes()[self.at..];
        let length = rest.iter().position(|b| !is_part(b)).unwrap_or(rest.len());
        self.at += length;
        (length > 0).then_some(())
    }

    /// The keys of an object, or the places in an array.
    fn children(mut self) -> impl Iterator<Item = Cow<'j, str>> {
        let open = self.peek();
        self.at += 1;
        (0..).map_while(move |place: usize| match (open?, self.peek()?) {
            (_, b'}' | b']') => None,
            (b'{', _) => {
                let key = unescaped(self.string()?);
                self.take(b':')?;
                self.next_member()?;
                Some(key)
            }
            (b'[', _) => self.next_member().map(|()| Cow::Owned(place.to_string())),
            _ => None,
        })
    }
}

/// A string token, quotes and escapes included, is this key.
fn is_key(token: &str, key: &str) -> bool {
    let inner = &token[1..token.len() - 1];
    // An escape is longer than its character.
    inner == key && !inner.contains('\\') || inner.len() > key.len() && unescaped(token) == key
}

fn unescaped(token: &str) -> Cow<'_, str> {
    let inner = &token[1..token.len() - 1];
    match inner.contains('\\') {
        false => Cow::Borrowed(inner),
        true => serde_json::from_str(token).map_or(Cow::Borrowed(inner), Cow::Owned),
    }
}

/// A place in an array: digits without a leading zero. `-`, the place after the last one, leads nowhere.
fn index(token: &str) -> Option<usize> {
    let plain = token.bytes().all(|b| b.is_ascii_digit()) && (token == "0" || !token.starts_with('0'));
    token.parse().ok().filter(|_| plain)
}

impl FromStr for Pointer {
    type Err = PointerError;
    fn from_str(text: &str) -> Result<Self, PointerError> {
        Self::parse(text)
    }
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &self.0)
    }
}

impl Serialize for Pointer {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Pointer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        Pointer::parse(&text).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
#[path = "pointer_tests.rs"]
mod tests;
