//! The events of a task service, as `estimand tasks events --json` prints it: the tasks that ran to an end become a trace,
//! each as long as its last attempt took, and the first of them is submitted at 0.

use std::collections::BTreeMap;

use estimand_api::task_event::TaskEvent;
use estimand_capacity::Amounts;
use estimand_placement::Millis;
use serde_json::Value;

use super::TraceTask;

#[derive(Default)]
pub(super) struct Recorded(BTreeMap<u64, Record>);

/// A task, as far as it is known.
struct Record {
    submitted_at: Millis,
    resources: Amounts,
    priority: i32,
    started_at: Option<Millis>,
    service: Option<Millis>,
}

impl Recorded {
    /// Takes an event. Those of a task whose submission is not there are passed over.
    pub fn take(&mut self, line: Value) -> Result<(), String> {
        let event: TaskEvent = serde_json::from_value(line).map_err(|error| error.to_string())?;
        let at = Millis(u64::try_from(event.at.timestamp_millis()).unwrap_or(0));
        let cause = event.cause.get("event").and_then(Value::as_str).unwrap_or_default();
        if cause == "submit" {
            let field = |name: &str| event.cause.get(name).cloned().unwrap_or_default();
            let resources = match field("resources") {
                Value::Null => Amounts::default(),
                given => serde_json::from_value(given).map_err(|error| format!("resources: {error}"))?,
            };
            let priority =
                field("priority").as_i64().and_then(|given| i32::try_from(given).ok()).unwrap_or(0);
            let record = Record { submitted_at: at, resources, priority, started_at: None, service: None };
            self.0.insert(event.number, record);
            return Ok(());
        }
        if let Some(record) = self.0.get_mut(&event.number) {
            match event.to.as_str() {
                "RUNNING" => record.started_at = Some(at),
                "SUCCEEDED" | "FAILED" | "CANCELLED" => {
                    record.service = record.started_at.map(|started_at| at.saturating_sub(started_at));
                }
                "QUEUED" => record.started_at = None,
                _ => {}
            }
        }
        Ok(())
    }

    pub fn tasks(self) -> impl Iterator<Item = TraceTask> {
        let begin = self.0.values().map(|record| record.submitted_at).min().unwrap_or_default();
        self.0.into_values().filter_map(move |record| {
            let Record { submitted_at, resources, priority, service, .. } = record;
            Some(TraceTask {
                at: submitted_at - begin,
                service: service?,
                resources,
                priority,
                ..TraceTask::default()
            })
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_task_takes_as_long_as_its_last_attempt_did() {
        let mut recorded = Recorded::default();
        let mut tell = |number: u64, second: u32, to: &str, cause: Value| {
            let at = format!("2026-01-01T00:00:{second:02}Z");
            let event =
                json!({ "revision": 1, "id": "t", "number": number, "at": at, "to": to, "cause": cause });
            recorded.take(event).unwrap();
        };
        let submit = json!({ "event": "submit", "resources": { "cpu": 500 }, "priority": 3 });
        tell(7, 10, "QUEUED", submit);
        tell(8, 12, "QUEUED", json!({ "event": "submit" }));
        tell(7, 13, "RUNNING", json!({ "event": "start", "attempt": 1 }));
        tell(7, 14, "QUEUED", json!({ "event": "end", "attempt": 1 }));
        tell(7, 20, "RUNNING", json!({ "event": "start", "attempt": 2 }));
        tell(7, 25, "SUCCEEDED", json!({ "event": "end", "attempt": 2 }));
        tell(8, 26, "CANCELLED", json!({ "event": "cancel" }));
        tell(9, 30, "RUNNING", json!({ "event": "start", "attempt": 1 }));
        let tasks: Vec<TraceTask> = recorded.tasks().collect();
        let expected: TraceTask = serde_json::from_value(
            json!({ "at": 0, "service": 5000, "resources": { "cpu": 500 }, "priority": 3 }),
        )
        .unwrap();
        assert_eq!(tasks, [expected]);
    }
}
