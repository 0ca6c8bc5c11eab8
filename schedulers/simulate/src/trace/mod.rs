//! The input of a simulation: tasks and losses of nodes, each with its time. Read from the standard workload format
//! (`swf`), or from JSON lines (`lines`), which may be the events of a task service (`events`).

use estimand_capacity::Amounts;
use estimand_placement::Millis;
use serde::{Deserialize, Serialize};

mod events;
mod lines;
mod swf;

/// A task of a trace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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

/// Tasks in the order of their submission, and losses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trace {
    pub tasks: Vec<TraceTask>,
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
