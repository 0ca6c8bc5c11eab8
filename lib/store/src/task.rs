//! `t_task`, the tasks; `t_task_array`, the arrays that some of them are of; `t_task_event`, what happened to each;
//! `t_task_output`, the files that were kept of them; and `t_task_gone`, the attempts of deleted ones, so that a later task with such an id never has an attempt of the same number.
//!
//! A change is one transaction, under the claim of the task service. The revision of that claim is the
//! highest number that a task ever had.

use diesel::prelude::*;

use crate::backend::{Backend, on};
use crate::image::{self, ImageGroup, StoredImages};
use crate::owner::advance;
use crate::promise::{self, PromiseGroup, StoredPromises};
use crate::schema::{t_task, t_task_array, t_task_event, t_task_gone, t_task_output};
use crate::statement::{Keys, Rows, Value, write_all};
use crate::task_feed::{self, StoredFeed, TaskFeedGroup};
use crate::task_log::{self, TaskLogGroup};
use crate::task_progress::{self, TaskProgressGroup};
use crate::{Claim, Connection, Error};

#[derive(Clone, Debug, PartialEq, Eq, Queryable)]
pub struct TaskRow {
    pub number: i64,
    pub id: String,
    pub idempotency_key: Option<String>,
    /// As JSON, with its secrets; so `progress`, `why` and `log`. Empty for a task of an array.
    pub document: String,
    pub progress: String,
    pub why: Option<String>,
    pub log: String,
    pub submitted_at: i64,
    pub submitted_by: String,
    pub ended_at: Option<i64>,
}

/// Tasks that were submitted together, with one document. Their numbers are the `size` numbers after its own.
#[derive(Clone, Debug, PartialEq, Eq, Queryable)]
pub struct TaskArrayRow {
    pub number: i64,
    pub id: String,
    pub idempotency_key: Option<String>,
    pub document: String,
    pub size: i64,
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

/// The outputs of a task.
#[derive(Clone, Debug, PartialEq, Eq, Queryable)]
pub struct TaskOutputRow {
    pub task: i64,
    /// As JSON.
    pub outputs: String,
}

/// Everything that one transaction changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskGroup {
    /// New or changed.
    pub tasks: Vec<TaskRow>,
    /// The numbers of those that are deleted, with their events.
    pub deleted: Vec<i64>,
    pub arrays: Vec<TaskArrayRow>,
    pub deleted_arrays: Vec<i64>,
    pub gone: Vec<GoneTaskRow>,
    /// The ids of deleted tasks whose attempts are forgotten.
    pub forgotten: Vec<String>,
    pub events: Vec<TaskEventRow>,
    pub logs: TaskLogGroup,
    pub progress: TaskProgressGroup,
    pub outputs: Vec<TaskOutputRow>,
    pub feed: TaskFeedGroup,
    pub images: ImageGroup,
    pub promises: PromiseGroup,
    /// The highest number that a task ever had.
    pub highest: i64,
}

/// Everything that is kept in memory beside tasks and arrays, by number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredTasks {
    pub gone: Vec<GoneTaskRow>,
    /// How many events each task has.
    pub events: Vec<(i64, i64)>,
    pub feed: StoredFeed,
    pub images: StoredImages,
    pub promises: StoredPromises,
}

/// The rows with documents that are in memory at once while they are loaded.
const PAGE: i64 = 100;

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
static ARRAYS: Rows = Rows {
    table: "t_task_array",
    columns: &["number", "id", "idempotency_key", "document", "size"],
    replaced_by: 1,
};
static GONE: Rows = Rows { table: "t_task_gone", columns: &["id", "attempt", "at"], replaced_by: 1 };
static GONE_IDS: Keys = Keys { table: "t_task_gone", columns: &["id"] };
static EVENTS: Rows =
    Rows { table: "t_task_event", columns: &["task", "place", "at", "transition"], replaced_by: 2 };
static OUTPUTS: Rows = Rows { table: "t_task_output", columns: &["task", "outputs"], replaced_by: 1 };
static NUMBERS: Keys = Keys { table: "t_task", columns: &["number"] };
static ARRAY_NUMBERS: Keys = Keys { table: "t_task_array", columns: &["number"] };
static EVENTS_OF: Keys = Keys { table: "t_task_event", columns: &["task"] };
static OUTPUTS_OF: Keys = Keys { table: "t_task_output", columns: &["task"] };

