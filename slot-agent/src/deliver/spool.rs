//! The folder of segments in which writes wait that could not be delivered.
//!
//! A segment is a file of lines (see [`line`](super::line)) that is written once, read once as a whole, and
//! deleted when all of it is delivered; so nothing has to be kept about how far delivery got, and what a
//! crash leaves undeleted is delivered again, without effect. Segments are numbered in the order of their
//! writes, and those of a former process are never written to. What is written is synced before `append`
//! returns; what could not be written whole is cut off again and stays with the caller. Other files in the
//! folder are left alone. Blocking: only threads that may wait for a disk call this.

use std::collections::VecDeque;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use estimand_api::write::Write;

use super::SpoolError;
use super::line::{self, SegmentContent};

/// The most items of a segment, which leaves as one batch.
pub const MAX_SEGMENT_ITEMS: usize = 5_000;

/// Names are `v1-`, a number of twenty digits and `.spool`; another format will have another `v`.
const PREFIX: &str = "v1-";
const SUFFIX: &str = ".spool";

#[derive(Debug)]
pub struct Spool {
    dir: PathBuf,
    limits: Limits,
    /// Oldest first.
    segments: VecDeque<Segment>,
    /// The last segment, as long as it is added to.
    open: Option<File>,
    next: u64,
}

#[derive(Debug, Clone, Copy)]
pub struct Limits {
    pub max_bytes: u64,
    pub segment_bytes: u64,
}

#[derive(Debug, Clone)]
struct Segment {
    number: u64,
    bytes: u64,
    items: usize,
    /// When its first item was collected, in microseconds.
    oldest: Option<i64>,
}

/// The content of the spool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Content {
    pub segments: usize,
    pub items: usize,
    pub bytes: u64,
    /// When the first item was collected, in microseconds.
    pub oldest: Option<i64>,
}

/// The result of adding writes.
#[derive(Debug, Default)]
pub struct AppendResult {
    /// How many are on disk now, counted from the first.
    pub written: usize,
    /// The segments that hold them.
    pub segments: Vec<u64>,
    /// How many older ones were given up for them.
    pub dropped: usize,
    /// Why the rest is not.
    pub error: Option<io::Error>,
}

impl Spool {
    /// Finds what a former process left.
    pub fn open(dir: &Path, limits: Limits) -> Result<Self, SpoolError> {
        make_folder(dir)?;
        let list = |source| SpoolError::List { path: dir.to_owned(), source };
        let mut numbers = Vec::new();
        for entry in fs::read_dir(dir).map_err(list)? {
            let entry = entry.map_err(list)?;
            let number = entry.file_name().to_str().and_then(number_of);
            numbers.extend(number.filter(|_| entry.file_type().is_ok_and(|kind| kind.is_file())));
        }
        numbers.sort_unstable();
        let next = numbers.last().map_or(1, |last| last + 1);
        let mut spool = Spool { dir: dir.to_owned(), limits, segments: VecDeque::new(), open: None, next };
        for number in numbers {
            match fs::read(spool.path(number)) {
                Ok(bytes) => {
                    let (items, first) = line::survey(&bytes);
                    let oldest = first.and_then(|write| write.collected_at);
                    spool.segments.push_back(Segment { number, bytes: bytes.len() as u64, items, oldest });
                }
                // One bad file does not keep the agent from starting; the file is not deleted.
                Err(error) => {
                    let path = spool.path(number);
                    tracing::error!(path = %path.display(), %error, "a segment of the spool cannot be read; it is left aside");
                }
            }
        }
        Ok(spool)
    }

    pub fn content(&self) -> Content {
        Content {
            segments: self.segments.len(),
            items: self.segments.iter().map(|segment| segment.items).sum(),
            bytes: self.bytes(),
            oldest: self.segments.front().and_then(|segment| segment.oldest),
        }
    }

