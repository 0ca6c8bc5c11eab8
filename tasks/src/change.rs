//! A change of tasks, which is stored whole or not at all, and the reasons why there is none.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::core::queue::TaskNumber;
use crate::task::{Array, Edit, Task};

/// The reason why nothing can be changed any more, also for the operator.
pub const TAKEN_OVER: &str = "another task service has taken over this store";

/// Changes that are stored together.
#[derive(Debug, Default)]
pub struct Change {
    pub edits: Vec<Edit>,
    pub deleted: Vec<Arc<Task>>,
    /// The user who deletes them; none: the service makes room.
    pub by: Option<String>,
    /// A reader of the feed, by name, and how far it is.
    pub cursor: Option<(&'static str, u64)>,
    pub new_arrays: Vec<Arc<Array>>,
    /// The numbers of those whose last task is deleted.
    pub deleted_arrays: Vec<TaskNumber>,
    /// The highest number that a task ever had.
    pub highest: u64,
    /// Microseconds since 1970.
    pub at: i64,
}

/// The tasks that changes are about, each as it is after all of them; none: it is deleted.
pub fn outcomes(changes: &[Change]) -> BTreeMap<TaskNumber, Option<&Task>> {
    let mut outcomes = BTreeMap::new();
    for change in changes {
        outcomes.extend(change.deleted.iter().map(|task| (task.number, None)));
        outcomes.extend(change.edits.iter().map(|edit| (edit.after.number, Some(&edit.after))));
    }
    outcomes
}

pub fn numbers(changes: &[Change]) -> BTreeSet<TaskNumber> {
    outcomes(changes).into_keys().collect()
}

/// The reason why a request is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    #[error("there is no task `{0}`")]
    Unknown(String),
    #[error("there is a task or array `{0}` already; without an id one is made")]
    IdTaken(String),
    #[error("there is no task or array `{0}` to come after: it was deleted, or never submitted")]
    NothingToFollow(String),
    #[error("the Idempotency-Key was given with another document before, which made task `{0}`")]
    KeyTaken(String),
    #[error("task `{id}` is {state}; only one that is over is deleted: cancel it first")]
    NotOver { id: String, state: &'static str },
    #[error(
        "`{id}` has {open} tasks that are not over; only an array that is over is deleted: cancel it first"
    )]
    NotAllOver { id: String, open: u32 },
    #[error("there are {0} tasks, and too few of them are over to make room")]
    Full(usize),
}
