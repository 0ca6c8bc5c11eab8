//! `t_image`, the published images, and `t_task_image`, the image that each task or array with a published one was given.
//! Written with the tasks in one transaction.

use diesel::prelude::*;

use crate::backend::{Backend, on};
use crate::schema::{t_image, t_task_image};
use crate::statement::{Keys, Rows, Value, write_all};

#[derive(Clone, Debug, PartialEq, Eq, Queryable)]
pub struct ImageRow {
    pub name: String,
    pub reference: String,
    pub digest: String,
    pub description: Option<String>,
    /// As JSON.
    pub labels: String,
    pub published_at: i64,
    pub published_by: String,
}

/// The image of a task or array.
#[derive(Clone, Debug, PartialEq, Eq, Queryable)]
pub struct TaskImageRow {
    /// The number of the task or array.
    pub number: i64,
    pub name: String,
    pub reference: String,
    pub digest: String,
}

/// The changes of images in one transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageGroup {
    /// New or changed.
    pub images: Vec<ImageRow>,
    /// The names of those that are removed.
    pub removed: Vec<String>,
    pub of_tasks: Vec<TaskImageRow>,
}

/// Everything that is kept in memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredImages {
    pub images: Vec<ImageRow>,
    pub of_tasks: Vec<TaskImageRow>,
}

static IMAGES: Rows = Rows {
    table: "t_image",
    columns: &["name", "reference", "digest", "description", "labels", "published_at", "published_by"],
    replaced_by: 1,
};
static OF_TASKS: Rows =
    Rows { table: "t_task_image", columns: &["number", "name", "reference", "digest"], replaced_by: 1 };
static NAMES: Keys = Keys { table: "t_image", columns: &["name"] };
static NUMBERS: Keys = Keys { table: "t_task_image", columns: &["number"] };

pub(crate) fn load(backend: &mut Backend) -> QueryResult<StoredImages> {
    let images = on!(backend, connection => t_image::table.order(t_image::name).load(connection))?;
    let of_tasks =
        on!(backend, connection => t_task_image::table.order(t_task_image::number).load(connection))?;
    Ok(StoredImages { images, of_tasks })
}

/// `deleted` are the numbers of tasks and arrays that go.
pub(crate) fn write(backend: &mut Backend, group: &ImageGroup, deleted: &[Value<'_>]) -> QueryResult<()> {
    NUMBERS.delete(backend, deleted)?;
    let removed: Vec<Value<'_>> = group.removed.iter().map(|name| Value::Text(name)).collect();
    NAMES.delete(backend, &removed)?;
    write_all(backend, &IMAGES, &group.images, |row, values| {
        values.extend([
            Value::Text(&row.name),
            Value::Text(&row.reference),
            Value::Text(&row.digest),
            Value::OptText(row.description.as_deref()),
            Value::Text(&row.labels),
            Value::Int(row.published_at),
            Value::Text(&row.published_by),
        ]);
    })?;
    write_all(backend, &OF_TASKS, &group.of_tasks, |row, values| {
        let texts = [&row.name, &row.reference, &row.digest];
        values.push(Value::Int(row.number));
        values.extend(texts.map(|text| Value::Text(text)));
    })
}