    /// Adds writes behind all others. Where there is no room the oldest segment is deleted, but none of
    /// `kept`.
    pub fn append<'a>(&mut self, writes: impl IntoIterator<Item = &'a Write>, kept: &[u64]) -> AppendResult {
        let mut appended = AppendResult::default();
        let mut lines = Lines::default();
        let mut one = Vec::new();
        for write in writes {
            one.clear();
            line::push(write, &mut one);
            if self.is_full_with(&lines, one.len()) {
                if let Err(error) = self.write(&lines, kept, &mut appended) {
                    return AppendResult { error: Some(error), ..appended };
                }
                self.seal();
                lines = Lines::default();
            }
            lines.add(&one, write);
        }
        if lines.items > 0
            && let Err(error) = self.write(&lines, kept, &mut appended)
        {
            appended.error = Some(error);
        }
        appended
    }

    /// The oldest segment: its number, its items by count, and what it holds. It is not added to any more.
    pub fn head(&mut self) -> Option<(u64, usize, io::Result<SegmentContent>)> {
        if self.segments.len() == 1 {
            self.seal();
        }
        let head = self.segments.front()?;
        let found = fs::read(self.path(head.number)).map(|bytes| line::read(&bytes));
        Some((head.number, head.items, found))
    }

    /// Ends the segment that is added to, so that what comes next goes to another one.
    pub fn seal(&mut self) {
        self.open = None;
    }

    /// Deletes a segment.
    pub fn remove(&mut self, number: u64) {
        if let Some(path) = self.forget(number)
            && let Err(error) = fs::remove_file(&path)
            && error.kind() != io::ErrorKind::NotFound
        {
            // It would be delivered once more after a restart, which changes nothing.
            tracing::warn!(path = %path.display(), %error, "a segment of the spool cannot be deleted");
        }
    }

    /// Leaves a segment where it is, for a later process to try.
    pub fn forget(&mut self, number: u64) -> Option<PathBuf> {
        let place = self.segments.iter().position(|segment| segment.number == number)?;
        if place + 1 == self.segments.len() {
            self.seal();
        }
        self.segments.remove(place);
        Some(self.path(number))
    }

    fn bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.bytes).sum()
    }

    fn path(&self, number: u64) -> PathBuf {
        self.dir.join(format!("{PREFIX}{number:020}{SUFFIX}"))
    }

    /// True if the segment that is added to cannot take one more line of this size behind `lines`.
    fn is_full_with(&self, lines: &Lines, more: usize) -> bool {
        let (bytes, items) = match (&self.open, self.segments.back()) {
            (Some(_), Some(last)) => (last.bytes, last.items),
            _ => (0, 0),
        };
        let bytes = bytes + lines.bytes.len() as u64;
        let items = items + lines.items;
        items > 0 && (items >= MAX_SEGMENT_ITEMS || bytes + more as u64 > self.limits.segment_bytes)
    }

    /// Writes and syncs lines: all of them or, after an error, none.
    fn write(&mut self, lines: &Lines, kept: &[u64], appended: &mut AppendResult) -> io::Result<()> {
        if lines.items == 0 {
            return Ok(());
        }
        appended.dropped += self.make_room(lines.bytes.len() as u64, kept);
        if self.open.is_none() {
            self.create(lines.oldest)?;
        }
        let (Some(file), Some(last)) = (&mut self.open, self.segments.back_mut()) else {
            return Err(io::Error::other("there is no segment to write to"));
        };
        if let Err(error) = file.write_all(&lines.bytes).and_then(|()| file.sync_data()) {
            // Even if this fails, the checksums tell what is whole.
            let cut = file.set_len(last.bytes);
            let (number, empty) = (last.number, last.items == 0);
            self.seal();
            match cut {
                _ if empty => self.remove(number),
                Ok(()) => {}
                Err(cut) => {
                    tracing::warn!(error = %cut, "half a line stays in the spool; it will be left out");
                }
            }
            return Err(error);
        }
        last.bytes += lines.bytes.len() as u64;
        last.items += lines.items;
        appended.written += lines.items;
        if appended.segments.last() != Some(&last.number) {
            appended.segments.push(last.number);
        }
        Ok(())
    }

    fn create(&mut self, oldest: Option<i64>) -> io::Result<()> {
        // The folder may have been deleted meanwhile.
        make_folder(&self.dir).map_err(|error| match error {
            SpoolError::Folder { source, .. } => source,
            other => io::Error::other(other),
        })?;
        let number = self.next;
        // Should something of that name be in the way, the next attempt takes another one.
        self.next += 1;
        let path = self.path(number);
        let file = OpenOptions::new().append(true).create_new(true).mode(0o600).open(&path)?;
        // Else a power cut could take the file although its content is on disk. Where this fails the next attempt makes
        // another file: asked once more about this one, the kernel would say that all is well.
        File::open(&self.dir).and_then(|folder| folder.sync_all()).inspect_err(|_| {
            let _ = fs::remove_file(&path);
        })?;
        self.segments.push_back(Segment { number, bytes: 0, items: 0, oldest });
        self.open = Some(file);
        Ok(())
    }

    /// Deletes the oldest segments until so many bytes more are within the bound.
    fn make_room(&mut self, more: u64, kept: &[u64]) -> usize {
        let mut dropped = 0;
        while self.bytes() + more > self.limits.max_bytes {
            let Some(oldest) = self.segments.iter().find(|segment| !kept.contains(&segment.number)) else {
                break;
            };
            let number = oldest.number;
            dropped += oldest.items;
            self.remove(number);
        }
        dropped
    }
}

/// Lines that are written together.
#[derive(Debug, Default)]
struct Lines {
    bytes: Vec<u8>,
    items: usize,
    oldest: Option<i64>,
}

impl Lines {
    fn add(&mut self, line: &[u8], write: &Write) {
        if self.items == 0 {
            self.oldest = write.collected_at;
        }
        self.bytes.extend_from_slice(line);
        self.items += 1;
    }
}

/// Makes a folder that only the agent's user may look into: values may be confidential.
pub fn make_folder(dir: &Path) -> Result<(), SpoolError> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(dir);
    made.map_err(|source| SpoolError::Folder { path: dir.to_owned(), source })
}

fn number_of(name: &str) -> Option<u64> {
    let digits = name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?;
    let right = digits.len() == 20 && digits.bytes().all(|byte| byte.is_ascii_digit());
    // The last number has none after it.
    digits.parse().ok().filter(|number| right && *number < u64::MAX)
}
