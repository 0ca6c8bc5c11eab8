//! `t_retention`: how much history each name keeps. Written only by commits of data, and always whole.

use diesel::prelude::*;

use crate::backend::{Backend, on};
use crate::schema::t_retention;
use crate::statement::{Rows, Value, write_all};
use crate::{Connection, Error};

#[derive(Clone, Debug, PartialEq, Eq, Queryable)]
pub struct RetentionRow {
    pub data_name: String,
    pub keep_us: Option<i64>,
    pub max_count: Option<i64>,
}

#[derive(Clone, Copy, Debug)]
pub struct RetentionRef<'a> {
    pub data_name: &'a str,
    pub keep_us: Option<i64>,
    pub max_count: Option<i64>,
}

static RETENTION: Rows =
    Rows { table: "t_retention", columns: &["data_name", "keep_us", "max_count"], replaced_by: 0 };

impl Connection {
    /// The retention of each name that has a history, by name.
    pub fn load_retention(&mut self) -> Result<Vec<RetentionRow>, Error> {
        self.read("loading the retention", |backend| {
            on!(backend, connection => t_retention::table.order(t_retention::data_name).load(connection))
        })
    }
}

pub(crate) fn replace(backend: &mut Backend, rows: &[RetentionRef<'_>]) -> QueryResult<()> {
    on!(backend, connection => diesel::delete(t_retention::table).execute(connection))?;
    write_all(backend, &RETENTION, rows, |row, values| {
        values.extend([Value::Text(row.data_name), Value::OptInt(row.keep_us), Value::OptInt(row.max_count)]);
    })
}
