//! Makes lines of what comes out of a pipe, however it comes, and never holds more than one piece of a line. Pure.

use estimand_api::task::{TaskLogLine, TaskStream};

/// A longer line comes in pieces.
const MAX_PIECE: usize = 16 * 1024;

/// The lines of one stream.
#[derive(Debug)]
pub struct Splitter {
    stream: TaskStream,
    /// The beginning of a line.
    begun: Vec<u8>,
}

impl Splitter {
    pub fn new(stream: TaskStream) -> Self {
        Splitter { stream, begun: Vec::new() }
    }

    /// Takes what was read at a time, and gives the lines that end in it.
    pub fn take(&mut self, mut read: &[u8], at: i64, lines: &mut Vec<TaskLogLine>) {
        while !read.is_empty() {
            let room = MAX_PIECE - self.begun.len();
            let window = &read[..read.len().min(room + 1)];
            match window.iter().position(|byte| *byte == b'\n') {
                Some(end) => {
                    self.begun.extend_from_slice(&read[..end]);
                    lines.push(self.line(at, false));
                    self.begun.clear();
                    read = &read[end + 1..];
                }
                None if window.len() <= room => {
                    self.begun.extend_from_slice(window);
                    read = &read[window.len()..];
                }
                None => {
                    self.begun.extend_from_slice(&read[..room]);
                    read = &read[room..];
                    self.cut(at, lines);
                }
            }
        }
    }

    /// The end of the stream ends a line.
    pub fn finish(&mut self, at: i64, lines: &mut Vec<TaskLogLine>) {
        if !self.begun.is_empty() {
            lines.push(self.line(at, false));
            self.begun.clear();
        }
    }

    /// Gives a piece that is full, but for a character that is not complete.
    fn cut(&mut self, at: i64, lines: &mut Vec<TaskLogLine>) {
        let whole = self.begun.len() - incomplete(&self.begun);
        let rest = self.begun.split_off(whole);
        lines.push(self.line(at, true));
        self.begun = rest;
    }

    fn line(&self, at: i64, partial: bool) -> TaskLogLine {
        let text = String::from_utf8_lossy(&self.begun).into_owned();
        TaskLogLine { at, stream: self.stream, text, partial, dropped: 0 }
    }
}

/// How many bytes at the end begin a character that more bytes may complete.
fn incomplete(bytes: &[u8]) -> usize {
    for back in 1..=bytes.len().min(3) {
        let byte = bytes[bytes.len() - back];
        let length = match byte {
            0xc2..=0xdf => 2,
            0xe0..=0xef => 3,
            0xf0..=0xf4 => 4,
            0x80..=0xbf => continue,
            _ => return 0,
        };
        return if length > back { back } else { 0 };
    }
    0
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn split(chunks: &[&[u8]]) -> Vec<(String, bool)> {
        let (mut splitter, mut lines) = (Splitter::new(TaskStream::Stdout), Vec::new());
        for chunk in chunks {
            splitter.take(chunk, 1, &mut lines);
        }
        splitter.finish(2, &mut lines);
        lines.into_iter().map(|line| (line.text, line.partial)).collect()
    }

    #[test]
    fn lines_end_where_they_end() {
        let whole = |text: &str| (text.to_owned(), false);
        assert_eq!(split(&[b"a\n\nb", b"c\nlast"]), ["a", "", "bc", "last"].map(whole));
        assert_eq!(split(&[b"a\n"]), [whole("a")], "no line begins after the last one");
        assert!(split(&[b""]).is_empty());
        assert_eq!(split(&[b"x\xff\xfey\n"]), [whole("x\u{fffd}\u{fffd}y")]);
    }

    #[test]
    fn a_long_line_comes_in_pieces_and_its_characters_stay_whole() {
        let long = "a".repeat(MAX_PIECE);
        assert_eq!(split(&[long.as_bytes(), b"\n"]), [(long.clone(), false)], "exactly as long as a piece");
        assert_eq!(split(&[long.as_bytes(), b"b\n"]), [(long.clone(), true), ("b".to_owned(), false)]);
        let shifted = format!("{}€€", "a".repeat(MAX_PIECE - 1));
        assert_eq!(
            split(&[shifted.as_bytes()]),
            [("a".repeat(MAX_PIECE - 1), true), ("€€".to_owned(), false)]
        );
    }

    proptest! {
        /// However it comes in, the same lines come out, and put together they are what went in.
        #[test]
        fn chunks_do_not_matter(text in "[a€\n]{0,200}", cuts in prop::collection::vec(0_usize..600, 0..5)) {
            let bytes = text.as_bytes();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.sort_unstable();
            let mut chunks = Vec::new();
            let mut from = 0;
            for cut in cuts {
                chunks.push(&bytes[from..cut]);
                from = cut;
            }
            chunks.push(&bytes[from..]);
            let lines = split(&chunks);
            prop_assert_eq!(&lines, &split(&[bytes]));
            let joined: Vec<&str> = lines.iter().map(|(text, _)| text.as_str()).collect();
            prop_assert_eq!(joined.join("\n"), text.strip_suffix('\n').unwrap_or(&text));
        }
    }
}
