//! The names that everything is addressed by.
//!
//! A name is checked once, where it enters, and from then on its type says that it is right: no handler and
//! no client passes a bare string on. Both kinds are ASCII without `/`, so `dataName/nodeName` is a key that
//! can be taken apart again. Names are shared, not copied: a clone counts a reference.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::problem::FieldError;
use crate::schema;

/// The longest data name.
pub const MAX_DATA_NAME: usize = 128;
/// The longest node name.
pub const MAX_NODE_NAME: usize = 253;
/// The longest name of a user.
pub const MAX_USER_NAME: usize = 64;

/// A name that is not one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is not a {what}: {expected}", crate::problem::shorten(.given))]
pub struct NameError {
    what: &'static str,
    given: String,
    expected: &'static str,
}

impl DataName {
    /// Stands where no name has been read yet. It is empty, so it equals no name.
    pub(crate) fn unread() -> Self {
        DataName(Arc::from(""))
    }
}

impl NameError {
    /// The same as an error of the field in which the name stood.
    pub fn at(&self, field: &str) -> FieldError {
        FieldError::new(field, format!("is not a {}", self.what)).given(&self.given).expected(self.expected)
    }
}

macro_rules! name_type {
    ($(#[$doc:meta])* $name:ident, $what:literal, $expected:literal, $pattern:literal, $example:literal, $valid:expr) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks the text and makes a name of it.
            pub fn parse(text: &str) -> Result<Self, NameError> {
                match Self::is_valid(text) {
                    true => Ok($name(Arc::from(text))),
                    false => Err(NameError { what: $what, given: text.to_owned(), expected: $expected }),
                }
            }

            /// The text is such a name.
            pub fn is_valid(text: &str) -> bool {
                let valid: fn(&[u8]) -> bool = $valid;
                valid(text.as_bytes())
            }

            /// The form of such a name, for messages.
            pub const EXPECTED: &'static str = $expected;
            /// The same as a regular expression.
            pub const PATTERN: &'static str = $pattern;

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        $crate::described!($name, [], schema::text($expected, $pattern, $example));

        impl std::str::FromStr for $name {
            type Err = NameError;
            fn from_str(text: &str) -> Result<Self, NameError> {
                Self::parse(text)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", &self.0)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
                $name::parse(&text).map_err(serde::de::Error::custom)
            }
        }
    };
}

name_type!(
    /// The name of a quantity, e.g. `cpu_usage` or `node_capability`.
    DataName,
    "data name",
    "a letter or `_`, then at most 127 of letters, digits and `_.:-`",
    "^[A-Za-z_][A-Za-z0-9_.:-]{0,127}$",
    "cpu_usage",
    |bytes| matches!(bytes, [first, rest @ ..]
        if (first.is_ascii_alphabetic() || *first == b'_')
            && rest.len() < MAX_DATA_NAME
            && rest.iter().all(|b| b.is_ascii_alphanumeric() || b"_.:-".contains(b)))
);

name_type!(
    /// A machine or container that runs an agent.
    NodeName,
    "node name",
    "1 to 253 of letters, digits and `._-`, no dot first",
    "^[A-Za-z0-9_-][A-Za-z0-9._-]{0,252}$",
    "node-1",
    |bytes| bytes.first().is_some_and(|first| *first != b'.')
        && bytes.len() <= MAX_NODE_NAME
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(b))
);

name_type!(
    /// A person or program that has tasks and files of its own. There is one form of each name, also on a disk that takes
    /// small and capital letters, or a name with a dot at its end and one without, for the same.
    UserName,
    "user's name",
    "1 to 64 of small letters, digits and `._-`, a letter or digit at both ends",
    "^[a-z0-9]([a-z0-9._-]{0,62}[a-z0-9])?$",
    "alice",
    |bytes| {
        let plain = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        bytes.first().is_some_and(plain)
            && bytes.last().is_some_and(plain)
            && bytes.len() <= MAX_USER_NAME
            && bytes.iter().all(|byte| plain(byte) || b"._-".contains(byte))
    }
);

/// A data name in which each `*` stands for any text, the empty one included.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NamePattern(Arc<str>);

impl NamePattern {
    /// The form of a pattern, for messages.
    pub const EXPECTED: &'static str =
        "a data name, or a pattern of letters, digits, `_.:-` and `*`, which stands for any text";

