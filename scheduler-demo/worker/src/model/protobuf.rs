//! Writes protobuf messages: as much of the format as an ONNX file needs.
//!
//! A message is bytes in memory, except where a field's content is so large that it is written elsewhere: then
//! only its head is put here, and the caller writes as many bytes as the head says.

/// A message that grows field by field.
#[derive(Debug, Default, Clone)]
pub struct Message(Vec<u8>);

const VARINT: u32 = 0;
const LENGTH_DELIMITED: u32 = 2;

impl Message {
    pub fn new() -> Self {
        Message::default()
    }

    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// A whole number; negative ones aren't needed.
    pub fn number(mut self, field: u32, value: u64) -> Self {
        self.tag(field, VARINT);
        self.varint(value);
        self
    }

    /// A field that may stand there several times.
    pub fn numbers(self, field: u32, values: &[u64]) -> Self {
        values.iter().fold(self, |message, value| message.number(field, *value))
    }

    pub fn text(self, field: u32, text: &str) -> Self {
        let mut message = self.head(field, text.len() as u64);
        message.0.extend_from_slice(text.as_bytes());
        message
    }

    pub fn texts(self, field: u32, texts: &[&str]) -> Self {
        texts.iter().fold(self, |message, text| message.text(field, text))
    }

    pub fn message(self, field: u32, inner: &Message) -> Self {
        let mut message = self.head(field, inner.0.len() as u64);
        message.0.extend_from_slice(&inner.0);
        message
    }

    /// The head of a field whose content, of this many bytes, is to follow.
    pub fn head(mut self, field: u32, len: u64) -> Self {
        self.tag(field, LENGTH_DELIMITED);
        self.varint(len);
        self
    }

    /// Puts another message's fields behind these.
    pub fn append(&mut self, other: &Message) {
        self.0.extend_from_slice(&other.0);
    }

    fn tag(&mut self, field: u32, kind: u32) {
        self.varint(u64::from(field << 3 | kind));
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_as_the_format_describes_them() {
        let inner = Message::new().number(1, 150);
        assert_eq!(inner.bytes(), [0x08, 0x96, 0x01]);
        let message = Message::new().text(2, "testing").message(3, &inner);
        let expected = b"\x12\x07testing\x1a\x03\x08\x96\x01";
        assert_eq!(message.bytes(), expected);
        assert_eq!(Message::new().head(16, 300).bytes(), [0x82, 0x01, 0xac, 0x02]);
    }
}
