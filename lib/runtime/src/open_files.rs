//! A process's open files, and their limit.

use std::{fs, io};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// How many files and connections this process may have open at the moment: whoever operates it may change that.
pub fn max_open_files() -> usize {
    getrlimit(Resource::Nofile).current.map_or(usize::MAX, |most| usize::try_from(most).unwrap_or(usize::MAX))
}

/// The number of files and connections that this process has open.
pub fn open_files() -> io::Result<usize> {
    // The folder that is being read is open, too.
    Ok(fs::read_dir("/proc/self/fd")?.count().saturating_sub(1))
}

/// Lets this process have as many files and connections open as it may: the soft limit of most systems is for programs
/// that `select`. Programs that are started from now on begin with the same.
pub fn raise_open_files() {
    let maximum = getrlimit(Resource::Nofile).maximum;
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        tracing::debug!(%error, "the number of open files stays as it is");
    }
}
