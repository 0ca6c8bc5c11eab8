//! Translates between rows of the store and tasks.

use std::collections::BTreeMap;
use std::sync::Arc;

use estimand_api::instant::to_rfc3339;
use estimand_api::json::parse_object;
use estimand_api::task_document::TaskDocument;
use estimand_api::task_event::TaskEvent;
use estimand_api::task_log::{LogBytes, TaskLogEntry, TaskLogLine, TaskStream};
use estimand_api::task_record::TaskTransition;
use estimand_api::task_usage::AttemptUsage;
use estimand_service::rows::cause;
pub use estimand_service::rows::{column, instant, known};
use estimand_store::{
    GoneTaskRow, LOG_PIECE, StoredFeed, TaskArrayRow, TaskCursorRow, TaskEventRow, TaskFeedGroup,
    TaskFeedRow, TaskGroup, TaskLogGroup, TaskLogRow, TaskOutputRow, TaskRow,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::change::{Change, outcomes};
use crate::core::queue::TaskNumber;
use crate::core::state::Transition;
use crate::storage::FeedExtent;
use crate::storage::images::{GivenImages, image};
use crate::task::{Array, Edit, Task};

/// The rows of changes, as they are after all of them.
pub fn group(changes: &[Change]) -> TaskGroup {
    let outcomes = outcomes(changes);
    let is_kept = |task: &Task| outcomes.get(&task.number).is_some_and(Option::is_some);
    let mut group = TaskGroup {
        tasks: outcomes.values().flatten().map(|task| row(task)).collect(),
        ..TaskGroup::default()
    };
    // A row may be written by several of the changes, and no statement takes it twice.
    let (mut lines, mut gone, mut arrays) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    let mut outputs = BTreeMap::new();
    for change in changes {
        group.highest = group.highest.max(column(change.highest));
        for edit in change.edits.iter().filter(|edit| is_kept(&edit.after)) {
            group.events.extend(event_rows(edit));
            let number = column(edit.after.number.0);
            outputs.extend(edit.outputs.as_ref().map(|outputs| (number, text(outputs))));
            lines.extend(edit.lines.iter().map(|line| ((number, line.line_number), Arc::clone(line))));
        }
        for task in &change.deleted {
            group.deleted.push(column(task.number.0));
            if let (number @ 1.., Some(at)) = (task.progress.attempt, task.ended_at) {
                let row = GoneTaskRow { id: task.id.clone(), attempt: i64::from(number), at };
                gone.insert(task.id.clone(), row);
            }
        }
        group.forgotten.extend(change.forgotten.iter().cloned());
        arrays.extend(change.new_arrays.iter().map(|array| (array.number, array_row(array))));
        for number in &change.deleted_arrays {
            arrays.remove(number);
            group.deleted_arrays.push(column(number.0));
        }
    }
    group.promises = super::promises::group(changes);
    group.logs = TaskLogGroup { lines: lines.into_values().collect(), ..removals(changes) };
    group.outputs = outputs.into_iter().map(|(task, outputs)| TaskOutputRow { task, outputs }).collect();
    group.gone = gone.into_values().collect();
    group.arrays = arrays.into_values().collect();
    group
}

fn event_rows(edit: &Edit) -> impl Iterator<Item = TaskEventRow> {
    let Edit { after, transitions, .. } = edit;
    let first = after.events - transitions.len() as u64;
    (first..).zip(transitions).map(|(place, transition)| TaskEventRow {
        task: column(after.number.0),
        place: column(place),
        at: transition.at.micros(),
        transition: text(transition),
    })
}

fn array_row(array: &Array) -> TaskArrayRow {
    TaskArrayRow {
        number: column(array.number.0),
        id: array.id.clone(),
        idempotency_key: array.key.clone(),
        document: Value::Object(array.document.to_map()).to_string(),
        size: i64::from(array.size),
    }
}

fn row(task: &Task) -> TaskRow {
    TaskRow {
        number: column(task.number.0),
        id: task.id.clone(),
        idempotency_key: task.key.clone(),
        // The array has that of its tasks.
        document: match task.array {
            Some(_) => String::new(),
            None => Value::Object(task.document.to_map()).to_string(),
        },
        progress: text(&task.progress),
        why: task.why.as_deref().map(text),
        log: text(&task.log),
        submitted_at: task.submitted_at,
        submitted_by: estimand_store::actor(&task.submitted_by),
        ended_at: task.ended_at,
    }
}

/// The logs of deleted tasks: short ones are removed with them, the others later, in pieces.
fn removals(changes: &[Change]) -> TaskLogGroup {
    let mut group = TaskLogGroup::default();
    let mut lines = 0;
    for change in changes {
        for task in &change.deleted {
            let number = column(task.number.0);
            // Numbers of lines that were dropped count, too.
            if lines + task.log.next <= LOG_PIECE {
                lines += task.log.next;
                group.removed.push(number);
            } else {
                group.to_remove.push(number);
            }
        }
        group.shortened.extend(change.shortened.iter().map(|task| column(task.0)));
    }
    group
}

/// The array in a row, with its number; none if it cannot be read, which is logged.
pub fn array(row: &TaskArrayRow, images: &GivenImages) -> Option<(TaskNumber, Arc<Array>)> {
    let read = || {
        let number = TaskNumber(known(row.number));
        let (id, key, size) = (row.id.clone(), row.idempotency_key.clone(), count(row.size));
        let (document, image) = (document(&row.document)?, image(number, images)?);
        Ok((number, Arc::new(Array { number, id, key, document, image, size })))
    };
    let wrong = |cause: &String| tracing::error!(id = row.id, cause, "a stored array cannot be read");
    read().inspect_err(wrong).ok()
}

/// The task in a row; none if it cannot be read, which is logged.
pub fn task(
    row: &TaskRow,
    events: u64,
    arrays: &BTreeMap<TaskNumber, Arc<Array>>,
    images: &GivenImages,
) -> Option<Task> {
    match parse(row, events, arrays, images) {
        Ok(task) => Some(task),
        Err(cause) => {
            tracing::error!(id = row.id, cause, "a stored task cannot be read; it is left alone");
            None
        }
    }
}

fn parse(
    row: &TaskRow,
    events: u64,
    arrays: &BTreeMap<TaskNumber, Arc<Array>>,
    images: &GivenImages,
) -> Result<Task, String> {
    let number = TaskNumber(known(row.number));
    let array = match row.document.is_empty() {
        true => {
            let array = arrays.range(..number).next_back().map(|(_, array)| Arc::clone(array));
            Some(array.filter(|array| array.numbers().contains(&number)).ok_or("its array is not there")?)
        }
        false => None,
    };
    let (document, image) = match &array {
        Some(array) => (Arc::clone(&array.document), array.image.clone()),
        None => (document(&row.document)?, image(number, images)?),
    };
    Ok(Task {
        number,
        id: row.id.clone(),
        key: row.idempotency_key.clone(),
        array,
        document,
        image,
        progress: value(&row.progress)?,
        why: row.why.as_deref().map(value).transpose()?.map(Arc::new),
        log: value(&row.log)?,
        events,
        submitted_at: row.submitted_at,
        submitted_by: row.submitted_by.clone(),
        ended_at: row.ended_at,
    })
}

fn document(text: &str) -> Result<Arc<TaskDocument>, String> {
    let mut map = parse_object(text.as_bytes()).map_err(|problem| cause(&problem))?;
    // The id may have become a word of the interface since.
    let id = map.remove("id").and_then(|id| id.as_str().map(str::to_owned));
    let document = TaskDocument::from_map(map).map_err(|problem| cause(&problem))?;
    Ok(Arc::new(TaskDocument { id, ..document }))
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

/// The usage of an attempt, if this is its end and it was measured.
pub fn attempt_usage(transition: &TaskTransition) -> Option<AttemptUsage> {
    let part = |name| transition.cause.get(name).cloned();
    let attempt = serde_json::from_value(part("attempt")?).ok()?;
    Some(AttemptUsage { attempt, usage: serde_json::from_value(part("used")?).ok()? })
}

/// A line of a task's log, as its agent reports it.
pub fn log_row(task: TaskNumber, number: u64, attempt: u32, line: TaskLogLine) -> TaskLogRow {
    let TaskLogLine { at, stream, text, bytes, partial, dropped } = line;
    TaskLogRow {
        task: column(task.0),
        line_number: column(number),
        attempt: i64::from(attempt),
        at,
        stream: stream.as_str().to_owned(),
        content: text,
        continues: partial,
        dropped: column(dropped),
        written: bytes.map(|LogBytes(bytes)| bytes),
    }
}

/// A line of a log, as it is shown.
pub fn log_entry(row: TaskLogRow) -> TaskLogEntry {
    TaskLogEntry {
        line: known(row.line_number),
        attempt: count(row.attempt),
        at: instant(row.at),
        stream: row.stream.parse().unwrap_or(TaskStream::Stdout),
        text: row.content,
        bytes: row.written.map(LogBytes),
        partial: row.continues,
        dropped: known(row.dropped),
    }
}

/// The rows of events, and how far a reader is.
pub fn feed_group(
    events: &[TaskEvent],
    removed_to: Option<u64>,
    cursor: Option<(&'static str, u64)>,
) -> TaskFeedGroup {
    let cursor = cursor.map(|(name, at)| TaskCursorRow { name: name.to_owned(), revision: column(at) });
    TaskFeedGroup {
        rows: events.iter().map(feed_row).collect(),
        removed_to: removed_to.map(column),
        cursors: cursor.into_iter().collect(),
    }
}

/// The fields of an event that have a column.
const COLUMNS: [&str; 4] = ["revision", "at", "id", "number"];

fn feed_row(event: &TaskEvent) -> TaskFeedRow {
    let mut rest = json!(event);
    if let Value::Object(map) = &mut rest {
        map.retain(|field, _| !COLUMNS.contains(&field.as_str()));
    }
    TaskFeedRow {
        revision: column(event.revision),
        task: column(event.number),
        id: event.id.clone(),
        at: event.at.timestamp_micros(),
        event: rest.to_string(),
    }
}

/// An event, as it is shown; none if it cannot be read, which is logged. One from before there was a feed is the transition
/// alone.
pub fn feed_event(row: &TaskFeedRow) -> Option<TaskEvent> {
    let mut map: Map<String, Value> = value(&row.event)
        .inspect_err(|cause| tracing::error!(revision = row.revision, cause, "a stored event cannot be read"))
        .ok()?;
    let attempt = map.get("cause").and_then(|cause| cause.get("attempt")).cloned();
    if let Some(attempt) = attempt {
        map.entry("attempt").or_insert(attempt);
    }
    map.insert("revision".to_owned(), json!(row.revision));
    map.insert("at".to_owned(), json!(to_rfc3339(row.at)));
    map.insert("id".to_owned(), json!(row.id));
    map.insert("number".to_owned(), json!(row.task));
    serde_json::from_value(Value::Object(map))
        .inspect_err(
            |cause| tracing::error!(revision = row.revision, %cause, "a stored event cannot be read"),
        )
        .ok()
}

pub fn feed_extent(stored: StoredFeed) -> FeedExtent {
    let cursors = stored.cursors.into_iter().map(|row| (row.name, known(row.revision)));
    FeedExtent { base: known(stored.base), newest: known(stored.newest), cursors: cursors.collect() }
}

pub fn value<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

pub fn text(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

pub fn count(number: i64) -> u32 {
    u32::try_from(number).unwrap_or(0)
}
