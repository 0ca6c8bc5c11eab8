//! The log of events: every submission, placement (with why), start, end and loss, as JSON lines. Replayed through the
//! machine of states it gives the same states again.

use std::collections::BTreeMap;

use estimand_placement::Millis;
use estimand_placement::decision::Why;
use estimand_placement::queue::TaskNumber;
use estimand_placement::state::{Progress, Rules, Transition};
use serde::{Deserialize, Serialize};

use crate::trace::TraceTask;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "entry", rename_all = "camelCase")]
pub enum Entry {
    Submitted {
        task: TaskNumber,
        document: TraceTask,
        /// Why it fits nowhere, if it does not.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        misfit: Option<String>,
    },
    Transition {
        task: TaskNumber,
        transition: Transition,
        /// The grounds of a placement.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        why: Option<Why>,
    },
    NodeLost {
        at: Millis,
        node: String,
    },
    NodeBack {
        at: Millis,
        node: String,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct ReplayError {
    pub line: usize,
    pub message: String,
}

/// The states that a log leads to.
pub fn replay(text: &str, rules: &Rules) -> Result<BTreeMap<TaskNumber, Progress>, ReplayError> {
    let mut states: BTreeMap<TaskNumber, Progress> = BTreeMap::new();
    for (number, line) in text.lines().enumerate() {
        let wrong = |message: String| ReplayError { line: number + 1, message };
        let entry: Entry = serde_json::from_str(line).map_err(|error| wrong(error.to_string()))?;
        match entry {
            Entry::Submitted { task, .. } => {
                if states.insert(task, Progress::default()).is_some() {
                    return Err(wrong(format!("task {} is submitted twice", task.0)));
                }
            }
            Entry::Transition { task, transition, .. } => {
                let progress = states
                    .get_mut(&task)
                    .ok_or_else(|| wrong(format!("task {} was not submitted", task.0)))?;
                let Transition { at, to, cause, actor, .. } = transition;
                progress.apply(rules, at, cause, actor).map_err(|error| wrong(error.to_string()))?;
                if progress.state != to {
                    return Err(wrong(format!(
                        "task {} is {:?}, and not {to:?} as it says",
                        task.0, progress.state
                    )));
                }
            }
            Entry::NodeLost { .. } | Entry::NodeBack { .. } => {}
        }
    }
    Ok(states)
}
