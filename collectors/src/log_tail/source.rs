//! An open file: its identity, and reading of it by position. Never waits for a writer, and reads nothing but files.

use std::fs::{File, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use chrono::{DateTime, SecondsFormat, Utc};

use crate::Failure;
use crate::bounds::{Barrier, Bounds, FoundFile};

/// A file that was not written for so long has its last line whole, with or without an end.
const QUIET: Duration = Duration::from_secs(5);

/// The identity of a file, under any name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Id {
    pub device: u64,
    pub inode: u64,
}

/// Where may be read, and how many bytes were, all files together.
#[derive(Debug, Clone, Default)]
pub(super) struct Reads {
    pub(super) bounds: Bounds,
    count: Arc<AtomicU64>,
}

impl Reads {
    pub(super) fn within(bounds: Bounds) -> Self {
        Reads { bounds, count: Arc::default() }
    }

    #[cfg(test)]
    pub(super) fn so_far(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }
}

#[derive(Debug)]
pub(super) struct Source {
    file: File,
    /// Its own name, links followed.
    pub path: PathBuf,
    pub id: Id,
    pub size: u64,
    written: Option<SystemTime>,
    /// True if it has no name any more.
    pub deleted: bool,
    reads: Reads,
}

impl Source {
    /// Opens a file; none if there is none of that name.
    pub(super) fn open(path: &Path, reads: &Reads) -> Result<Option<Self>, Failure> {
        let Some(found) = found(path, reads.bounds.find(path))? else { return Ok(None) };
        // Looked at first, because opening alone does something to many devices.
        regular(path, &found.metadata().map_err(|error| unreadable(path, &error))?)?;
        let file = found.read().map_err(|error| unreadable(path, &error))?;
        let about = file.metadata().map_err(|error| unreadable(path, &error))?;
        let path = found.real;
        let id = Id { device: about.dev(), inode: about.ino() };
        let mut source =
            Source { file, path, id, size: 0, written: None, deleted: false, reads: reads.clone() };
        source.take(&about);
        Ok(Some(source))
    }

    /// Looks how it is now.
    pub(super) fn refresh(&mut self) -> Result<(), String> {
        let about = self.file.metadata().map_err(|error| self.unreadable(&error))?;
        self.take(&about);
        Ok(())
    }

    fn take(&mut self, about: &Metadata) {
        (self.size, self.written, self.deleted) = (about.len(), about.modified().ok(), about.nlink() == 0);
    }

    /// When it was last written.
    pub(super) fn at(&self) -> Option<String> {
        let at: DateTime<Utc> = self.written?.into();
        Some(at.to_rfc3339_opts(SecondsFormat::Micros, true))
    }

    pub(super) fn quiet(&self) -> bool {
        self.written.and_then(|at| at.elapsed().ok()).is_some_and(|since| since >= QUIET)
    }

    /// Reads from a position what fits; gives how much that was: less only at the end.
    pub(super) fn read(&self, block: &mut [u8], from: u64) -> Result<usize, String> {
        let mut done = 0;
        while done < block.len() {
            match self.file.read_at(&mut block[done..], from + done as u64) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(self.unreadable(&error)),
            }
        }
        self.reads.count.fetch_add(done as u64, Ordering::Relaxed);
        Ok(done)
    }

    fn unreadable(&self, error: &std::io::Error) -> String {
        unreadable(&self.path, error)
    }
}

/// Tells what is not there from what cannot be had.
pub(super) fn found(path: &Path, result: Result<FoundFile, Barrier>) -> Result<Option<FoundFile>, Failure> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(Barrier::Io(error)) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(barrier) => Err(barrier.failure(&format!("cannot read {}", path.display()))),
    }
}

fn unreadable(path: &Path, error: &std::io::Error) -> String {
    format!("cannot read {}: {error}", path.display())
}

fn regular(path: &Path, about: &Metadata) -> Result<(), String> {
    match about.is_file() {
        true => Ok(()),
        false if about.is_dir() => Err(format!("{} is a directory; expected a file", path.display())),
        false => Err(format!("{} is a pipe, a socket or a device; expected a file", path.display())),
    }
}
