//! The start of a reservation that goes to Celery workers: `start` is what a document says, `standing` how far it is. A bridge
//! publishes it.

mod standing;
mod start;

pub use standing::Standing;
pub use start::{CeleryStart, read, schema, write};

use ring::digest::{SHA256, digest};

/// The id that the message of a promise has, however often it is published: it looks like those that Celery gives.
pub fn id(promise: &str) -> String {
    let digest = digest(&SHA256, format!("celery {promise}").as_bytes());
    let mut bytes = [0_u8; 16];
    bytes.copy_from_slice(&digest.as_ref()[..16]);
    // A UUID whose bits have a meaning of one's own.
    bytes[6] = (bytes[6] & 0x0f) | 0x80;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    let text = hex::encode(bytes);
    let parts = [&text[..8], &text[8..12], &text[12..16], &text[16..20], &text[20..]];
    parts.join("-")
}

#[cfg(test)]
mod tests {
    use super::id;

    #[test]
    fn an_id_is_the_same_each_time_and_looks_like_a_uuid() {
        let one = id("r1.5f");
        assert_eq!(one, id("r1.5f"));
        assert_ne!(one, id("r2.5f"));
        let lengths: Vec<usize> = one.split('-').map(str::len).collect();
        assert_eq!((lengths.as_slice(), &one[14..15]), ([8, 4, 4, 4, 12].as_slice(), "8"));
    }
}
