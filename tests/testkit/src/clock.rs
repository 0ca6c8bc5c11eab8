//! A time of day for some processes alone, which jumps.
//!
//! A preloaded library tells a process what a file says that the time is. Clocks that only go forward are left alone, as
//! a real jump leaves them.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::process::Builder;

const LIBRARY: &str = "faketime/libfaketimeMT.so.1";

/// The time of day of the processes that look at it.
pub struct Clock {
    folder: TempDir,
}

impl Clock {
    pub fn right() -> Self {
        let clock = Clock { folder: tempfile::tempdir().expect("a folder can be made") };
        clock.shift("+0");
        clock
    }

    /// How far off it is, such as `-1h`.
    pub fn shift(&self, by: &str) {
        // Moved to its place, so that nobody reads half of it.
        let beside = self.folder.path().join("new");
        std::fs::write(&beside, format!("{by}\n")).expect("the time can be written");
        std::fs::rename(beside, self.file()).expect("the time can be put in its place");
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("time")
    }

    /// Has a process look at it.
    pub fn give_to(&self, builder: Builder) -> Builder {
        builder
            .env("LD_PRELOAD", library())
            .env("FAKETIME_TIMESTAMP_FILE", self.file())
            .env("FAKETIME_NO_CACHE", "1")
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
            .env("DONT_FAKE_MONOTONIC", "1")
    }
}

fn library() -> PathBuf {
    let folders = std::fs::read_dir("/usr/lib").expect("/usr/lib is there").flatten();
    let mut found = folders.map(|entry| entry.path().join(LIBRARY)).filter(|path| Path::is_file(path));
    found.next().expect("libfaketime is not installed: apt-get install libfaketime")
}
