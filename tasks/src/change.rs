//! A change of tasks, which is stored whole or not at all, and the reasons why there is none.

use std::sync::Arc;

use crate::task::{Edit, Task};

/// The reason why nothing can be changed any more, also for the operator.
pub const TAKEN_OVER: &str = "another task service has taken over this store";

/// Changes that are stored together.
#[derive(Debug, Default)]
pub struct Change {
    pub edits: Vec<Edit>,
    pub deleted: Vec<Arc<Task>>,
    /// The highest number that a task ever had.
    pub highest: u64,
    /// Microseconds since 1970.
    pub at: i64,
}

/// The reason why a request is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    #[error("there is no task `{0}`")]
    Unknown(String),
    #[error("there is a task `{0}` already; without an id one is made")]
    IdTaken(String),
    #[error("the Idempotency-Key was given with another document before, which made task `{0}`")]
    KeyTaken(String),
    #[error("task `{id}` is {state}; only one that is over is deleted: cancel it first")]
    NotOver { id: String, state: &'static str },
    #[error("there are {0} tasks, and none of them is over")]
    Full(usize),
}
