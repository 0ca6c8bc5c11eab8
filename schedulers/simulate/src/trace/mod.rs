//! The input of a simulation: tasks, promises and losses of nodes, each with its time. Read from the standard workload format
//! (`swf`), or from JSON lines (`lines`), which may be the events of a task service (`events`).

use std::borrow::Cow;

use estimand_api::selector::Selector;
use estimand_capacity::{Amounts, Tick};
use estimand_placement::Millis;
use estimand_placement::policy::Policy;
use estimand_placement::queue::TaskNumber;
use estimand_placement::state::Progress;
use estimand_placement::task::TaskView;
use serde::{Deserialize, Serialize};

mod events;
mod lines;
mod swf;

/// A task of a trace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TraceTask {
    /// When it is submitted, in milliseconds.
    pub at: Millis,
    /// How long it takes if nothing slows it down.
    pub service: Millis,
    /// `cpu` in thousandths of a processor, `memory` in bytes.
    #[serde(default)]
    pub resources: Amounts,
    #[serde(default)]
    pub priority: i32,
    /// The promise on whose capacity it is to run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promise: Option<String>,
    /// The user whose task it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The framework of its user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub framework: Option<String>,
}

/// A promise that is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TracePromise {
    pub promise: String,
    /// When it is asked for, in milliseconds.
    #[serde(default)]
    pub at: Millis,
    /// The seconds in which it begins and ends.
    pub from: Tick,
    pub until: Tick,
    /// The amounts of each unit.
    #[serde(default)]
    pub resources: Amounts,
    /// The number of units.
    #[serde(default = "one")]
    pub width: u64,
    /// The rank by which promises are kept where capacity is lost.
    #[serde(default)]
    pub value: u64,
}

impl TraceTask {
    pub(crate) fn view<'t>(
        &'t self,
        number: TaskNumber,
        policy: Policy,
        nodes: &'t Selector,
        progress: &'t Progress,
    ) -> TaskView<'t> {
        TaskView {
            number,
            submitted_at: self.at,
            priority: self.priority,
            promise: self.promise.as_deref(),
            amounts: Cow::Borrowed(&self.resources),
            nodes,
            policy,
            needs_bound_labels: false,
            has_image: false,
            user: self.user.as_deref(),
            framework: self.framework.as_deref(),
            progress,
        }
    }
}

fn one() -> u64 {
    1
}

/// A node that is lost for a while.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Loss {
    pub node: String,
    pub lost_at: Millis,
    /// None: for good.
    #[serde(default)]
    pub back_at: Option<Millis>,
}

/// Tasks in the order of their submission, promises, and losses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trace {
    pub tasks: Vec<TraceTask>,
    pub promises: Vec<TracePromise>,
    pub losses: Vec<Loss>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct TraceError {
    pub line: usize,
    pub message: String,
}

impl Trace {
    /// Reads a trace; which of the two formats it has, its first line says.
    pub fn parse(text: &str) -> Result<Trace, TraceError> {
        let first = text.lines().map(str::trim_start).find(|line| !line.is_empty()).unwrap_or("");
        let mut trace = if first.starts_with('{') { lines::parse(text)? } else { swf::parse(text)? };
        trace.tasks.sort_by_key(|task| task.at);
        Ok(trace)
    }
}