impl Connection {
    /// Gives all tasks, without their logs, in the order of their numbers. Few are in memory at a time, since their documents
    /// may be large.
    pub fn each_task(&mut self, take: impl FnMut(TaskRow)) -> Result<(), Error> {
        let page = |backend: &mut Backend, last| {
            on!(backend, connection => t_task::table
                .filter(t_task::number.gt(last))
                .order(t_task::number)
                .limit(PAGE)
                .load(connection))
        };
        self.each(page, |row| row.number, take)
    }

    /// Gives all arrays of tasks in the same way.
    pub fn each_task_array(&mut self, take: impl FnMut(TaskArrayRow)) -> Result<(), Error> {
        let page = |backend: &mut Backend, last| {
            on!(backend, connection => t_task_array::table
                .filter(t_task_array::number.gt(last))
                .order(t_task_array::number)
                .limit(PAGE)
                .load(connection))
        };
        self.each(page, |row| row.number, take)
    }

    fn each<R>(
        &mut self,
        page: impl Fn(&mut Backend, i64) -> QueryResult<Vec<R>>,
        number: fn(&R) -> i64,
        mut take: impl FnMut(R),
    ) -> Result<(), Error> {
        let mut last = i64::MIN;
        loop {
            let rows = self.read("loading the tasks", |backend| page(backend, last))?;
            let Some(end) = rows.last() else { return Ok(()) };
            last = number(end);
            rows.into_iter().for_each(&mut take);
        }
    }

    /// Everything else that is kept in memory.
    pub fn load_tasks(&mut self) -> Result<StoredTasks, Error> {
        self.read("loading the tasks", |backend| {
            let gone =
                on!(backend, connection => t_task_gone::table.order(t_task_gone::id).load(connection))?;
            let events = on!(backend, connection => t_task_event::table
                .group_by(t_task_event::task)
                .select((t_task_event::task, diesel::dsl::count_star()))
                .order(t_task_event::task)
                .load(connection))?;
            let (feed, images) = (task_feed::load(backend)?, image::load(backend)?);
            let promises = promise::load(backend)?;
            Ok(StoredTasks { gone, events, feed, images, promises })
        })
    }

    /// Stores changes, all or nothing.
    pub fn commit_tasks(&mut self, claim: &Claim, group: &TaskGroup) -> Result<(), Error> {
        self.write("storing tasks", |backend| {
            advance(backend, claim, group.highest)?;
            let deleted: Vec<Value<'_>> = group.deleted.iter().map(|number| Value::Int(*number)).collect();
            for keys in [&NUMBERS, &EVENTS_OF, &OUTPUTS_OF] {
                keys.delete(backend, &deleted)?;
            }
            let arrays: Vec<Value<'_>> =
                group.deleted_arrays.iter().map(|number| Value::Int(*number)).collect();
            ARRAY_NUMBERS.delete(backend, &arrays)?;
            image::write(backend, &group.images, &[deleted, arrays].concat())?;
            write_all(backend, &ARRAYS, &group.arrays, |row, values| values.extend(row.values()))?;
            write_all(backend, &TASKS, &group.tasks, |row, values| values.extend(row.values()))?;
            let forgotten: Vec<Value<'_>> = group.forgotten.iter().map(|id| Value::Text(id)).collect();
            GONE_IDS.delete(backend, &forgotten)?;
            write_all(backend, &GONE, &group.gone, |row, values| {
                values.extend([Value::Text(&row.id), Value::Int(row.attempt), Value::Int(row.at)]);
            })?;
            write_all(backend, &EVENTS, &group.events, |row, values| {
                let key = [Value::Int(row.task), Value::Int(row.place), Value::Int(row.at)];
                values.extend(key);
                values.push(Value::Text(&row.transition));
            })?;
            task_log::write(backend, &group.logs)?;
            task_progress::write(backend, &group.progress)?;
            write_all(backend, &OUTPUTS, &group.outputs, |row, values| {
                values.extend([Value::Int(row.task), Value::Text(&row.outputs)]);
            })?;
            promise::write(backend, &group.promises)?;
            Ok(task_feed::write(backend, &group.feed)?)
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

    /// The outputs of a task, as JSON.
    pub fn task_outputs(&mut self, task: i64) -> Result<Option<String>, Error> {
        self.read("reading the outputs of a task", |backend| {
            on!(backend, connection => t_task_output::table
                .filter(t_task_output::task.eq(task))
                .select(t_task_output::outputs)
                .first(connection)
                .optional())
        })
    }
}

impl TaskArrayRow {
    fn values(&self) -> [Value<'_>; 5] {
        [
            Value::Int(self.number),
            Value::Text(&self.id),
            Value::OptText(self.idempotency_key.as_deref()),
            Value::Text(&self.document),
            Value::Int(self.size),
        ]
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
