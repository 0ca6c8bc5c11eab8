//! `t_task`, the tasks; `t_task_event`, what happened to each; `t_task_log`, their logs; and `t_task_gone`, the attempts
//! of deleted ones, so that a later task with such an id never has an attempt of the same number.
//!
//! A change is one transaction, under the claim of the task service. The revision of that claim is the
//! highest number that a task ever had.

use diesel::prelude::*;

use crate::backend::on;
use crate::owner::advance;
use crate::schema::{t_task, t_task_event, t_task_gone, t_task_log};
use crate::statement::{Keys, Rows, Value, write_all};
use crate::{Claim, Connection, Error};

#[derive(Clone, Debug, PartialEq, Eq, Queryable)]
pub struct TaskRow {
    pub number: i64,
    pub id: String,
    pub idempotency_key: Option<String>,
    /// As JSON, with its secrets; so `progress`, `why` and `log`.
    pub document: String,
    pub progress: String,
    pub why: Option<String>,
    pub log: String,
    pub submitted_at: i64,
    pub submitted_by: String,
    pub ended_at: Option<i64>,
}

/// The attempts that a deleted task had.
#[derive(Clone, Debug, PartialEq, Eq, Queryable)]
pub struct GoneTaskRow {
    pub id: String,
    pub attempt: i64,
    pub at: i64,
}

#[derive(Clone, Debug, PartialEq, Eq, Queryable)]
pub struct TaskEventRow {
    pub task: i64,
    pub place: i64,
    pub at: i64,
    /// As JSON.
    pub transition: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Queryable)]
pub struct TaskLogRow {
    pub task: i64,
    pub line_number: i64,
    pub attempt: i64,
    pub at: i64,
    pub stream: String,
    pub content: String,
    pub continues: bool,
    pub dropped: i64,
}

/// Everything that one transaction changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskGroup {
    /// New or changed.
    pub tasks: Vec<TaskRow>,
    /// The numbers of those that are deleted, with their events and logs.
    pub deleted: Vec<i64>,
    pub gone: Vec<GoneTaskRow>,
    pub events: Vec<TaskEventRow>,
    pub lines: Vec<TaskLogRow>,
    /// The highest number that a task ever had.
    pub highest: i64,
}

/// Everything that is kept in memory, by number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredTasks {
    pub tasks: Vec<TaskRow>,
    pub gone: Vec<GoneTaskRow>,
    /// How many events each task has.
    pub events: Vec<(i64, i64)>,
}

static TASKS: Rows = Rows {
    table: "t_task",
    columns: &[
        "number",
        "id",
        "idempotency_key",
        "document",
        "progress",
        "why",
        "log",
        "submitted_at",
        "submitted_by",
        "ended_at",
    ],
    replaced_by: 1,
};
static GONE: Rows = Rows { table: "t_task_gone", columns: &["id", "attempt", "at"], replaced_by: 1 };
static EVENTS: Rows =
    Rows { table: "t_task_event", columns: &["task", "place", "at", "transition"], replaced_by: 2 };
static LINES: Rows = Rows {
    table: "t_task_log",
    columns: &["task", "line_number", "attempt", "at", "stream", "content", "continues", "dropped"],
    replaced_by: 2,
};
static NUMBERS: Keys = Keys { table: "t_task", columns: &["number"] };
static EVENTS_OF: Keys = Keys { table: "t_task_event", columns: &["task"] };
static LINES_OF: Keys = Keys { table: "t_task_log", columns: &["task"] };

impl Connection {
    /// All tasks, without their logs.
    pub fn load_tasks(&mut self) -> Result<StoredTasks, Error> {
        self.read("loading the tasks", |backend| {
            let tasks = on!(backend, connection => t_task::table.order(t_task::number).load(connection))?;
            let gone =
                on!(backend, connection => t_task_gone::table.order(t_task_gone::id).load(connection))?;
            let events = on!(backend, connection => t_task_event::table
                .group_by(t_task_event::task)
                .select((t_task_event::task, diesel::dsl::count_star()))
                .order(t_task_event::task)
                .load(connection))?;
            Ok(StoredTasks { tasks, gone, events })
        })
    }

    /// Stores changes, all or nothing.
    pub fn commit_tasks(&mut self, claim: &Claim, group: &TaskGroup) -> Result<(), Error> {
        self.write("storing tasks", |backend| {
            advance(backend, claim, group.highest)?;
            let deleted: Vec<Value<'_>> = group.deleted.iter().map(|number| Value::Int(*number)).collect();
            for keys in [&NUMBERS, &EVENTS_OF, &LINES_OF] {
                keys.delete(backend, &deleted)?;
            }
            write_all(backend, &TASKS, &group.tasks, |row, values| values.extend(row.values()))?;
            write_all(backend, &GONE, &group.gone, |row, values| {
                values.extend([Value::Text(&row.id), Value::Int(row.attempt), Value::Int(row.at)]);
            })?;
            write_all(backend, &EVENTS, &group.events, |row, values| {
                let key = [Value::Int(row.task), Value::Int(row.place), Value::Int(row.at)];
                values.extend(key);
                values.push(Value::Text(&row.transition));
            })?;
            Ok(write_all(backend, &LINES, &group.lines, |row, values| values.extend(row.values()))?)
        })
    }

    /// Everything that happened to a task, in order.
    pub fn task_events(&mut self, task: i64) -> Result<Vec<TaskEventRow>, Error> {
        self.read("reading what happened to a task", |backend| {
            on!(backend, connection => t_task_event::table
                .filter(t_task_event::task.eq(task))
                .order(t_task_event::place)
                .load(connection))
        })
    }

    /// The lines of a task's log from a number on; of one stream, or all.
    pub fn task_log(
        &mut self,
        task: i64,
        from: i64,
        stream: Option<&str>,
        limit: i64,
    ) -> Result<Vec<TaskLogRow>, Error> {
        self.read("reading the log of a task", |backend| match stream {
            None => on!(backend, connection => t_task_log::table
                .filter(t_task_log::task.eq(task))
                .filter(t_task_log::line_number.ge(from))
                .order(t_task_log::line_number)
                .limit(limit)
                .load(connection)),
            Some(stream) => on!(backend, connection => t_task_log::table
                .filter(t_task_log::task.eq(task))
                .filter(t_task_log::line_number.ge(from))
                .filter(t_task_log::stream.eq(stream))
                .order(t_task_log::line_number)
                .limit(limit)
                .load(connection)),
        })
    }
}

impl TaskRow {
    fn values(&self) -> [Value<'_>; 10] {
        [
            Value::Int(self.number),
            Value::Text(&self.id),
            Value::OptText(self.idempotency_key.as_deref()),
            Value::Text(&self.document),
            Value::Text(&self.progress),
            Value::OptText(self.why.as_deref()),
            Value::Text(&self.log),
            Value::Int(self.submitted_at),
            Value::Text(&self.submitted_by),
            Value::OptInt(self.ended_at),
        ]
    }
}

impl TaskLogRow {
    fn values(&self) -> [Value<'_>; 8] {
        [
            Value::Int(self.task),
            Value::Int(self.line_number),
            Value::Int(self.attempt),
            Value::Int(self.at),
            Value::Text(&self.stream),
            Value::Text(&self.content),
            Value::Bool(self.continues),
            Value::Int(self.dropped),
        ]
    }
}
