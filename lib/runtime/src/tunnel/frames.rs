//! The frames of a WebSocket, as far as a tunnel needs them (RFC 6455, section 5).

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt as _};

const FINAL: u8 = 0x80;
const MASKED: u8 = 0x80;
const LENGTH_16: u8 = 126;
const LENGTH_64: u8 = 127;
/// The longest content of a frame that is about the connection itself.
const MAX_CONTROL: u64 = 125;
/// The longest header: two bytes, eight of a length, four of a mask.
pub(super) const MAX_HEADER: usize = 14;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Continuation,
    Text,
    Binary,
    Close,
    Ping,
    Pong,
}

impl Kind {
    const ALL: [(Kind, u8); 6] = [
        (Kind::Continuation, 0),
        (Kind::Text, 1),
        (Kind::Binary, 2),
        (Kind::Close, 8),
        (Kind::Ping, 9),
        (Kind::Pong, 10),
    ];

    fn code(self) -> u8 {
        Self::ALL.iter().find(|(kind, _)| *kind == self).map_or(0, |(_, code)| *code)
    }

    pub fn is_control(self) -> bool {
        matches!(self, Kind::Close | Kind::Ping | Kind::Pong)
    }
}

/// The beginning of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub kind: Kind,
    pub is_final: bool,
    pub length: u64,
    pub mask: Option<[u8; 4]>,
}

impl Header {
    pub fn whole(kind: Kind, length: usize, mask: Option<[u8; 4]>) -> Self {
        Header { kind, is_final: true, length: length as u64, mask }
    }

    pub fn encode(&self, into: &mut Vec<u8>) {
        into.push(self.kind.code() | if self.is_final { FINAL } else { 0 });
        let masked = if self.mask.is_some() { MASKED } else { 0 };
        match (u8::try_from(self.length), u16::try_from(self.length)) {
            (Ok(length), _) if length < LENGTH_16 => into.push(masked | length),
            (_, Ok(length)) => {
                into.push(masked | LENGTH_16);
                into.extend(length.to_be_bytes());
            }
            _ => {
                into.push(masked | LENGTH_64);
                into.extend(self.length.to_be_bytes());
            }
        }
        into.extend(self.mask.iter().flatten());
    }

    /// The next header, of a peer that masks its frames or does not.
    pub async fn read(wire: &mut (impl AsyncRead + Unpin), is_masked: bool) -> io::Result<Header> {
        let mut first = [0; 2];
        wire.read_exact(&mut first).await?;
        let (code, is_final) = (first[0] & !FINAL, first[0] & FINAL != 0);
        let kind = Kind::ALL.iter().find(|(_, known)| *known == code).map(|(kind, _)| *kind);
        let kind = kind.ok_or_else(|| wrong("a frame of an unknown kind"))?;
        if (first[1] & MASKED != 0) != is_masked {
            return Err(wrong("a frame that is masked as those of the other side are"));
        }
        let length = match first[1] & !MASKED {
            LENGTH_16 => u64::from(wire.read_u16().await?),
            LENGTH_64 => wire.read_u64().await?,
            length => u64::from(length),
        };
        if kind.is_control() && (length > MAX_CONTROL || !is_final) {
            return Err(wrong("a frame about the connection that is too long"));
        }
        let mask = match is_masked {
            true => {
                let mut mask = [0; 4];
                wire.read_exact(&mut mask).await?;
                Some(mask)
            }
            false => None,
        };
        Ok(Header { kind, is_final, length, mask })
    }
}

/// Masks or unmasks bytes that begin at this place of a frame's content.
pub(super) fn apply_mask(bytes: &mut [u8], mask: Option<[u8; 4]>, place: u64) {
    let Some(mask) = mask else { return };
    let first = (place % 4) as usize;
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte ^= mask[(first + at) % 4];
    }
}

pub(super) fn wrong(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the other side of the tunnel sent {what}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[tokio::test]
    async fn headers_are_read_as_they_were_written() {
        for length in [0, 1, 125, 126, 65_535, 65_536, 1 << 40] {
            for mask in [None, Some([1, 2, 3, 4])] {
                let header = Header { kind: Kind::Binary, is_final: length % 2 == 0, length, mask };
                let mut bytes = Vec::new();
                header.encode(&mut bytes);
                assert!(bytes.len() <= MAX_HEADER);
                let read = Header::read(&mut bytes.as_slice(), mask.is_some()).await.unwrap();
                assert_eq!(read, header);
                assert!(Header::read(&mut bytes.as_slice(), mask.is_none()).await.is_err());
            }
        }
    }

    #[tokio::test]
    async fn frames_that_break_the_rules_are_refused() {
        for bytes in [[0x83, 0], [0x09, 0], [0x89, 126], [0xc2, 0]] {
            let mut bytes = &[bytes[0], bytes[1], 1, 0][..];
            assert!(Header::read(&mut bytes, false).await.is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn a_mask_goes_on_from_piece_to_piece() {
        let (mask, whole) = (Some([7, 0, 255, 9]), *b"some bytes of a frame");
        let mut masked = whole;
        apply_mask(&mut masked, mask, 0);
        assert_ne!(masked, whole);
        let (one, other) = masked.split_at_mut(5);
        apply_mask(one, mask, 0);
        apply_mask(other, mask, 5);
        assert_eq!(masked, whole);
    }
}
