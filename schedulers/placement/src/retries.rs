//! The consequences when a task has ended or its node is lost: rules that the task's document gives.

/// The end of one run.
pub use estimand_api::task::TaskEnding as Ending;
pub use estimand_api::task_document::{OnLoss, Retries};
