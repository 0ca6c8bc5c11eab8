//! `t_task_log`, the logs of tasks, a row a line; and `t_task_log_removal`, the deleted tasks of which lines are left. Written
//! with the tasks in one transaction. A long log is removed in pieces, each in a transaction, so that no other writer waits
//! for more than one of them. The progress that a log told goes with its last piece.

use std::sync::Arc;

use diesel::prelude::*;

use crate::backend::{Backend, on};
use crate::schema::{t_task_log, t_task_log_removal};
use crate::statement::{Fixed, Keys, Rows, Value, write_all};
use crate::{Connection, Error, task_progress};

/// The lines that are removed at once.
pub const LOG_PIECE: u64 = 1_000;

/// A line, from the news that brings it to the reader who asks for it.
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
    /// The bytes with their end of line, where they are other than `content` and an end of line.
    pub written: Option<Vec<u8>>,
}

/// A part of a task's log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskLogRange {
    pub task: i64,
    /// The number of the first line, and that after the last one.
    pub from: i64,
    pub before: i64,
    /// All if none; so the others.
    pub stream: Option<&'static str>,
    pub attempt: Option<i64>,
    /// The instant of the first, and that after the last one.
    pub since: Option<i64>,
    pub until: Option<i64>,
}

/// The changes of logs in one transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskLogGroup {
    pub lines: Vec<Arc<TaskLogRow>>,
    /// The tasks whose logs are removed whole,
    pub removed: Vec<i64>,
    /// those whose logs are to be removed in pieces,
    pub to_remove: Vec<i64>,
    /// and those of them that lose a piece now.
    pub shortened: Vec<i64>,
}

static LINES: Rows = Rows {
    table: "t_task_log",
    columns: &[
        "task",
        "line_number",
        "attempt",
        "at",
        "stream",
        "content",
        "continues",
        "dropped",
        "written",
    ],
    replaced_by: 2,
};
static LINES_OF: Keys = Keys { table: "t_task_log", columns: &["task"] };
static REMOVAL_OF: Keys = Keys { table: "t_task_log_removal", columns: &["task"] };

impl Connection {
    /// The lines of a part of a log, in their order or from the last one back.
    pub fn task_log(
        &mut self,
        part: &TaskLogRange,
        limit: i64,
        back: bool,
    ) -> Result<Vec<TaskLogRow>, Error> {
        // Bounds that leave nothing out stand for what is not asked for, so that there are two statements only.
        let (first, last) = part.stream.map_or(("", "~"), |stream| (stream, stream));
        let (least, most) = part.attempt.map_or((0, i64::MAX), |attempt| (attempt, attempt));
        let since = part.since.unwrap_or(i64::MIN);
        let until = part.until.unwrap_or(i64::MAX);
        self.read("reading the log of a task", |backend| {
            on!(backend, connection => {
                let lines = t_task_log::table
                    .filter(t_task_log::task.eq(part.task))
                    .filter(t_task_log::line_number.ge(part.from))
                    .filter(t_task_log::line_number.lt(part.before))
                    .filter(t_task_log::stream.between(first, last))
                    .filter(t_task_log::attempt.between(least, most))
                    .filter(t_task_log::at.ge(since))
                    .filter(t_task_log::at.lt(until))
                    .limit(limit);
                match back {
                    false => lines.order(t_task_log::line_number.asc()).load(connection),
                    true => lines.order(t_task_log::line_number.desc()).load(connection),
                }
            })
        })
    }

    /// The deleted task whose log is to be removed next; none if nothing is left of any.
    pub fn task_log_to_remove(&mut self) -> Result<Option<i64>, Error> {
        self.read("looking for logs to remove", |backend| {
            on!(backend, connection => t_task_log_removal::table
                .order(t_task_log_removal::task)
                .select(t_task_log_removal::task)
                .first(connection)
                .optional())
        })
    }
}

pub(crate) fn write(backend: &mut Backend, group: &TaskLogGroup) -> QueryResult<()> {
    let removed: Vec<Value<'_>> = group.removed.iter().map(|task| Value::Int(*task)).collect();
    LINES_OF.delete(backend, &removed)?;
    // Each report was a line, so they are no more than the lines.
    task_progress::remove(backend, &removed)?;
    for task in &group.to_remove {
        insert_removal(backend, *task)?;
    }
    for task in &group.shortened {
        remove_piece(backend, *task)?;
    }
    write_all(backend, &LINES, &group.lines, |row, values| values.extend(row.values()))
}

/// It may be there, where a commit is repeated.
fn insert_removal(backend: &mut Backend, task: i64) -> QueryResult<()> {
    REMOVAL_OF.delete(backend, &[Value::Int(task)])?;
    let sql = "INSERT INTO t_task_log_removal (task) VALUES (?)";
    Fixed { sql, values: &[Value::Int(task)] }.execute_on(backend).map(drop)
}

fn remove_piece(backend: &mut Backend, task: i64) -> QueryResult<()> {
    let piece = i64::try_from(LOG_PIECE).unwrap_or(i64::MAX);
    let rest: Option<i64> = on!(backend, connection => t_task_log::table
        .filter(t_task_log::task.eq(task))
        .order(t_task_log::line_number)
        .select(t_task_log::line_number)
        .offset(piece)
        .limit(1)
        .first(connection)
        .optional())?;
    match rest {
        Some(rest) => {
            let sql = "DELETE FROM t_task_log WHERE task = ? AND line_number < ?";
            Fixed { sql, values: &[Value::Int(task), Value::Int(rest)] }.execute_on(backend).map(drop)
        }
        None => {
            LINES_OF.delete(backend, &[Value::Int(task)])?;
            task_progress::remove(backend, &[Value::Int(task)])?;
            REMOVAL_OF.delete(backend, &[Value::Int(task)])
        }
    }
}

impl TaskLogRow {
    /// The size of its text and bytes.
    pub fn size(&self) -> usize {
        self.content.len() + self.written.as_ref().map_or(0, Vec::len)
    }

    fn values(&self) -> [Value<'_>; 9] {
        [
            Value::Int(self.task),
            Value::Int(self.line_number),
            Value::Int(self.attempt),
            Value::Int(self.at),
            Value::Text(&self.stream),
            Value::Text(&self.content),
            Value::Bool(self.continues),
            Value::Int(self.dropped),
            Value::OptBytes(self.written.as_deref()),
        ]
    }
}
