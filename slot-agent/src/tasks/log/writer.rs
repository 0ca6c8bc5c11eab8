//! Keeps the lines of an attempt on disk until they are delivered.
//!
//! It keeps up to a bound. Beyond it, and while the disk takes nothing, lines are dropped, but for the newest ones, which
//! wait in memory until there is room again: so the last words of a task are there, however much it said before. Neither
//! memory nor disk grow with a flood. Blocking.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use estimand_api::task_log::TaskLogLine;

use super::segment;

/// A file of the log has a part in so many of its bound.
const SEGMENTS: u64 = 16;
/// How much of the newest lines waits for room.
const TAIL_BYTES: usize = 256 * 1024;
/// How often it is looked whether there is room again.
const LOOK_EVERY: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub struct LogWriter {
    folder: PathBuf,
    most: u64,
    /// The files before the present one that were there at the last look, with their sizes.
    full: VecDeque<(PathBuf, u64)>,
    /// The one that is written to, and how much of it is lines.
    present: Option<(PathBuf, File, u64)>,
    /// The number of the next line.
    next: u64,
    /// The newest lines, which wait for room.
    tail: VecDeque<(u64, TaskLogLine)>,
    tail_bytes: usize,
    look_at: Instant,
}

impl LogWriter {
    /// For a folder that has no log yet. `most` bounds what is on disk.
    pub fn new(folder: PathBuf, most: u64) -> Self {
        let (full, tail) = (VecDeque::new(), VecDeque::new());
        LogWriter { folder, most, full, present: None, next: 0, tail, tail_bytes: 0, look_at: Instant::now() }
    }

    /// Keeps these lines, or as many of them as there is room for.
    pub fn append(&mut self, lines: Vec<TaskLogLine>) {
        for line in lines {
            self.tail_bytes += weight(&line);
            self.tail.push_back((self.next, line));
            self.next += 1;
        }
        self.settle(false);
        while self.tail_bytes > TAIL_BYTES {
            let Some((_, line)) = self.tail.pop_front() else { return };
            self.tail_bytes -= weight(&line);
        }
    }

    /// True if lines wait for room: then [`LogWriter::settle`] is to be called from time to time.
    pub fn waits(&self) -> bool {
        !self.tail.is_empty()
    }

    /// Writes what waits, if there is room; with `all` also beyond the bound.
    pub fn settle(&mut self, all: bool) {
        // In a flood this is all that is done.
        if self.tail.is_empty() || !all && !self.has_room(self.tail_bytes) {
            return;
        }
        let mut text = Vec::new();
        for (number, line) in &self.tail {
            text.extend_from_slice(number.to_string().as_bytes());
            text.push(b' ');
            // Plain values can always be written as JSON.
            let _ = serde_json::to_writer(&mut text, line);
            text.push(b'\n');
        }
        if !all && !self.has_room(text.len()) {
            return;
        }
        match self.write(&text) {
            Ok(()) => {
                self.tail.clear();
                self.tail_bytes = 0;
            }
            Err(_) => self.look_at = Instant::now() + LOOK_EVERY,
        }
    }

    /// Writes all lines; an error if the disk takes them not.
    pub fn finish(&mut self) -> io::Result<()> {
        self.settle(true);
        match self.tail.is_empty() {
            true => Ok(()),
            false => Err(io::Error::from(io::ErrorKind::StorageFull)),
        }
    }

    fn has_room(&mut self, more: usize) -> bool {
        if Instant::now() < self.look_at {
            return false;
        }
        if self.size() + more as u64 <= self.most {
            return true;
        }
        // Delivered lines are gone.
        self.full.retain(|(path, _)| path.exists());
        let has_room = self.size() + more as u64 <= self.most;
        if !has_room {
            self.look_at = Instant::now() + LOOK_EVERY;
        }
        has_room
    }

    fn size(&self) -> u64 {
        let present = self.present.as_ref().map_or(0, |(_, _, size)| *size);
        self.full.iter().map(|(_, size)| size).sum::<u64>() + present
    }

    /// Either all of it is written or nothing.
    fn write(&mut self, text: &[u8]) -> io::Result<()> {
        if let Some((path, _, size)) = self.present.take_if(|(_, _, size)| *size >= self.most / SEGMENTS) {
            self.full.push_back((path, size));
        }
        let (_, file, size) = match &mut self.present {
            Some(present) => present,
            none => {
                let first = self.tail.front().map_or(self.next, |(number, _)| *number);
                let path = segment(&self.folder, first);
                let file = OpenOptions::new().append(true).create_new(true).mode(0o600).open(&path)?;
                none.insert((path, file, 0))
            }
        };
        match file.write_all(text) {
            Ok(()) => {
                *size += text.len() as u64;
                Ok(())
            }
            Err(error) => {
                // The part of it that was written would be half a line.
                file.set_len(*size)?;
                Err(error)
            }
        }
    }
}

/// About what a line takes, in memory and on disk.
fn weight(line: &TaskLogLine) -> usize {
    // In base64 bytes are a third longer.
    let bytes = line.bytes.as_ref().map_or(0, |bytes| bytes.0.len() * 4 / 3);
    line.text.len() + bytes + 80
}
