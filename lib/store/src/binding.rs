//! `t_binding`: stable data names that serve another name's values; and `t_binding_history`, which keeps every
//! change of them. Both are written only by commits of data, in one transaction.

use diesel::prelude::*;

use crate::backend::{Backend, on};
use crate::schema::{t_binding, t_binding_history};
use crate::statement::{Rows, Value, write_all};
use crate::{Connection, Error};

#[derive(Clone, Debug, PartialEq, Eq, Queryable)]
pub struct BindingRow {
    pub data_name: String,
    pub target: String,
    pub at: i64,
    pub field: Option<String>,
}

#[derive(Clone, Copy, Debug)]
pub struct BindingRef<'a> {
    pub data_name: &'a str,
    pub target: &'a str,
    pub at: i64,
    pub field: Option<&'a str>,
}

/// One change of a binding.
#[derive(Clone, Debug, PartialEq, Eq, Queryable)]
pub struct SwapRow {
    pub data_name: String,
    pub revision: i64,
    pub action: String,
    pub at: i64,
    pub actor: String,
    /// The target of the binding from this change on, or until this change if it removed the binding.
    pub target: String,
    pub field: Option<String>,
    /// The target before `target`.
    pub before_target: Option<String>,
    pub before_field: Option<String>,
}

#[derive(Clone, Copy, Debug)]
pub struct SwapRef<'a> {
    pub data_name: &'a str,
    pub revision: i64,
    pub action: &'a str,
    pub at: i64,
    pub actor: &'a str,
    pub target: &'a str,
    pub field: Option<&'a str>,
    pub before_target: Option<&'a str>,
    pub before_field: Option<&'a str>,
}

static BINDINGS: Rows =
    Rows { table: "t_binding", columns: &["data_name", "target", "at", "field"], replaced_by: 1 };
static SWAPS: Rows = Rows {
    table: "t_binding_history",
    columns: &[
        "data_name",
        "revision",
        "action",
        "at",
        "actor",
        "target",
        "field",
        "before_target",
        "before_field",
    ],
    replaced_by: 0,
};

impl Connection {
    /// All bindings, by name.
    pub fn load_bindings(&mut self) -> Result<Vec<BindingRow>, Error> {
        self.read("loading the bindings", |backend| {
            on!(backend, connection => t_binding::table.order(t_binding::data_name).load(connection))
        })
    }

    /// The latest change of each name that was ever bound, by name.
    pub fn last_swaps(&mut self) -> Result<Vec<SwapRow>, Error> {
        use diesel::dsl::max;
        let doing = "loading the last changes of bindings";
        let last: Vec<(String, Option<i64>)> = self.read(doing, |backend| {
            on!(backend, connection => t_binding_history::table
                .group_by(t_binding_history::data_name)
                .select((t_binding_history::data_name, max(t_binding_history::revision)))
                .order(t_binding_history::data_name)
                .load(connection))
        })?;
        let mut swaps = Vec::with_capacity(last.len());
        for (name, revision) in &last {
            let found: Option<SwapRow> = self.read(doing, |backend| {
                on!(backend, connection => t_binding_history::table
                    .find((name, revision.unwrap_or_default()))
                    .first(connection)
                    .optional())
            })?;
            swaps.extend(found);
        }
        Ok(swaps)
    }

    /// The latest changes of one binding, newest first.
    pub fn binding_history(&mut self, name: &str, limit: i64) -> Result<Vec<SwapRow>, Error> {
        self.read("reading the history of a binding", |backend| {
            on!(backend, connection => t_binding_history::table
                .filter(t_binding_history::data_name.eq(name))
                .order(t_binding_history::revision.desc())
                .limit(limit)
                .load(connection))
        })
    }
}

pub(crate) fn set(backend: &mut Backend, bindings: &[BindingRef<'_>]) -> QueryResult<()> {
    write_all(backend, &BINDINGS, bindings, |row, values| {
        values.extend([
            Value::Text(row.data_name),
            Value::Text(row.target),
            Value::Int(row.at),
            Value::OptText(row.field),
        ]);
    })
}

pub(crate) fn remove(backend: &mut Backend, names: &[&str]) -> QueryResult<()> {
    for name in names {
        on!(backend, connection => diesel::delete(t_binding::table.find(*name)).execute(connection))?;
    }
    Ok(())
}

/// Adds changes to the history. Changes that an attempt of unknown outcome may have added from `erase_from` on for
/// the same names are deleted first.
pub(crate) fn add_swaps(
    backend: &mut Backend,
    swaps: &[SwapRef<'_>],
    erase_from: Option<i64>,
) -> QueryResult<()> {
    if let Some(revision) = erase_from {
        for swap in swaps {
            on!(backend, connection => diesel::delete(t_binding_history::table)
                .filter(t_binding_history::data_name.eq(swap.data_name))
                .filter(t_binding_history::revision.ge(revision))
                .execute(connection))?;
        }
    }
    write_all(backend, &SWAPS, swaps, |row, values| {
        values.extend([
            Value::Text(row.data_name),
            Value::Int(row.revision),
            Value::Text(row.action),
            Value::Int(row.at),
            Value::Text(row.actor),
            Value::Text(row.target),
            Value::OptText(row.field),
            Value::OptText(row.before_target),
            Value::OptText(row.before_field),
        ]);
    })
}
