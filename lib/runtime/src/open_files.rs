//! The limit on a process's open files.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Lets this process have as many files and connections open as it may: the soft limit of most systems is for programs
/// that `select`. Programs that are started from now on begin with the same.
pub fn raise_open_files() {
    let maximum = getrlimit(Resource::Nofile).maximum;
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        tracing::debug!(%error, "the number of open files stays as it is");
    }
}
