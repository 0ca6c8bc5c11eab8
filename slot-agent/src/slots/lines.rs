//! Takes lines from a pipe, one at a time, and never holds more of one than a value may have.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt as _};

const CHUNK: usize = 64 * 1024;

/// A line, or the reason why there is none.
#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    Whole(Vec<u8>),
    /// One with more bytes than are taken; the rest of it is passed over.
    TooLong,
    /// So many bytes of the rest of one that was too long.
    Skipped(usize),
    End,
}

/// Reads lines; may be dropped between polls without losing any.
pub struct Lines<R> {
    source: R,
    buffer: Vec<u8>,
    /// The end of the part of the buffer that was taken already, and of the part that was searched.
    taken: usize,
    searched: usize,
    /// In the rest of a line that was too long.
    skipping: bool,
    most: usize,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub fn new(source: R, most: usize) -> Self {
        Lines { source, buffer: Vec::new(), taken: 0, searched: 0, skipping: false, most }
    }

    pub async fn next(&mut self) -> io::Result<Line> {
        loop {
            if let Some(line) = self.take() {
                return Ok(line);
            }
            self.buffer.reserve(CHUNK);
            match self.source.read_buf(&mut self.buffer).await? {
                0 => return Ok(self.last()),
                count if self.skipping && !self.buffer.contains(&b'\n') => {
                    self.buffer.clear();
                    return Ok(Line::Skipped(count));
                }
                _ => {}
            }
        }
    }

    fn take(&mut self) -> Option<Line> {
        loop {
            let end = self.buffer[self.searched..].iter().position(|byte| *byte == b'\n');
            let Some(end) = end.map(|end| self.searched + end) else {
                return self.without_end();
            };
            let (start, skipped) = (self.taken, std::mem::take(&mut self.skipping));
            (self.taken, self.searched) = (end + 1, end + 1);
            match end - start {
                _ if skipped => {}
                length if length > self.most => return Some(Line::TooLong),
                _ => return Some(Line::Whole(self.buffer[start..end].to_vec())),
            }
        }
    }

    /// No line ends in what is there: makes room, and says once that the line is too long.
    fn without_end(&mut self) -> Option<Line> {
        self.buffer.drain(..self.taken);
        (self.taken, self.searched) = (0, self.buffer.len());
        if self.skipping || self.buffer.len() > self.most {
            self.buffer.clear();
            self.searched = 0;
            return (!std::mem::replace(&mut self.skipping, true)).then_some(Line::TooLong);
        }
        None
    }

    /// The end of the source counts as a line.
    fn last(&mut self) -> Line {
        match self.buffer.is_empty() || self.skipping {
            true => Line::End,
            false => {
                (self.taken, self.searched) = (0, 0);
                Line::Whole(std::mem::take(&mut self.buffer))
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    async fn lines(input: &[u8], most: usize) -> Vec<String> {
        let mut lines = Lines::new(input, most);
        let mut found = Vec::new();
        loop {
            match lines.next().await.unwrap() {
                Line::Whole(line) => found.push(String::from_utf8(line).unwrap()),
                Line::TooLong => found.push("(too long)".to_owned()),
                Line::Skipped(_) => {}
                Line::End => return found,
            }
        }
    }

    #[tokio::test]
    async fn lines_come_whole_or_are_passed_over() {
        assert_eq!(lines(b"a\n\nbc\nlast", 10).await, ["a", "", "bc", "last"]);
        assert_eq!(lines(b"0123456789x\nok\n", 10).await, ["(too long)", "ok"]);
        let long = [&b"x".repeat(100_000)[..], b"\nok\n", &b"y".repeat(50_000)[..], b"\nend"].concat();
        assert_eq!(lines(&long, 60_000).await, ["(too long)", "ok", &"y".repeat(50_000), "end"]);
        assert_eq!(lines(&b"z".repeat(200_000), 1_000).await, ["(too long)"]);
        assert_eq!(lines(b"", 10).await, Vec::<String>::new());
    }
}
