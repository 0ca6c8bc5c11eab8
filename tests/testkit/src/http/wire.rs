//! One connection, with its own buffer: each read has a deadline, and one that ran into it has
//! lost nothing, so that the next goes on where it stopped.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

const MAX_LINE_BYTES: usize = 1 << 20;
const READ_BYTES: usize = 64 << 10;

pub(super) struct Wire {
    stream: TcpStream,
    /// Received, but not asked for yet: from `start` on.
    buffer: Vec<u8>,
    start: usize,
}

impl Wire {
    pub(super) fn connect(authority: &str, end: Instant) -> io::Result<Self> {
        let mut last = io::Error::other(format!("{authority} has no address"));
        for address in authority.to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, left(end)?) {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    return Ok(Self { stream, buffer: Vec::new(), start: 0 });
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// True if the server has neither closed this connection nor sent something unasked.
    pub(super) fn is_reusable(&self) -> bool {
        let mut byte = [0];
        let quiet = self.stream.set_nonblocking(true).is_ok()
            && matches!(self.stream.peek(&mut byte), Err(error) if error.kind() == ErrorKind::WouldBlock);
        quiet && self.buffered().is_empty() && self.stream.set_nonblocking(false).is_ok()
    }

    pub(super) fn send(&mut self, bytes: &[u8], end: Instant) -> io::Result<()> {
        self.stream.set_write_timeout(Some(left(end)?))?;
        self.stream.write_all(bytes).map_err(as_timeout)
    }

    /// The next line without its end. Consumes nothing unless the line is complete.
    pub(super) fn line(&mut self, end: Instant) -> io::Result<String> {
        loop {
            if let Some(length) = self.buffered().iter().position(|&byte| byte == b'\n') {
                let line = self.take(length + 1);
                let text = String::from_utf8_lossy(&line);
                return Ok(text.trim_end_matches(['\n', '\r']).to_owned());
            }
            if self.buffered().len() > MAX_LINE_BYTES {
                return Err(io::Error::new(ErrorKind::InvalidData, "a line longer than 1 MiB"));
            }
            if self.receive(end)? == 0 {
                return Err(io::Error::new(ErrorKind::UnexpectedEof, "the server closed the connection"));
            }
        }
    }

    /// At least one byte and at most `most`; none at the end of the connection.
    pub(super) fn some(&mut self, most: usize, end: Instant) -> io::Result<Vec<u8>> {
        if self.buffered().is_empty() {
            self.receive(end)?;
        }
        Ok(self.take(most.min(self.buffered().len())))
    }

    fn buffered(&self) -> &[u8] {
        &self.buffer[self.start..]
    }

    fn take(&mut self, length: usize) -> Vec<u8> {
        let taken = self.buffered()[..length].to_vec();
        self.start += length;
        taken
    }

    fn receive(&mut self, end: Instant) -> io::Result<usize> {
        self.buffer.drain(..self.start);
        self.start = 0;
        let mut bytes = [0; READ_BYTES];
        loop {
            self.stream.set_read_timeout(Some(left(end)?))?;
            match self.stream.read(&mut bytes) {
                Ok(count) => {
                    self.buffer.extend_from_slice(&bytes[..count]);
                    return Ok(count);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(as_timeout(error)),
            }
        }
    }
}

fn left(end: Instant) -> io::Result<Duration> {
    match end.checked_duration_since(Instant::now()) {
        Some(left) if !left.is_zero() => Ok(left),
        _ => Err(ErrorKind::TimedOut.into()),
    }
}

/// A socket's timeout is reported as if it had been non-blocking.
fn as_timeout(error: io::Error) -> io::Error {
    if error.kind() == ErrorKind::WouldBlock { ErrorKind::TimedOut.into() } else { error }
}
