//! Makes lines of what comes out of a pipe, however it comes, and never holds more than one piece of a line. Pure.

use std::borrow::Cow;

use estimand_api::task_log::{LogBytes, OpenLine, TaskLogLine, TaskStream};

/// A longer line comes in pieces.
const MAX_PIECE: usize = 16 * 1024;
/// The most that is shown of a line which has not ended.
const MAX_OPEN: usize = 1024;

/// The lines of one stream.
#[derive(Debug)]
pub struct Splitter {
    stream: TaskStream,
    /// The beginning of a line.
    begun: Vec<u8>,
    /// The instant of its first byte.
    begun_at: i64,
}

/// The ways in which a line, or a piece of one, ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LineEnd {
    Newline,
    /// The piece is full.
    Cut,
    /// The stream is over.
    Stream,
}

impl Splitter {
    pub fn new(stream: TaskStream) -> Self {
        Splitter { stream, begun: Vec::new(), begun_at: 0 }
    }

    /// Takes what was read at a time, and gives the lines that end in it.
    pub fn take(&mut self, mut read: &[u8], at: i64, lines: &mut Vec<TaskLogLine>) {
        while !read.is_empty() {
            let room = MAX_PIECE - self.begun.len();
            let window = &read[..read.len().min(room + 1)];
            match window.iter().position(|byte| *byte == b'\n') {
                Some(end) => {
                    self.begun.extend_from_slice(&read[..end]);
                    lines.push(self.line(at, LineEnd::Newline));
                    self.begun.clear();
                    read = &read[end + 1..];
                }
                None if window.len() <= room => {
                    self.begin(window, at);
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
            lines.push(self.line(at, LineEnd::Stream));
            self.begun.clear();
        }
    }

    pub fn has_begun(&self) -> bool {
        !self.begun.is_empty()
    }

    /// The line that has begun and not ended, as a terminal shows it.
    pub fn open(&self) -> Option<OpenLine> {
        let shown = self.begun.rsplit(|byte| *byte == b'\r').find(|part| !part.is_empty())?;
        let shown = &shown[..shown.len() - incomplete(shown)];
        let mut from = shown.len().saturating_sub(MAX_OPEN);
        while from > 0 && shown.get(from).is_some_and(|byte| byte & 0xc0 == 0x80) {
            from += 1;
        }
        let text = String::from_utf8_lossy(&shown[from..]).into_owned();
        Some(OpenLine { at: self.begun_at, stream: self.stream, text })
    }

    fn begin(&mut self, bytes: &[u8], at: i64) {
        if self.begun.is_empty() {
            self.begun_at = at;
        }
        self.begun.extend_from_slice(bytes);
    }

    /// Gives a piece that is full, but for a character that is not complete.
    fn cut(&mut self, at: i64, lines: &mut Vec<TaskLogLine>) {
        let whole = self.begun.len() - incomplete(&self.begun);
        let rest = self.begun.split_off(whole);
        lines.push(self.line(at, LineEnd::Cut));
        (self.begun, self.begun_at) = (rest, at);
    }

    fn line(&self, at: i64, end: LineEnd) -> TaskLogLine {
        let text = String::from_utf8_lossy(&self.begun);
        let is_text = matches!(text, Cow::Borrowed(_)) && end != LineEnd::Stream;
        let bytes = (!is_text).then(|| {
            let mut bytes = self.begun.clone();
            bytes.extend(Some(b'\n').filter(|_| end == LineEnd::Newline));
            LogBytes(bytes)
        });
        let text = text.into_owned();
        TaskLogLine { at, stream: self.stream, text, bytes, partial: end == LineEnd::Cut, dropped: 0 }
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

    /// The bytes of lines, put together.
    fn written(lines: &[TaskLogLine]) -> Vec<u8> {
        let mut all = Vec::new();
        for line in lines {
            match &line.bytes {
                Some(LogBytes(bytes)) => all.extend_from_slice(bytes),
                None => all.extend_from_slice(line.text.as_bytes()),
            }
            all.extend(Some(b'\n').filter(|_| line.bytes.is_none() && !line.partial));
        }
        all
    }

    fn open_after(chunks: &[&[u8]]) -> Option<(i64, String)> {
        let mut splitter = Splitter::new(TaskStream::Stdout);
        let mut lines = Vec::new();
        for (chunk, at) in chunks.iter().zip(1..) {
            splitter.take(chunk, at, &mut lines);
        }
        splitter.open().map(|open| (open.at, open.text))
    }

    #[test]
    fn an_unfinished_line_is_what_a_terminal_shows() {
        let check = |chunks: &[&str], shown: Option<(i64, &str)>| {
            let bytes: Vec<&[u8]> = chunks.iter().map(|chunk| chunk.as_bytes()).collect();
            let expected = shown.map(|(at, text)| (at, text.to_owned()));
            assert_eq!(open_after(&bytes), expected, "{chunks:?}");
        };
        check(&[], None);
        check(&["a\n"], None);
        check(&["a\n", "Password: "], Some((2, "Password: ")));
        check(&["a\nName", ": "], Some((1, "Name: ")));
        check(&["\r 10%", "\r 20%"], Some((1, " 20%")));
        check(&["10%\r", "20%\r"], Some((1, "20%")));
        check(&["\r"], None);
        let long = "ä".repeat(2 * MAX_OPEN);
        check(&[&long], Some((1, &"ä".repeat(MAX_OPEN / 2))));
        assert_eq!(
            open_after(&[b"a\xe2\x82"]),
            Some((1, "a".to_owned())),
            "the rest of a character may come"
        );
        // A piece that was cut has a number; what follows it has not.
        let begun = "a".repeat(MAX_PIECE + 1);
        check(&["x", &begun[1..], "\r50%"], Some((2, "50%")));
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

    #[test]
    fn a_last_line_without_its_end_says_so() {
        let mut splitter = Splitter::new(TaskStream::Stdout);
        let mut lines = Vec::new();
        splitter.take(b"a\nb", 1, &mut lines);
        splitter.finish(2, &mut lines);
        assert_eq!((&lines[0].bytes, &lines[1].bytes), (&None, &Some(LogBytes(b"b".to_vec()))));
    }

    proptest! {
        /// Put together, lines are byte for byte what was written, however it came.
        #[test]
        fn no_byte_is_lost(
            runs in prop::collection::vec((any::<u8>(), 1_usize..6_000), 0..12),
            chunk in 1_usize..20_000,
        ) {
            let bytes: Vec<u8> = runs.into_iter().flat_map(|(byte, count)| vec![byte; count]).collect();
            let mut splitter = Splitter::new(TaskStream::Stdout);
            let mut lines = Vec::new();
            for piece in bytes.chunks(chunk) {
                splitter.take(piece, 1, &mut lines);
            }
            splitter.finish(2, &mut lines);
            prop_assert_eq!(written(&lines), bytes);
        }

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
