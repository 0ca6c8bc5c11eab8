//! Takes up the lines of an attempt where they were last delivered, while its keeper goes on writing.
//!
//! A line counts when its end is there. One that cannot be read, after a crash of the machine, is passed over. Files all
//! of whose lines were delivered are removed, which is what makes room for more. Blocking.

use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::PathBuf;

use estimand_api::task_log::{TaskLog, TaskLogLine};

use super::{segment, segments};

/// How much is read of a file at a time.
const WINDOW: u64 = 256 * 1024;
/// About what a line costs whoever takes it, however short it is.
const LEAST_LINE: usize = 64;

/// A place between two lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Position {
    /// The file, by its first line.
    segment: Option<u64>,
    offset: u64,
    /// The number of the next line, if none is missing.
    pub next: u64,
}

/// Some lines, and the place behind them.
#[derive(Debug, Default)]
pub struct Piece {
    /// One for each part without a gap.
    pub logs: Vec<TaskLog>,
    pub bytes: usize,
    pub end: Position,
    /// True if there was nothing more.
    pub is_all: bool,
}

#[derive(Debug)]
pub struct LogReader {
    folder: PathBuf,
    id: String,
    attempt: u32,
    /// Behind the last line that was delivered.
    position: Position,
}

impl LogReader {
    /// `next` is the first line that was not delivered.
    pub fn new(folder: PathBuf, id: String, attempt: u32, next: u64) -> Self {
        LogReader { folder, id, attempt, position: Position { next, ..Position::default() } }
    }

    /// The number of the first line that was not delivered.
    pub fn next(&self) -> u64 {
        self.position.next
    }

    /// That there is nothing more.
    pub fn nothing(&self) -> Piece {
        Piece { end: self.position, is_all: true, ..Piece::default() }
    }

    /// The next lines, of about so many bytes.
    pub fn read(&self, most: usize) -> io::Result<Piece> {
        // Before the lines: a file that came after this look counts the next time.
        let there = segments(&self.folder)?;
        let mut piece = Piece { end: self.position, ..Piece::default() };
        let begun = match self.position.segment {
            Some(segment) => segment,
            // After a start: the file in which the next line is.
            None => match there.iter().rfind(|first| **first <= self.position.next).or(there.first()) {
                Some(first) => *first,
                None => return Ok(Piece { is_all: true, ..piece }),
            },
        };
        for first in there.into_iter().filter(|first| *first >= begun) {
            if piece.end.segment != Some(first) {
                (piece.end.segment, piece.end.offset) = (Some(first), 0);
            }
            if !self.read_segment(first, most, &mut piece)? {
                return Ok(piece);
            }
        }
        piece.is_all = true;
        Ok(piece)
    }

    /// Everything up to there was delivered.
    pub fn commit(&mut self, end: Position) -> io::Result<()> {
        self.position = end;
        let Some(present) = end.segment else { return Ok(()) };
        for first in segments(&self.folder)?.into_iter().filter(|first| *first < present) {
            fs::remove_file(segment(&self.folder, first))?;
        }
        Ok(())
    }

    /// Reads on in one file; false if there is enough before its end.
    fn read_segment(&self, first: u64, most: usize, piece: &mut Piece) -> io::Result<bool> {
        let mut file = match File::open(segment(&self.folder, first)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
            file => file?,
        };
        let mut window = Vec::new();
        loop {
            if piece.bytes >= most {
                return Ok(false);
            }
            window.clear();
            file.seek(SeekFrom::Start(piece.end.offset))?;
            (&file).take(WINDOW).read_to_end(&mut window)?;
            let Some(end) = window.iter().rposition(|byte| *byte == b'\n') else { return Ok(true) };
            for record in window[..=end].split_inclusive(|byte| *byte == b'\n') {
                if piece.bytes >= most {
                    return Ok(false);
                }
                piece.end.offset += record.len() as u64;
                self.take(record, piece);
            }
        }
    }

    fn take(&self, record: &[u8], piece: &mut Piece) {
        let Some((number, mut line)) = parse(record) else { return };
        let expected = piece.end.next;
        if number < expected {
            return;
        }
        line.dropped = number - expected;
        piece.end.next = number + 1;
        piece.bytes += record.len().max(LEAST_LINE);
        match piece.logs.last_mut() {
            Some(log) if line.dropped == 0 => log.lines.push(line),
            _ => {
                let (id, attempt) = (self.id.clone(), self.attempt);
                piece.logs.push(TaskLog { id, attempt, first: number, lines: vec![line] });
            }
        }
    }
}

fn parse(record: &[u8]) -> Option<(u64, TaskLogLine)> {
    let (number, line) = std::str::from_utf8(record).ok()?.split_once(' ')?;
    Some((number.parse().ok()?, serde_json::from_str(line).ok()?))
}
