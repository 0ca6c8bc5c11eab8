//! Translates between rows of the store and tasks.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use estimand_api::json::parse_object;
use estimand_api::problem::Problem;
use estimand_api::task::TaskStream;
use estimand_api::task_record::{TaskLogEntry, TaskTransition};
use estimand_store::{GoneTaskRow, TaskEventRow, TaskGroup, TaskLogRow, TaskRow};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::change::Change;
use crate::core::document::Document;
use crate::core::queue::TaskNumber;
use crate::core::state::Transition;
use crate::task::{Edit, LogRow, Task};

/// The rows of a change.
pub fn group(change: &Change) -> TaskGroup {
    let mut group = TaskGroup { highest: column(change.highest), ..TaskGroup::default() };
    for Edit { after, transitions, lines } in &change.edits {
        let number = column(after.number.0);
        group.tasks.push(row(after));
        let first = after.events - transitions.len() as u64;
        for (place, transition) in (first..).zip(transitions) {
            let at = i64::try_from(transition.at).unwrap_or(i64::MAX / 1000).saturating_mul(1000);
            group.events.push(TaskEventRow {
                task: number,
                place: column(place),
                at,
                transition: text(transition),
            });
        }
        group.lines.extend(lines.iter().map(|line| log_row(number, line)));
    }
    for task in &change.deleted {
        group.deleted.push(column(task.number.0));
        if task.progress.attempt > 0 {
            let attempt = i64::from(task.progress.attempt);
            group.gone.push(GoneTaskRow { id: task.id.clone(), attempt, at: change.at });
        }
    }
    group
}

fn row(task: &Task) -> TaskRow {
    TaskRow {
        number: column(task.number.0),
        id: task.id.clone(),
        idempotency_key: task.key.clone(),
        document: Value::Object(task.document.to_map()).to_string(),
        progress: text(&task.progress),
        why: task.why.as_deref().map(text),
        log: text(&task.log),
        submitted_at: task.submitted_at,
        submitted_by: estimand_store::actor(&task.submitted_by),
        ended_at: task.ended_at,
    }
}

fn log_row(task: i64, line: &LogRow) -> TaskLogRow {
    TaskLogRow {
        task,
        line_number: column(line.line),
        attempt: i64::from(line.attempt),
        at: line.at,
        stream: line.stream.to_owned(),
        content: line.text.clone(),
        continues: line.partial,
        dropped: column(line.dropped),
    }
}

/// The task in a row; none if it cannot be read, which is logged.
pub fn task(row: &TaskRow, events: u64) -> Option<Task> {
    match parse(row, events) {
        Ok(task) => Some(task),
        Err(cause) => {
            tracing::error!(id = row.id, cause, "a stored task cannot be read; it is left alone");
            None
        }
    }
}

fn parse(row: &TaskRow, events: u64) -> Result<Task, String> {
    let map = parse_object(row.document.as_bytes()).map_err(|problem| cause(&problem))?;
    Ok(Task {
        number: TaskNumber(known(row.number)),
        id: row.id.clone(),
        key: row.idempotency_key.clone(),
        document: Arc::new(Document::from_map(map).map_err(|problem| cause(&problem))?),
        progress: value(&row.progress)?,
        why: row.why.as_deref().map(value).transpose()?.map(Arc::new),
        log: value(&row.log)?,
        events,
        submitted_at: row.submitted_at,
        submitted_by: row.submitted_by.clone(),
        ended_at: row.ended_at,
    })
}

/// A transition of a task, as it is shown.
pub fn transition(row: &TaskEventRow) -> Option<TaskTransition> {
    let stored: Transition = value(&row.transition)
        .inspect_err(|cause| tracing::error!(task = row.task, cause, "a stored transition cannot be read"))
        .ok()?;
    Some(TaskTransition {
        at: instant(row.at),
        from: stored.from.as_str().to_owned(),
        to: stored.to.as_str().to_owned(),
        cause: json!(stored.cause),
        actor: json!(stored.actor),
    })
}

/// A line of a log, as it is shown.
pub fn log_entry(row: TaskLogRow) -> TaskLogEntry {
    TaskLogEntry {
        line: known(row.line_number),
        attempt: count(row.attempt),
        at: instant(row.at),
        stream: row.stream.parse().unwrap_or(TaskStream::Stdout),
        text: row.content,
        partial: row.continues,
        dropped: known(row.dropped),
    }
}

fn value<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

fn text(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

fn cause(problem: &Problem) -> String {
    match problem.errors.as_slice() {
        [] => problem.detail.clone(),
        errors => errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "),
    }
}

pub fn instant(micros: i64) -> DateTime<Utc> {
    DateTime::from_timestamp_micros(micros).unwrap_or_default()
}

pub fn column(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub fn known(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

pub fn count(number: i64) -> u32 {
    u32::try_from(number).unwrap_or(0)
}
