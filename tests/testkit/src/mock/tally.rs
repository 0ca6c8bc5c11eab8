//! Traces of runs in files for a test to check: how many there were, and whether two were at once.
//!
//! Both rest on the kernel's file locks, which a process loses when it dies, however it dies: a run that
//! is killed in the middle neither loses a count nor looks like one that still goes on.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::process;

use rustix::io::{FdFlags, fcntl_setfd};

/// The number of this run, kept in the file `path`.
pub(super) fn count(path: &str) -> io::Result<u64> {
    let mut file = open(path)?;
    file.lock()?;
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    let number = match text.trim() {
        "" => 1,
        last => last.parse::<u64>().map_err(|_| io::Error::other(format!("{path} holds {last:?}")))? + 1,
    };
    // In one write, over what was there: it only grows, and nobody ever sees an empty file.
    file.write_all_at(format!("{number}\n").as_bytes(), 0)?;
    Ok(number)
}

/// Takes the lock on the file `path`. If somebody has it, this run is not alone: a line in `path.twice` says so.
///
/// The lock is kept as long as what is returned, and by all processes that this one starts from now on:
/// a run is over when the last of them is gone.
pub(super) fn alone(path: &str) -> io::Result<File> {
    let mut file = open(path)?;
    let own = process::id();
    match file.try_lock() {
        Ok(()) => {
            fcntl_setfd(&file, FdFlags::empty())?;
            file.set_len(0)?;
            file.write_all_at(format!("{own}\n").as_bytes(), 0)?;
        }
        Err(TryLockError::WouldBlock) => {
            let mut holder = String::new();
            file.read_to_string(&mut holder)?;
            let line = format!("twice: {own} runs, and {} has not ended\n", holder.trim());
            OpenOptions::new()
                .create(true)
                .append(true)
                .open(format!("{path}.twice"))?
                .write_all(line.as_bytes())?;
        }
        Err(TryLockError::Error(error)) => return Err(error),
    }
    Ok(file)
}

fn open(path: &str) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)
}
