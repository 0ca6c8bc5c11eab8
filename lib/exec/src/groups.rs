//! The cgroups of one cell, in either version.

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use super::cgroup;

/// How many processes, with their threads, a cell may hold unless its registration sets a limit: enough for a
/// virtual machine with some threads a core, and few enough that a fork bomb leaves processor time to others.
pub(super) fn default_processes() -> u64 {
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
    128.max(4 * cores + 64)
}

/// The groups of one cell.
#[derive(Debug)]
pub(super) struct Groups {
    /// The one that holds every process. It lists them, and shows whether it is empty.
    pub main: PathBuf,
    /// Further ones, for limits.
    pub others: Vec<PathBuf>,
    /// The one that counts kills for want of memory.
    pub memory: Option<PathBuf>,
    /// The groups that count memory and processor time, if any of them does.
    pub memory_counts: Option<PathBuf>,
    pub processor_counts: Option<PathBuf>,
    pub version: Version,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    V1,
    V2,
}

impl Groups {
    pub fn joins(&self) -> Vec<CString> {
        let all = std::iter::once(&self.main).chain(&self.others);
        all.filter_map(|group| CString::new(group.join("cgroup.procs").as_os_str().as_bytes()).ok()).collect()
    }

    /// Closes them to runs of root, so that none changes its limits or moves into another one's cell.
    pub fn close(&self) -> io::Result<()> {
        std::iter::once(&self.main).chain(&self.others).try_for_each(|group| cgroup::close(group))
    }

    pub fn counts_processes(&self) -> bool {
        self.version == Version::V1 || self.main.join("pids.max").exists()
    }

    pub fn is_empty(&self) -> bool {
        match self.version {
            Version::V1 => cgroup::number(&self.main, "pids.current", None).unwrap_or(0) == 0,
            Version::V2 => cgroup::number(&self.main, "cgroup.events", Some("populated ")).unwrap_or(0) == 0,
        }
    }
}
