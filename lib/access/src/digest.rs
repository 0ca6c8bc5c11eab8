//! Digests and random texts: the only place that knows how they are made.

use estimand_api::access::Token;
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};

pub type Digest = [u8; 32];

pub fn of(token: &str) -> Digest {
    let mut bytes = [0; 32];
    bytes.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
    bytes
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Reads a digest that [`hex`] wrote; none if the text is no digest.
pub fn from_hex(text: &str) -> Option<Digest> {
    let mut bytes = [0; 32];
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    for (byte, two) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(two).ok()?, 16).ok()?;
    }
    Some(bytes)
}

pub fn random_token() -> Token {
    Token::of(&random())
}

/// Short, for people to point at something with.
pub fn random_id() -> String {
    hex(&random::<6>())
}

fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    // Without randomness nothing here is safe; a system that has none cannot be served.
    SystemRandom::new().fill(&mut bytes).expect("the system gives random bytes");
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_read_back_as_it_is_written() {
        let digest = of("abc");
        assert_eq!(hex(&digest), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(from_hex(&hex(&digest)), Some(digest));
        assert_eq!((from_hex("ba78"), from_hex(&"g".repeat(64))), (None, None));
    }

    #[test]
    fn no_two_tokens_are_the_same() {
        assert_ne!(random_token(), random_token());
        assert_eq!(random_id().len(), 12);
    }
}
