//! `t_task_progress`, how far tasks said they are, in one order over all of them. Written with the tasks in one transaction, and
//! removed with their logs. The extent of that order stands among the cursors, since reports of deleted tasks leave gaps.

use diesel::prelude::*;

use crate::backend::{Backend, on};
use crate::schema::t_task_progress;
use crate::statement::{Fixed, Keys, Rows, Value, write_all};
use crate::{Connection, Error};

#[derive(Clone, Debug, PartialEq, Eq, Queryable)]
pub struct TaskProgressRow {
    pub revision: i64,
    /// The task's number.
    pub task: i64,
    /// Its place among the reports of its task.
    pub place: i64,
    /// As JSON.
    pub report: String,
}

/// The changes of progress in one transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskProgressGroup {
    pub rows: Vec<TaskProgressRow>,
    /// Reports up to this revision are removed.
    pub removed_to: Option<i64>,
    /// Tasks that lose their reports before a place.
    pub shortened: Vec<(i64, i64)>,
}

static REPORTS: Rows =
    Rows { table: "t_task_progress", columns: &["revision", "task", "place", "report"], replaced_by: 1 };
static REPORTS_OF: Keys = Keys { table: "t_task_progress", columns: &["task"] };

impl Connection {
    /// Up to `limit` reports after a revision, in order.
    pub fn task_progress(&mut self, after: i64, limit: i64) -> Result<Vec<TaskProgressRow>, Error> {
        self.read("reading how far tasks are", |backend| {
            on!(backend, connection => t_task_progress::table
                .filter(t_task_progress::revision.gt(after))
                .order(t_task_progress::revision)
                .limit(limit)
                .load(connection))
        })
    }
}

pub(crate) fn write(backend: &mut Backend, group: &TaskProgressGroup) -> QueryResult<()> {
    write_all(backend, &REPORTS, &group.rows, |row, values| {
        values.extend([Value::Int(row.revision), Value::Int(row.task), Value::Int(row.place)]);
        values.push(Value::Text(&row.report));
    })?;
    if let Some(revision) = group.removed_to {
        let sql = "DELETE FROM t_task_progress WHERE revision <= ?";
        Fixed { sql, values: &[Value::Int(revision)] }.execute_on(backend)?;
    }
    for (task, place) in &group.shortened {
        let sql = "DELETE FROM t_task_progress WHERE task = ? AND place < ?";
        Fixed { sql, values: &[Value::Int(*task), Value::Int(*place)] }.execute_on(backend)?;
    }
    Ok(())
}

/// Removes all reports of tasks.
pub(crate) fn remove(backend: &mut Backend, tasks: &[Value<'_>]) -> QueryResult<()> {
    REPORTS_OF.delete(backend, tasks)
}
