//! Running executables: the one place in the product that starts processes.
//!
//! The agent starts one *launcher* process, a small copy of the same binary, and never starts anything else. The
//! launcher is the parent of all that runs, so starting a process never copies the agent's memory, and whatever a
//! run leaves behind comes back to the launcher, which ends it. A run has ended when its main process has and
//! nothing that it started is left; only then it is reported.
//!
//! If the agent is killed, the launcher sees its socket close, kills everything and ends. If the launcher is
//! killed, the kernel kills what it started itself, and the agent kills the rest and starts another launcher.
//!
//! Where cgroups can be made, each slot has its *cell*, which nothing leaves and in which limits hold. Where they
//! cannot, the process table is watched. [`Launcher`] is the agent's handle, [`capture`] one run with its bounds
//! on time and output, [`serve`] the launcher process itself.

mod capabilities;
mod capture;
mod cell;
mod cgroup;
mod cgroup_v1;
mod cgroup_v2;
mod child;
mod clearing;
mod client;
mod errors;
mod kernel;
mod launcher;
mod limits;
mod link;
mod lost;
mod orphans;
mod privileges;
mod process;
mod protocol;
mod run;
mod socket;
#[cfg(test)]
mod tests;
mod wire;

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

pub use capabilities::Capabilities;
pub use capture::{Capture, Captured, Why, capture};
pub use client::{Cell, Launcher};
pub use errors::{LaunchError, SpawnError};
pub use limits::Limits;
pub use privileges::{Identity, Privileges};
pub use process::serve;
pub use run::Run;

/// The kernel killed for want of memory.
const OVER_MEMORY: u8 = 1;
/// There were more processes than allowed.
const OVER_PROCESSES: u8 = 2;

/// How the launcher is started, and what it may do.
#[derive(Debug, Clone)]
pub struct LauncherOptions {
    /// The program that calls [`serve`], as an absolute path.
    pub program: PathBuf,
    pub args: Vec<OsString>,
    /// Names the agent's cgroups and marks its processes: unique on this machine, and the same after a restart,
    /// so that the next agent finds what this one left.
    pub id: String,
    pub cells: Cells,
    pub privileges: Privileges,
}

/// Which cgroups may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum Cells {
    /// Whatever is best here.
    #[default]
    Best = 0,
    /// The unified hierarchy only.
    V2 = 1,
    /// None: processes are held together by looking through the process table.
    None = 2,
}

/// What to run. The environment is complete as given here; the run's token (`ESTIMAND_RUN`) is all that is added.
#[derive(Debug)]
pub struct RunSpec<'a> {
    /// An absolute path.
    pub program: PathBuf,
    /// Its open file, if not whatever lies at the path shall be executed.
    pub file: Option<ProgramFile>,
    /// With the program's name as its first.
    pub argv: Vec<String>,
    pub env: Vec<(String, String)>,
    pub dir: PathBuf,
    pub stdin: Stdin,
    /// Where it runs. A cell holds one run at a time.
    pub cell: &'a Cell,
    /// When it is ended unless [`Launcher::extend_leases`] says otherwise.
    pub until: Option<Instant>,
}

/// A file to be executed, whatever has become of its path.
#[derive(Debug)]
pub struct ProgramFile {
    pub descriptor: OwnedFd,
    /// Whether it begins with `#!`: then its interpreter opens it once more, as `/dev/fd/N`.
    pub script: bool,
}

/// What a run reads from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stdin {
    Null,
    Pipe,
}

/// How a run ended. Nothing of it is left.
#[derive(Debug, Clone, PartialEq)]
pub struct Ended {
    pub exit: Exit,
    /// From its start until its main process ended.
    pub ran_for: Duration,
    /// Processor time of the main process and of those it waited for.
    pub cpu: Duration,
    /// Bytes; at least what the launcher itself has, which the kernel counts in.
    pub max_rss: u64,
    /// The limit for which it was killed, as far as is known.
    pub over: Option<Over>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    Code(i32),
    Signal(i32),
    /// The launcher died, and the run with it.
    Lost,
}

/// A limit that a run was killed for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Over {
    Memory,
    Processes,
}

impl Over {
    fn from_u8(over: u8) -> Option<Self> {
        match over {
            OVER_MEMORY => Some(Over::Memory),
            OVER_PROCESSES => Some(Over::Processes),
            _ => None,
        }
    }
}

impl Ended {
    fn lost(ran_for: Duration) -> Self {
        Ended { exit: Exit::Lost, ran_for, cpu: Duration::ZERO, max_rss: 0, over: None }
    }
}

impl Exit {
    /// Reads the kernel's wait status.
    fn from_status(status: i32) -> Self {
        if libc::WIFSIGNALED(status) {
            Exit::Signal(libc::WTERMSIG(status))
        } else {
            Exit::Code(libc::WEXITSTATUS(status))
        }
    }
}
