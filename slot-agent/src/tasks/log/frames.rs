//! The log of a container as it comes from the engine, made into lines, each once.
//!
//! The engine gives each piece of output with the instant at which it read it. After a connection that broke the log is
//! asked for again from a little before the last piece, and what was had already is passed over: by the instants of each
//! stream, and where several pieces have one, by their number. Pure.

use chrono::DateTime;
use estimand_api::task_log::{OpenLine, TaskLogLine, TaskStream};

use super::splitter::Splitter;

/// The pieces of both streams.
#[derive(Debug)]
pub struct Frames {
    stdout: Stream,
    stderr: Stream,
}

#[derive(Debug)]
struct Stream {
    splitter: Splitter,
    /// The instant of the last piece, in nanoseconds since 1970, and how many had it.
    last: Option<(i64, u32)>,
    /// While the log comes once more: how many pieces of that instant came again.
    again: Option<u32>,
}

impl Frames {
    pub fn new() -> Self {
        let stream = |stream| Stream { splitter: Splitter::new(stream), last: None, again: None };
        Frames { stdout: stream(TaskStream::Stdout), stderr: stream(TaskStream::Stderr) }
    }

    /// From now on the log comes again, from the second that is returned.
    pub fn resume(&mut self) -> i64 {
        let Frames { stdout, stderr } = self;
        for stream in [&mut *stdout, &mut *stderr] {
            stream.again = stream.last.map(|_| 0);
        }
        // A stream that said nothing yet may have begun anywhere.
        let since = |stream: &Stream| stream.last.map_or(0, |(nanos, _)| nanos.div_euclid(1_000_000_000));
        since(stdout).min(since(stderr))
    }

    /// Takes a piece, and gives the lines that end in it. `now` is the instant of one that has none.
    pub fn take(&mut self, stream: TaskStream, piece: &[u8], now: i64) -> Vec<TaskLogLine> {
        let stream = match stream {
            TaskStream::Stdout => &mut self.stdout,
            TaskStream::Stderr => &mut self.stderr,
        };
        let mut lines = Vec::new();
        match instant(piece) {
            Some((at, text)) if stream.is_new(at) => stream.splitter.take(text, at / 1000, &mut lines),
            Some(_) => {}
            None => stream.splitter.take(piece, now, &mut lines),
        }
        lines
    }

    /// The lines that have begun and not ended.
    pub fn open(&self) -> Vec<OpenLine> {
        [&self.stdout, &self.stderr].into_iter().filter_map(|stream| stream.splitter.open()).collect()
    }

    /// The end of the log ends the last lines.
    pub fn finish(&mut self, now: i64) -> Vec<TaskLogLine> {
        let mut lines = Vec::new();
        self.stdout.splitter.finish(now, &mut lines);
        self.stderr.splitter.finish(now, &mut lines);
        lines
    }
}

impl Stream {
    /// True if a piece of this instant was not had yet. It is then.
    fn is_new(&mut self, at: i64) -> bool {
        match (self.last, self.again) {
            (Some((last, _)), Some(_)) if at < last => return false,
            (Some((last, had)), Some(again)) if at == last && again < had => {
                self.again = Some(again + 1);
                return false;
            }
            _ => {}
        }
        self.again = None;
        self.last = match self.last {
            Some((last, had)) if last == at => Some((last, had + 1)),
            _ => Some((at, 1)),
        };
        true
    }
}

/// The instant in front of a piece, in nanoseconds since 1970, and what follows it.
fn instant(piece: &[u8]) -> Option<(i64, &[u8])> {
    let end = piece.iter().take(64).position(|byte| *byte == b' ')?;
    let text = std::str::from_utf8(&piece[..end]).ok()?;
    let at = DateTime::parse_from_rfc3339(text).ok()?.timestamp_nanos_opt()?;
    Some((at, &piece[end + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(nanos: u32, text: &str) -> Vec<u8> {
        format!("2026-01-02T03:04:05.{nanos:09}Z {text}").into_bytes()
    }

    fn texts(lines: &[TaskLogLine]) -> Vec<&str> {
        lines.iter().map(|line| line.text.as_str()).collect()
    }

    #[test]
    fn pieces_become_lines_with_the_engines_instants() {
        let mut frames = Frames::new();
        let lines = frames.take(TaskStream::Stdout, &piece(7_000, "one\n"), 1);
        assert_eq!((texts(&lines), lines[0].at), (vec!["one"], 1_767_323_045_000_007));
        assert!(frames.take(TaskStream::Stdout, &piece(8_000, "begun"), 1).is_empty());
        assert_eq!(texts(&frames.take(TaskStream::Stderr, &piece(8_500, "two\n"), 1)), ["two"]);
        assert_eq!(
            texts(&frames.take(TaskStream::Stdout, &piece(8_000, " and ended\n"), 1)),
            ["begun and ended"]
        );
        assert!(frames.take(TaskStream::Stdout, &piece(9_000, "no end"), 1).is_empty());
        let open: Vec<_> = frames.open().into_iter().map(|open| (open.at, open.text)).collect();
        assert_eq!(open, [(1_767_323_045_000_009, "no end".to_owned())]);
        assert_eq!(texts(&frames.finish(2)), ["no end"]);
        assert_eq!(texts(&frames.take(TaskStream::Stdout, b"without\n", 3)), ["without"]);
    }

    /// Wherever the connection broke, and in the midst of pieces of one instant.
    #[test]
    fn what_comes_again_is_taken_once() {
        let stdout = [(1, "a\n"), (2, "b\n"), (2, "c"), (2, "d\n"), (3, "e\n")];
        let stderr = [(2, "x\n"), (4, "y\n")];
        let mut log: Vec<(TaskStream, u32, &str)> =
            stdout.map(|(nanos, text)| (TaskStream::Stdout, nanos, text)).to_vec();
        log.extend(stderr.map(|(nanos, text)| (TaskStream::Stderr, nanos, text)));
        for broken in 0..=log.len() {
            let mut frames = Frames::new();
            let mut said = Vec::new();
            for part in [&log[..broken], &log[..]] {
                frames.resume();
                for (stream, nanos, text) in part {
                    let lines = frames.take(*stream, &piece(*nanos, text), 0);
                    said.extend(lines.into_iter().map(|line| line.text));
                }
            }
            assert_eq!(said, ["a", "b", "cd", "e", "x", "y"], "broken after {broken}");
        }
    }

    #[test]
    fn a_log_is_asked_for_from_the_second_of_the_last_piece() {
        let mut frames = Frames::new();
        assert_eq!(frames.resume(), 0);
        frames.take(TaskStream::Stdout, &piece(999_999_999, "a\n"), 0);
        assert_eq!(frames.resume(), 0, "the other stream may have begun at any time");
        frames.take(TaskStream::Stderr, &piece(0, "b\n"), 0);
        assert_eq!(frames.resume(), 1_767_323_045);
    }
}
