//! JSON lines: a line with `revision` is an event of a task service, one with `node` the loss of a node, any other a task.
//! Times of the latter two are milliseconds.

use serde_json::Value;

use super::events::Recorded;
use super::{Loss, Trace, TraceError, TraceTask};

pub(super) fn parse(text: &str) -> Result<Trace, TraceError> {
    let (mut trace, mut recorded) = (Trace::default(), Recorded::default());
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let wrong = |message: String| TraceError { line: number + 1, message };
        let value: Value =
            serde_json::from_str(line).map_err(|error| wrong(format!("this is no JSON: {error}")))?;
        if value.get("revision").is_some() {
            recorded.take(value).map_err(wrong)?;
        } else if value.get("node").is_some() {
            let loss: Loss = serde_json::from_value(value).map_err(|error| wrong(error.to_string()))?;
            if loss.back_at.is_some_and(|back| back <= loss.lost_at) {
                return Err(wrong("`backAt` is not after `lostAt`".to_owned()));
            }
            trace.losses.push(loss);
        } else {
            let task: TraceTask = serde_json::from_value(value).map_err(|error| wrong(error.to_string()))?;
            trace.tasks.push(task);
        }
    }
    trace.tasks.extend(recorded.tasks());
    Ok(trace)
}
