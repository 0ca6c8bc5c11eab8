//! The pipes by which an agent and its keepers wake each other.

use std::io;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;

pub fn make_pipe(path: &Path) -> io::Result<()> {
    match rustix::fs::mkfifoat(CWD, path, Mode::RUSR | Mode::WUSR) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Writes into a pipe if somebody listens there. A full one wakes its listener in any case.
pub fn poke(pipe: &Path, word: &[u8]) {
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    if let Ok(pipe) = rustix::fs::open(pipe, flags, Mode::empty()) {
        let _ = rustix::io::write(&pipe, word);
    }
}
