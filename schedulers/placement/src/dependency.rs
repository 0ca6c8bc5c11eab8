//! Tasks that come after others: on which end of them they wait, and what they still wait for.

pub use estimand_api::task_document::{After, On};
use serde::{Deserialize, Serialize};

use super::queue::TaskNumber;

/// A task or array that is not over, and that a task waits for. Its id may be given again; its number is not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Awaited {
    pub number: TaskNumber,
    pub id: String,
    #[serde(default)]
    pub on: On,
}
