//! The digest by which a registration names its executable's content, and nothing else.
//!
//! It is read in either case and written in lower case, so that two that mean the same are the same. Nothing is
//! hashed here.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::schema;

/// The form of a digest, for messages.
pub const SHA256_EXPECTED: &str = "the SHA-256 of the executable's file: 64 hexadecimal digits";

/// The SHA-256 of a file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sha256(pub [u8; 32]);

crate::described!(
    Sha256,
    [],
    schema::text(
        SHA256_EXPECTED,
        "^[0-9A-Fa-f]{64}$",
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    )
);

impl Sha256 {
    /// A digest that was computed.
    ///
    /// # Panics
    /// If it has not the length of one: another algorithm made it, which is a mistake in the program.
    pub fn of_digest(computed: impl AsRef<[u8]>) -> Self {
        let mut sha256 = Sha256([0; 32]);
        sha256.0.copy_from_slice(computed.as_ref());
        sha256
    }
}

impl fmt::Display for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sha256({self})")
    }
}

impl FromStr for Sha256 {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut digest = [0; 32];
        hex::decode_to_slice(text, &mut digest).map_err(|_| "is not 64 hexadecimal digits".to_owned())?;
        Ok(Sha256(digest))
    }
}

impl Serialize for Sha256 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Sha256 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_64_digits_and_written_in_lower_case() {
        let text = "AB".repeat(32);
        assert_eq!(text.parse::<Sha256>().unwrap().to_string(), "ab".repeat(32));
        for wrong in ["", "ab", &"ab".repeat(33), &"ag".repeat(32), &"é".repeat(32), &"+1".repeat(32)] {
            assert!(wrong.parse::<Sha256>().is_err(), "{wrong}");
        }
    }
}
