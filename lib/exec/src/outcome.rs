//! The end of a run as it is reported.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::usage::RunUsage;

/// How a run ended. Nothing of it is left.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunOutcome {
    pub exit: Exit,
    /// From its start until its main process ended.
    pub ran_for: Duration,
    /// Processor time of the main process and of those it waited for.
    pub cpu: Duration,
    /// The most memory that one of its processes held, in bytes, as far as it can be told from the launcher's own.
    pub memory: Option<u64>,
    /// The limit for which it was killed, as far as is known.
    pub exceeded: Option<ExceededLimit>,
    /// The means that it used, if its launcher measures.
    pub usage: Option<RunUsage>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Exit {
    Code(i32),
    Signal(i32),
    /// The launcher died, and the run with it.
    Lost,
}

/// A limit for which a run was killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ExceededLimit {
    Memory,
    Processes,
}

impl RunOutcome {
    pub(super) fn lost(ran_for: Duration) -> Self {
        RunOutcome {
            exit: Exit::Lost,
            ran_for,
            cpu: Duration::ZERO,
            memory: None,
            exceeded: None,
            usage: None,
        }
    }
}

impl Exit {
    /// Reads the kernel's wait status.
    pub(super) fn from_status(status: i32) -> Self {
        if libc::WIFSIGNALED(status) {
            Exit::Signal(libc::WTERMSIG(status))
        } else {
            Exit::Code(libc::WEXITSTATUS(status))
        }
    }
}
