//! How the body of a response ends, and reading it piece by piece.
//!
//! The state advances only with what was completely received, so a read that ran into its deadline can
//! be repeated. A body cut short by the server is an error, never a shorter body.

use std::io::{self, ErrorKind};
use std::time::Instant;

use super::Response;
use super::wire::Wire;

pub(super) enum Body {
    /// So many bytes are still to come.
    Counted(usize),
    Chunked(Chunk),
    /// All bytes until the server closes the connection.
    ToTheEnd,
    Done,
}

pub(super) enum Chunk {
    Size,
    Data(usize),
    LineEnd,
    Trailer,
}

impl Body {
    pub(super) fn of(response: &Response, to_head: bool) -> io::Result<Self> {
        if to_head || matches!(response.status, 204 | 304) {
            return Ok(Self::Done);
        }
        if response.header("transfer-encoding").is_some_and(|word| word.eq_ignore_ascii_case("chunked")) {
            return Ok(Self::Chunked(Chunk::Size));
        }
        match response.header("content-length") {
            None => Ok(Self::ToTheEnd),
            Some(length) => match length.parse() {
                Ok(count) => Ok(Self::Counted(count)),
                Err(_) => Err(invalid(format!("a Content-Length like {length:?}"))),
            },
        }
    }

    pub(super) fn read_all(&mut self, wire: &mut Wire, into: &mut Vec<u8>, end: Instant) -> io::Result<()> {
        while let Some(piece) = self.piece(wire, end)? {
            into.extend_from_slice(&piece);
        }
        Ok(())
    }

    /// The next bytes of the body, or `None` after its last.
    pub(super) fn piece(&mut self, wire: &mut Wire, end: Instant) -> io::Result<Option<Vec<u8>>> {
        loop {
            match self {
                Self::Done | Self::Counted(0) => return Ok(None),
                Self::Counted(missing) => {
                    let piece = wire.some(*missing, end)?;
                    *missing -= piece.len();
                    return cut_short_if_empty(piece);
                }
                Self::ToTheEnd => {
                    let piece = wire.some(usize::MAX, end)?;
                    return Ok((!piece.is_empty()).then_some(piece));
                }
                Self::Chunked(Chunk::Size) => {
                    let line = wire.line(end)?;
                    let digits = line.split(';').next().unwrap_or_default().trim();
                    let size = usize::from_str_radix(digits, 16)
                        .map_err(|_| invalid(format!("a chunk's size like {line:?}")))?;
                    *self = Self::Chunked(if size == 0 { Chunk::Trailer } else { Chunk::Data(size) });
                }
                Self::Chunked(Chunk::Data(missing)) => {
                    let piece = wire.some(*missing, end)?;
                    *missing -= piece.len();
                    if *missing == 0 {
                        *self = Self::Chunked(Chunk::LineEnd);
                    }
                    return cut_short_if_empty(piece);
                }
                Self::Chunked(Chunk::LineEnd) => {
                    let line = wire.line(end)?;
                    if !line.is_empty() {
                        return Err(invalid(format!("{line:?} after a chunk")));
                    }
                    *self = Self::Chunked(Chunk::Size);
                }
                Self::Chunked(Chunk::Trailer) => {
                    if wire.line(end)?.is_empty() {
                        *self = Self::Done;
                    }
                }
            }
        }
    }
}

fn cut_short_if_empty(piece: Vec<u8>) -> io::Result<Option<Vec<u8>>> {
    if piece.is_empty() {
        return Err(io::Error::new(ErrorKind::UnexpectedEof, "the server closed the connection in a body"));
    }
    Ok(Some(piece))
}

fn invalid(what: String) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, what)
}
