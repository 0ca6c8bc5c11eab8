//! `t_binding`: stable data names that serve another name's values. Written only by commits of data.

use diesel::prelude::*;

use crate::backend::{Backend, on};
use crate::schema::t_binding;
use crate::statement::{Rows, Value, write_all};
use crate::{Connection, Error};

#[derive(Clone, Debug, PartialEq, Eq, Queryable)]
pub struct BindingRow {
    pub data_name: String,
    pub target: String,
    pub at: i64,
}

#[derive(Clone, Copy, Debug)]
pub struct BindingRef<'a> {
    pub data_name: &'a str,
    pub target: &'a str,
    pub at: i64,
}

static BINDINGS: Rows = Rows { table: "t_binding", columns: &["data_name", "target", "at"], replaced_by: 1 };

impl Connection {
    /// All bindings, by name.
    pub fn load_bindings(&mut self) -> Result<Vec<BindingRow>, Error> {
        self.read("loading the bindings", |backend| {
            on!(backend, connection => t_binding::table.order(t_binding::data_name).load(connection))
        })
    }
}

pub(crate) fn set(backend: &mut Backend, bindings: &[BindingRef<'_>]) -> QueryResult<()> {
    write_all(backend, &BINDINGS, bindings, |row, values| {
        values.extend([Value::Text(row.data_name), Value::Text(row.target), Value::Int(row.at)]);
    })
}

pub(crate) fn remove(backend: &mut Backend, names: &[&str]) -> QueryResult<()> {
    for name in names {
        on!(backend, connection => diesel::delete(t_binding::table.find(*name)).execute(connection))?;
    }
    Ok(())
}
