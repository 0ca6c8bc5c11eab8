use std::collections::BTreeSet;

use estimand_api::task_document::TaskDocument;
use estimand_api::task_log::{TaskLogLine, TaskStream};
use estimand_api::task_stop::StopOrder;
use estimand_store::TaskLogRow;

use super::*;
use crate::change::numbers;
use crate::core::dependency::{Awaited, On};
use crate::core::queue::TaskNumber;
use crate::core::state::{Actor, Event, Progress};
use crate::task::{Array, Edit, LogEnd, Task};

fn task(number: u64, id: &str) -> Task {
    Task {
        number: TaskNumber(number),
        id: id.to_owned(),
        key: Some(format!("key-{number}")),
        array: None,
        document: Arc::new(TaskDocument::default()),
        image: None,
        progress: Progress::default(),
        why: None,
        log: LogEnd::default(),
        events: 0,
        submitted_at: 0,
        submitted_by: String::new(),
        ended_at: None,
    }
}

fn array(number: u64, id: &str, size: u32) -> Vec<Task> {
    let document = Arc::new(TaskDocument::default());
    let array = Arc::new(Array {
        number: TaskNumber(number),
        id: id.to_owned(),
        key: None,
        document,
        image: None,
        size,
    });
    let member = |index: u64| {
        let array = Some(Arc::clone(&array));
        Task { key: None, array, ..task(number + 1 + index, &format!("{id}.{index}")) }
    };
    (0..u64::from(size)).map(member).collect()
}

fn change(edits: Vec<Edit>, deleted: &[&Task]) -> Change {
    let deleted = deleted.iter().map(|task| Arc::new((*task).clone())).collect();
    Change { edits, deleted, highest: 9, ..Change::default() }
}

fn cancelled(task: &Task) -> Edit {
    let mut edit = Edit::of(task);
    assert_eq!(edit.apply(1, Event::Cancel(StopOrder::default()), Actor::Scheduler), Ok(true));
    edit
}

fn line(number: u64, text: &str, dropped: u64) -> Arc<TaskLogRow> {
    let text = text.to_owned();
    let line = TaskLogLine { at: 0, stream: TaskStream::Stdout, text, bytes: None, partial: false, dropped };
    Arc::new(rows::log_row(TaskNumber(2), number, 1, line))
}

#[test]
fn a_group_is_stored_as_it_is_after_all_of_it() {
    let (first, second) = (task(1, "a"), task(2, "b"));
    let ended = cancelled(&first);
    let (mut one, mut other) = (Edit::of(&second), Edit::of(&second));
    one.lines = vec![line(0, "x", 0), line(1, "", 1)];
    other.lines = vec![line(1, "", 2)];
    other.after.log.next = 3;
    let gone = ended.after.clone();
    let group = rows::group(&[
        change(vec![Edit::new(first), Edit::new(second), ended], &[]),
        change(vec![one], &[]),
        change(vec![Edit::new(task(3, "a")), other], &[&gone]),
    ]);
    let tasks: Vec<(i64, &str)> = group.tasks.iter().map(|row| (row.number, row.id.as_str())).collect();
    assert_eq!(tasks, [(2, "b"), (3, "a")], "each once, and none that is gone");
    assert!(group.tasks[0].log.contains("\"next\":3"), "{:?}", group.tasks[0]);
    assert_eq!((group.deleted, group.events.len(), group.highest), (vec![1], 0, 9));
    let lines: Vec<(i64, i64)> = group.logs.lines.iter().map(|row| (row.line_number, row.dropped)).collect();
    assert_eq!(lines, [(0, 0), (1, 2)]);
}

#[test]
fn everything_that_was_staged_is_taken_back() {
    let a = task(1, "a");
    let mut waiting = task(2, "waiting");
    let awaited = Awaited { number: TaskNumber(1), id: "a".to_owned(), on: On::End };
    waiting.progress.awaits.push(awaited);
    let mut all = vec![a.clone(), waiting];
    all.extend(array(3, "sweep", 2));
    let published = TaskTable::new(&TaskTable::default(), all.clone(), Default::default(), 5);
    let mut staged = published.clone();
    let mut taken = task(8, "a");
    taken.key = a.key.clone();
    let changes = [
        change(vec![cancelled(&all[2]), cancelled(&all[3]), Edit::new(task(7, "new"))], &[&a]),
        change(vec![Edit::new(taken)], &[&all[2], &all[3]]),
    ];
    for change in &changes {
        staged.apply(change);
    }
    let seen = |table: &TaskTable| {
        let ids: BTreeSet<String> = table.all().map(|task| task.id.clone()).collect();
        let followers: Vec<TaskNumber> = table.followers(TaskNumber(1)).collect();
        let of_key = table.of_key("key-1").map(|named| named.id().to_owned());
        let number = table.named("a").map(|task| task.number);
        (ids, followers, of_key, number, table.array("sweep").cloned(), table.open_of_array(TaskNumber(3)))
    };
    assert_eq!(seen(&staged).3, Some(TaskNumber(8)));
    assert_eq!((seen(&staged).4, seen(&staged).5), (None, 0));
    // Stored, they are shown; refused, they are not there.
    let mut shown = published.clone();
    shown.follow(&staged, &numbers(&changes));
    assert_eq!(seen(&shown), seen(&staged));
    staged.follow(&published, &numbers(&changes));
    assert_eq!(seen(&staged), seen(&published));
}

/// A word of the interface was an id before it was one; so was a log without progress.
#[test]
fn a_stored_task_of_before_is_read() {
    let row = estimand_store::TaskRow {
        number: 1,
        id: "progress".to_owned(),
        idempotency_key: None,
        document: r#"{"id":"progress","command":["true"]}"#.to_owned(),
        progress: rows::text(&Progress::default()),
        why: None,
        log: r#"{"next":3,"first":1,"bytes":9,"ofALaterVersion":{}}"#.to_owned(),
        submitted_at: 1,
        submitted_by: "somebody".to_owned(),
        ended_at: None,
    };
    let task = rows::task(&row, 0, &BTreeMap::new(), &BTreeMap::new()).unwrap();
    assert_eq!(task.document.id.as_deref(), Some("progress"));
    assert_eq!(task.log, LogEnd { next: 3, first: 1, bytes: 9, ..LogEnd::default() });
}
