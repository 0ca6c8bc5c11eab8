//! The end of a promise, as the tasks on it see it.

use serde::{Deserialize, Serialize};

/// The end of a promise, by which nothing of its task is left on the node, whoever is there to say so. It is told as time
/// that is left, so that no clocks are compared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PromiseEnd {
    /// The promise's id.
    pub promise: String,
    /// The end in seconds since 1970, by the clock of the task service: it tells one end from another, and no more.
    pub until: u64,
    /// The milliseconds that are left when this is told.
    pub left_ms: u64,
    /// So many milliseconds before its end the task is asked to end.
    pub grace_ms: u64,
    /// So many milliseconds before its end the task is asked to save its work, if its document has a grace for that; in the last
    /// tenth of them, at most 10 s, it is asked to end. Agents of before know `graceMs` alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint_ms: Option<u64>,
}

/// The cause of an end that is the end of its time.
pub const BY_TIME: &str = "its time is over";

impl PromiseEnd {
    /// The reason for the end of a task whose promise has come to its own.
    pub fn reason(promise: &str) -> String {
        format!("its promise `{promise}` is over: {BY_TIME}")
    }

    /// True of the reason of one that came to its end, and was not given back or lost before.
    pub fn is_by_time(reason: &str) -> bool {
        reason.ends_with(BY_TIME)
    }
}
