//! `t_task_feed`, what happened to tasks in one order, and `t_task_cursor`, how far its readers are. Written with the tasks
//! in one transaction.

use diesel::dsl::{max, min};
use diesel::prelude::*;

use crate::backend::{Backend, on};
use crate::schema::{t_task_cursor, t_task_feed};
use crate::statement::{Fixed, Rows, Value, write_all};
use crate::{Connection, Error};

#[derive(Clone, Debug, PartialEq, Eq, Queryable)]
pub struct TaskFeedRow {
    pub revision: i64,
    /// The task's number, and its id.
    pub task: i64,
    pub id: String,
    pub at: i64,
    /// As JSON.
    pub event: String,
}

/// How far a reader is.
#[derive(Clone, Debug, PartialEq, Eq, Queryable)]
pub struct TaskCursorRow {
    pub name: String,
    pub revision: i64,
}

/// The changes of the feed in one transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskFeedGroup {
    pub rows: Vec<TaskFeedRow>,
    /// Rows up to this revision are removed.
    pub removed_to: Option<i64>,
    pub cursors: Vec<TaskCursorRow>,
}

/// The extent of the feed: events after `base` up to `newest` are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredFeed {
    pub base: i64,
    pub newest: i64,
    pub cursors: Vec<TaskCursorRow>,
}

static FEED: Rows =
    Rows { table: "t_task_feed", columns: &["revision", "task", "id", "at", "event"], replaced_by: 1 };
static CURSORS: Rows = Rows { table: "t_task_cursor", columns: &["name", "revision"], replaced_by: 1 };

impl Connection {
    /// Up to `limit` events after a revision, in order.
    pub fn task_feed(&mut self, after: i64, limit: i64) -> Result<Vec<TaskFeedRow>, Error> {
        self.read("reading what happened to tasks", |backend| {
            on!(backend, connection => t_task_feed::table
                .filter(t_task_feed::revision.gt(after))
                .order(t_task_feed::revision)
                .limit(limit)
                .load(connection))
        })
    }
}

pub(crate) fn load(backend: &mut Backend) -> QueryResult<StoredFeed> {
    let (first, last) = on!(backend, connection => t_task_feed::table
        .select((min(t_task_feed::revision), max(t_task_feed::revision)))
        .first::<(Option<i64>, Option<i64>)>(connection))?;
    let cursors =
        on!(backend, connection => t_task_cursor::table.order(t_task_cursor::name).load(connection))?;
    Ok(StoredFeed { base: first.map_or(0, |first| first - 1), newest: last.unwrap_or(0), cursors })
}

pub(crate) fn write(backend: &mut Backend, group: &TaskFeedGroup) -> QueryResult<()> {
    if let Some(revision) = group.removed_to {
        let sql = "DELETE FROM t_task_feed WHERE revision <= ?";
        Fixed { sql, values: &[Value::Int(revision)] }.execute_on(backend)?;
    }
    write_all(backend, &FEED, &group.rows, |row, values| {
        values.extend([
            Value::Int(row.revision),
            Value::Int(row.task),
            Value::Text(&row.id),
            Value::Int(row.at),
        ]);
        values.push(Value::Text(&row.event));
    })?;
    write_all(backend, &CURSORS, &group.cursors, |row, values| {
        values.extend([Value::Text(&row.name), Value::Int(row.revision)]);
    })
}
