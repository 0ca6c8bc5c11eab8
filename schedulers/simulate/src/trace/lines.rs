//! JSON lines: a line with `revision` is an event of a task service, one with `node` the loss of a node, one with `from` a
//! promise, any other a task. Times are milliseconds, but windows of promises are seconds.

use serde_json::Value;

use super::events::Recorded;
use super::{Loss, Trace, TraceError, TracePromise, TraceTask};

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
        } else if value.get("from").is_some() {
            let promise: TracePromise =
                serde_json::from_value(value).map_err(|error| wrong(error.to_string()))?;
            if promise.until <= promise.from {
                return Err(wrong("`until` is not after `from`".to_owned()));
            }
            trace.promises.push(promise);
        } else {
            let task: TraceTask = serde_json::from_value(value).map_err(|error| wrong(error.to_string()))?;
            trace.tasks.push(task);
        }
    }
    trace.tasks.extend(recorded.tasks());
    Ok(trace)
}
