//! The end of a promise, as the tasks on it see it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::task::STOP_GRACE;

/// Between SIGTERM and SIGKILL, or a soft limit and a hard one, at the end of a window: a tenth of it, at most [`STOP_GRACE`].
/// The hard one is the window's end.
pub fn end_grace(window: Duration) -> Duration {
    (window / 10).min(STOP_GRACE)
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_asked_to_end_inside_its_window() {
        for (window, grace) in [(1_000, 100), (8_000, 800), (100_000, 10_000), (7_200_000, 10_000), (0, 0)] {
            let window = Duration::from_millis(window);
            assert_eq!(end_grace(window), Duration::from_millis(grace), "{window:?}");
        }
    }
}
