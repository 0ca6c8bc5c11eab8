//! `t_promise`, the promises of capacity, and `t_promise_revision`, the revisions of the ledger that they make. Written with
//! the tasks in one transaction.

use diesel::prelude::*;

use crate::backend::{Backend, on};
use crate::schema::{t_promise, t_promise_revision};
use crate::statement::{Keys, Rows, Value, write_all};

#[derive(Clone, Debug, PartialEq, Eq, Queryable)]
pub struct PromiseRow {
    pub number: i64,
    pub id: String,
    pub idempotency_key: Option<String>,
    /// As it was asked for, as JSON.
    pub asked: String,
    /// How far it is, as JSON.
    pub progress: String,
    /// The revision with which it changed last.
    pub revision: i64,
    /// In seconds.
    pub made_at: i64,
    pub made_by: String,
}

/// A revision by its name: that of the ledger, and that up to which promises that are over were removed.
#[derive(Clone, Debug, PartialEq, Eq, Queryable)]
pub struct PromiseRevisionRow {
    pub name: String,
    pub revision: i64,
}

/// The changes of promises in one transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PromiseGroup {
    /// New or changed.
    pub rows: Vec<PromiseRow>,
    /// The numbers of those that are not kept any more.
    pub removed: Vec<i64>,
    pub revisions: Vec<PromiseRevisionRow>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredPromises {
    /// By number.
    pub rows: Vec<PromiseRow>,
    pub revisions: Vec<PromiseRevisionRow>,
}

static PROMISES: Rows = Rows {
    table: "t_promise",
    columns: &["number", "id", "idempotency_key", "asked", "progress", "revision", "made_at", "made_by"],
    replaced_by: 1,
};
static NUMBERS: Keys = Keys { table: "t_promise", columns: &["number"] };
static REVISIONS: Rows = Rows { table: "t_promise_revision", columns: &["name", "revision"], replaced_by: 1 };

pub(crate) fn load(backend: &mut Backend) -> QueryResult<StoredPromises> {
    let rows = on!(backend, connection => t_promise::table.order(t_promise::number).load(connection))?;
    let revisions = on!(backend, connection => t_promise_revision::table
        .order(t_promise_revision::name)
        .load(connection))?;
    Ok(StoredPromises { rows, revisions })
}

pub(crate) fn write(backend: &mut Backend, group: &PromiseGroup) -> QueryResult<()> {
    let removed: Vec<Value<'_>> = group.removed.iter().map(|number| Value::Int(*number)).collect();
    NUMBERS.delete(backend, &removed)?;
    write_all(backend, &PROMISES, &group.rows, |row, values| {
        values.extend([
            Value::Int(row.number),
            Value::Text(&row.id),
            Value::OptText(row.idempotency_key.as_deref()),
            Value::Text(&row.asked),
            Value::Text(&row.progress),
            Value::Int(row.revision),
            Value::Int(row.made_at),
            Value::Text(&row.made_by),
        ]);
    })?;
    write_all(backend, &REVISIONS, &group.revisions, |row, values| {
        values.extend([Value::Text(&row.name), Value::Int(row.revision)]);
    })
}
