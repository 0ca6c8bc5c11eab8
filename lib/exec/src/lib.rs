//! Running executables: the one place in the product that starts processes.
//!
//! The agent starts one *launcher* process, a small copy of the same binary, and never starts anything else. The
//! launcher is the parent of every run, so starting a process never copies the agent's memory, and processes that a
//! run leaves behind come back to the launcher, which ends them. A run has ended when its main process has and
//! nothing that it started is left; only then it is reported.
//!
//! If the agent is killed, the launcher sees its socket close, kills everything and ends. If the launcher is
//! killed, the kernel kills its children, and the agent kills the rest and starts another launcher.
//!
//! Each slot has a *cell* for its runs. Where cgroups can be made a cell is a cgroup, in which limits hold; what leaves it
//! is killed. Elsewhere the process table is watched. [`Launcher`] is the agent's handle, [`capture`] one run
//! with its bounds on time and output, [`serve`] the launcher process itself. What is to outlive the agent is run by a
//! process of its own with a launcher of its own: [`Detached`].

mod capabilities;
mod capture;
mod cell;
mod cgroup;
mod cgroup_v1;
mod cgroup_v2;
mod child;
mod clearing;
mod client;
mod detached;
mod errors;
mod failure;
mod gauge;
mod groups;
mod ipc;
mod launcher;
mod leftovers;
mod limits;
mod link;
mod orphans;
mod outcome;
mod peak_memory;
mod poll;
mod privileges;
mod process;
mod protocol;
mod run;
mod shared;
mod socket;
mod spec;
mod stack;
mod starting;
mod strays;
mod supervisor;
mod sweeps;
#[cfg(test)]
mod tests;
mod usage;

use std::ffi::OsString;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub use capabilities::Capabilities;
pub use capture::{CaptureLimits, CapturedRun, EndReason, capture};
pub use client::{Cell, Launcher};
pub use detached::{Detached, detach};
pub use errors::{LaunchError, SpawnError};
pub use ipc::remove_ipc_of;
pub use limits::Limits;
pub use outcome::{ExceededLimit, Exit, RunOutcome};
pub use privileges::{Identity, Privileges, hide_memory};
pub use process::serve;
pub use run::Run;
pub use spec::{DirRights, ProgramFile, RunSpec, Stdin};
pub use usage::{DiskBytes, MemoryUsage, ProcessorTime, RunUsage};

/// The launcher's program, and the means and privileges of its runs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LauncherOptions {
    /// The program that calls [`serve`], as an absolute path.
    pub program: PathBuf,
    pub args: Vec<OsString>,
    /// Names the agent's cgroups and marks its processes: unique on this machine, and the same after a restart,
    /// so that the next agent finds the processes that this one left.
    pub id: String,
    /// True if no launcher of this id was before: nothing of one is looked for.
    pub first: bool,
    pub cgroups: CgroupMode,
    pub precedence: Precedence,
    pub privileges: Privileges,
    /// The ends of its runs have what they used.
    #[serde(default)]
    pub measures: bool,
}

/// The share of the processor that runs get where they compete for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Precedence {
    #[default]
    Ordinary,
    /// A tenth of an ordinary share; all of a processor that nothing else wants.
    Background,
}

/// The cgroups that may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum CgroupMode {
    /// The best hierarchy of this machine.
    #[default]
    Best,
    /// The unified hierarchy only.
    V2,
    /// None: processes are held together by looking through the process table.
    None,
}
