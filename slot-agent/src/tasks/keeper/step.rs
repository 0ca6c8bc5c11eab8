//! A step of what a keeper runs.

use estimand_api::task::TaskEnding;
use estimand_api::task_usage::TaskUsage;

pub enum Step {
    Running,
    /// It ended in this way, if it did so by itself. Nothing of it is left, and all of its output can be read.
    Ended {
        ending: TaskEnding,
        used: Option<TaskUsage>,
    },
}
