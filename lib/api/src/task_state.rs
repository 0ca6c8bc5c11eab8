//! The states of a task.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum TaskState {
    /// It waits for other tasks, for a node, or for the end of a pause.
    #[default]
    Queued,
    /// A node is chosen, and its agent has not said yet that it has the task.
    Placed,
    /// Its node's agent has it.
    Accepted,
    /// Its image and files are made ready.
    Preparing,
    Running,
    /// It was cancelled, makes room, or its promise has ended; it may still run.
    Stopping,
    /// Its node is not heard of.
    Lost,
    Succeeded,
    Failed,
    Cancelled,
}

impl TaskState {
    pub const ALL: [TaskState; 10] = [
        TaskState::Queued,
        TaskState::Placed,
        TaskState::Accepted,
        TaskState::Preparing,
        TaskState::Running,
        TaskState::Stopping,
        TaskState::Lost,
        TaskState::Succeeded,
        TaskState::Failed,
        TaskState::Cancelled,
    ];

    pub fn is_final(self) -> bool {
        matches!(self, TaskState::Succeeded | TaskState::Failed | TaskState::Cancelled)
    }

    /// Its name, as it is shown and stored.
    pub fn as_str(self) -> &'static str {
        match self {
            TaskState::Queued => "QUEUED",
            TaskState::Placed => "PLACED",
            TaskState::Accepted => "ACCEPTED",
            TaskState::Preparing => "PREPARING",
            TaskState::Running => "RUNNING",
            TaskState::Stopping => "STOPPING",
            TaskState::Lost => "LOST",
            TaskState::Succeeded => "SUCCEEDED",
            TaskState::Failed => "FAILED",
            TaskState::Cancelled => "CANCELLED",
        }
    }

    /// Something of it may be on a node.
    pub fn is_placed(self) -> bool {
        !self.is_final() && self != TaskState::Queued
    }
}