    /// Checks the text and makes a pattern of it. Every data name is one.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        let known = |byte: u8| byte.is_ascii_alphanumeric() || b"_.:-*".contains(&byte);
        let begins = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_' || c == '*');
        match begins && text.len() <= MAX_DATA_NAME && text.bytes().all(known) {
            true => Ok(NamePattern(text.into())),
            false => Err(NameError {
                what: "data name or pattern",
                given: text.to_owned(),
                expected: Self::EXPECTED,
            }),
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The data name, if it is one and no pattern.
    pub fn name(&self) -> Option<DataName> {
        DataName::parse(&self.0).ok()
    }

    pub fn matches(&self, name: &str) -> bool {
        let mut parts = self.0.split('*');
        let (first, last) = (parts.next().unwrap_or_default(), parts.next_back());
        let Some(last) = last else { return *self.0 == *name };
        let Some(mut rest) = name.strip_prefix(first).and_then(|rest| rest.strip_suffix(last)) else {
            return false;
        };
        // The earliest place for each part leaves the most for those after it.
        parts.all(|part| match rest.find(part) {
            Some(place) => {
                rest = &rest[place + part.len()..];
                true
            }
            None => false,
        })
    }
}

impl From<DataName> for NamePattern {
    fn from(name: DataName) -> Self {
        NamePattern(name.0)
    }
}

impl std::str::FromStr for NamePattern {
    type Err = NameError;
    fn from_str(text: &str) -> Result<Self, NameError> {
        Self::parse(text)
    }
}

impl fmt::Display for NamePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn texts_of_the_pattern_are_names(
            data in &DataName::PATTERN[1..DataName::PATTERN.len() - 1],
            node in &NodeName::PATTERN[1..NodeName::PATTERN.len() - 1],
            user in &UserName::PATTERN[1..UserName::PATTERN.len() - 1],
        ) {
            prop_assert!(DataName::is_valid(&data) && NodeName::is_valid(&node), "{data} {node}");
            prop_assert!(UserName::is_valid(&user), "{user}");
        }
    }

    #[test]
    fn a_star_in_a_pattern_stands_for_any_text() {
        for (pattern, name, expected) in [
            ("cpu*", "cpu", true),
            ("cpu*", "cpu_usage", true),
            ("cpu*", "a_cpu", false),
            ("*", "x", true),
            ("a*b*c", "abc", true),
            ("a*b*c", "a.b.b.c", true),
            ("a*b*c", "a.c.b", false),
            ("ab*ba", "aba", false),
            ("*usage*", "cpu_usage.1", true),
            ("cpu", "cpu", true),
            ("cpu", "cpu1", false),
        ] {
            assert_eq!(
                NamePattern::parse(pattern).map(|p| p.matches(name)),
                Ok(expected),
                "{pattern} {name}"
            );
        }
        for wrong in ["", "1*", "a b*", "a?"] {
            assert!(NamePattern::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn data_names_keep_to_their_alphabet_and_length() {
        let long = format!("a{}", "b".repeat(127));
        for good in ["a", "_", "cpu_usage", "node.cap:v2-x", long.as_str()] {
            assert!(DataName::is_valid(good), "{good}");
        }
        let too_long = format!("{long}c");
        for bad in ["", "1a", "-a", "a b", "a/b", "é", "a\0", too_long.as_str()] {
            assert!(!DataName::is_valid(bad), "{bad}");
        }
    }

    #[test]
    fn names_of_users_have_one_form_on_every_disk() {
        let long = "u".repeat(64);
        for good in ["a", "1", "alice", "a.b_c-2", long.as_str()] {
            assert!(UserName::is_valid(good), "{good}");
        }
        let too_long = format!("{long}u");
        for bad in
            ["", ".", "..", ".a", "a.", "-a", "Alice", "a/b", "a b", "a\t", "\u{e9}", too_long.as_str()]
        {
            assert!(!UserName::is_valid(bad), "{bad}");
        }
    }

    #[test]
    fn node_names_keep_to_their_alphabet_and_length() {
        let long = "n".repeat(253);
        for good in ["1", "node-1", "a.b_c", long.as_str()] {
            assert!(NodeName::is_valid(good), "{good}");
        }
        let too_long = "n".repeat(254);
        for bad in ["", ".", "..", "...", ".a", "a/b", "a:b", "ü", too_long.as_str()] {
            assert!(!NodeName::is_valid(bad), "{bad}");
        }
    }

    #[test]
    fn a_wrong_name_says_what_would_be_right() {
        let error = DataName::parse("1st").map(|_| ()).map_err(|e| e.at("dataName").to_string());
        assert_eq!(
            error,
            Err("dataName: is not a data name, given 1st; expected a letter or `_`, then at most 127 of \
                 letters, digits and `_.:-`"
                .to_owned())
        );
    }
}
