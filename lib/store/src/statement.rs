//! Statements that diesel would not keep prepared: inserts and deletes of many rows, and updates.
//!
//! A statement is cached by its text, so there must be few texts. Rows are therefore written and deleted
//! in pieces of a handful of fixed sizes, and each size of each table is prepared once in a connection's
//! life.

use diesel::QueryResult;
use diesel::backend::Backend as DieselBackend;
use diesel::mysql::Mysql;
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::query_builder::{AstPass, QueryFragment, QueryId};
use diesel::sql_types::{BigInt, Binary, Bool, Double, Nullable, Text};
use diesel::sqlite::Sqlite;

use crate::backend::{Backend, on};

/// Rows a statement, largest first. The largest stays far below the databases' limit of 32,766 bound values.
const SIZES: [usize; 5] = [256, 64, 16, 4, 1];
/// Servers limit a message, MariaDB to 16 MiB by default.
const MAX_BYTES: usize = 1 << 20;
/// The size of a value beside its text.
const VALUE_BYTES: usize = 12;

/// A value to bind.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Value<'a> {
    Text(&'a str),
    OptText(Option<&'a str>),
    Int(i64),
    OptInt(Option<i64>),
    OptReal(Option<f64>),
    Bool(bool),
    Bytes(&'a [u8]),
    OptBytes(Option<&'a [u8]>),
}

impl Value<'_> {
    fn bytes(&self) -> usize {
        VALUE_BYTES
            + match self {
                Self::Text(text) | Self::OptText(Some(text)) => text.len(),
                Self::Bytes(bytes) | Self::OptBytes(Some(bytes)) => bytes.len(),
                _ => 0,
            }
    }
}

/// How rows of one table are written.
pub(crate) struct Rows {
    pub(crate) table: &'static str,
    pub(crate) columns: &'static [&'static str],
    /// The number of leading columns that are the key of a row that replaces an existing one; with zero, an
    /// existing row is an error.
    pub(crate) replaced_by: usize,
}

impl Rows {
    /// Writes rows whose values lie one row after the other.
    pub(crate) fn write(&'static self, backend: &mut Backend, values: &[Value<'_>]) -> QueryResult<()> {
        let mut rest = values;
        while !rest.is_empty() {
            let (now, later) = next_piece(rest, self.columns.len());
            let insert = Insert { rows: self, values: now };
            on!(backend, connection => insert.execute(connection))?;
            rest = later;
        }
        Ok(())
    }
}

/// How rows of one table are found by their key, or by a part of it.
pub(crate) struct Keys {
    pub(crate) table: &'static str,
    pub(crate) columns: &'static [&'static str],
}

impl Keys {
    /// Deletes the rows of keys whose values lie one key after the other.
    pub(crate) fn delete(&'static self, backend: &mut Backend, values: &[Value<'_>]) -> QueryResult<()> {
        let mut rest = values;
        while !rest.is_empty() {
            let (now, later) = next_piece(rest, self.columns.len());
            let delete = Delete { keys: self, values: now };
            on!(backend, connection => delete.execute(connection))?;
            rest = later;
        }
        Ok(())
    }
}

/// Splits off the most rows of `width` values that one statement takes.
fn next_piece<'p, 'v>(values: &'p [Value<'v>], width: usize) -> (&'p [Value<'v>], &'p [Value<'v>]) {
    let mut bytes = 0;
    let fitting = values
        .chunks_exact(width)
        .take(SIZES[0])
        .take_while(|row| {
            bytes += row.iter().map(Value::bytes).sum::<usize>();
            bytes <= MAX_BYTES
        })
        .count();
    // A row that is too large by itself still has to go.
    let rows = SIZES.into_iter().find(|size| *size <= fitting).unwrap_or(1);
    values.split_at(rows * width)
}

/// Writes `rows`, with only as many values in memory at a time as serve a statement.
pub(crate) fn write_all<'a, R>(
    backend: &mut Backend,
    table: &'static Rows,
    rows: &'a [R],
    values_of: impl Fn(&'a R, &mut Vec<Value<'a>>),
) -> QueryResult<()> {
    let mut values = Vec::with_capacity(rows.len().min(SIZES[0]) * table.columns.len());
    for some in rows.chunks(SIZES[0]) {
        values.clear();
        for row in some {
            values_of(row, &mut values);
        }
        table.write(backend, &values)?;
    }
    Ok(())
}

struct Insert<'a> {
    rows: &'static Rows,
    values: &'a [Value<'a>],
}

struct Delete<'a> {
    keys: &'static Keys,
    values: &'a [Value<'a>],
}

/// A statement with a fixed text, in which a `?` stands for each value.
pub(crate) struct Fixed<'a> {
    pub(crate) sql: &'static str,
    pub(crate) values: &'a [Value<'a>],
}

impl Fixed<'_> {
    pub(crate) fn execute_on(&self, backend: &mut Backend) -> QueryResult<usize> {
        on!(backend, connection => self.execute(connection))
    }
}

impl QueryId for Insert<'_> {
    type QueryId = ();
    const HAS_STATIC_QUERY_ID: bool = false;
}

impl QueryId for Delete<'_> {
    type QueryId = ();
    const HAS_STATIC_QUERY_ID: bool = false;
}

impl QueryId for Fixed<'_> {
    type QueryId = ();
    const HAS_STATIC_QUERY_ID: bool = false;
}

impl<C> RunQueryDsl<C> for Insert<'_> {}
impl<C> RunQueryDsl<C> for Delete<'_> {}
impl<C> RunQueryDsl<C> for &Fixed<'_> {}

/// The parts of a statement that differ between the databases.
trait Dialect: DieselBackend {
    /// The text before a list of keys. PostgreSQL looks up keys in `VALUES`; it would compare a mere list
    /// with each row of a table that has only just been filled.
    const KEYS: &'static str;

    /// Pushes the text after the rows that makes them replace existing rows.
    fn before(key: &[&str], out: &mut AstPass<'_, '_, Self>);
    fn value_of(column: &str, out: &mut AstPass<'_, '_, Self>);
}

macro_rules! dialect_of_conflicts {
    ($backend:ty) => {
        impl Dialect for $backend {
            const KEYS: &'static str = "VALUES ";

            fn before(key: &[&str], out: &mut AstPass<'_, '_, Self>) {
                out.push_sql(" ON CONFLICT (");
                for (n, column) in key.iter().enumerate() {
                    out.push_sql(if n == 0 { "" } else { ", " });
                    out.push_sql(column);
                }
                out.push_sql(") DO UPDATE SET ");
            }

            fn value_of(column: &str, out: &mut AstPass<'_, '_, Self>) {
                out.push_sql("excluded.");
                out.push_sql(column);
            }
        }
    };
}
dialect_of_conflicts!(Sqlite);
dialect_of_conflicts!(Pg);

impl Dialect for Mysql {
    const KEYS: &'static str = "";

    fn before(_: &[&str], out: &mut AstPass<'_, '_, Self>) {
        out.push_sql(" ON DUPLICATE KEY UPDATE ");
    }

    fn value_of(column: &str, out: &mut AstPass<'_, '_, Self>) {
        out.push_sql("VALUES(");
        out.push_sql(column);
        out.push_sql(")");
    }
}

/// Rows of `width` values, each in parentheses.
fn tuples<'b, B: DieselBackend>(
    values: &'b [Value<'b>],
    width: usize,
    out: &mut AstPass<'_, 'b, B>,
) -> QueryResult<()>
where
    Value<'b>: QueryFragment<B>,
{
    for (n, row) in values.chunks_exact(width).enumerate() {
        out.push_sql(if n == 0 { "(" } else { "),(" });
        for (n, value) in row.iter().enumerate() {
            if n > 0 {
                out.push_sql(",");
            }
            value.walk_ast(out.reborrow())?;
        }
    }
    out.push_sql(")");
    Ok(())
}

macro_rules! fragments {
    ($backend:ty) => {
        impl QueryFragment<$backend> for Value<'_> {
            fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, $backend>) -> QueryResult<()> {
                match self {
                    Self::Text(value) => out.push_bind_param::<Text, str>(value),
                    Self::OptText(value) => out.push_bind_param::<Nullable<Text>, Option<&str>>(value),
                    Self::Int(value) => out.push_bind_param::<BigInt, i64>(value),
                    Self::OptInt(value) => out.push_bind_param::<Nullable<BigInt>, Option<i64>>(value),
                    Self::OptReal(value) => out.push_bind_param::<Nullable<Double>, Option<f64>>(value),
                    Self::Bool(value) => out.push_bind_param::<Bool, bool>(value),
                    Self::Bytes(value) => out.push_bind_param::<Binary, [u8]>(value),
                    Self::OptBytes(value) => out.push_bind_param::<Nullable<Binary>, Option<&[u8]>>(value),
                }
            }
        }

        impl QueryFragment<$backend> for Insert<'_> {
            fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, $backend>) -> QueryResult<()> {
                let Rows { table, columns, replaced_by } = *self.rows;
                out.push_sql("INSERT INTO ");
                out.push_sql(table);
                for (n, column) in columns.iter().enumerate() {
                    out.push_sql(if n == 0 { " (" } else { ", " });
                    out.push_sql(column);
                }
                out.push_sql(") VALUES ");
                tuples(self.values, columns.len(), &mut out)?;
                if replaced_by > 0 {
                    let (key, others) = columns.split_at(replaced_by);
                    <$backend>::before(key, &mut out);
                    for (n, column) in others.iter().enumerate() {
                        out.push_sql(if n == 0 { "" } else { ", " });
                        out.push_sql(column);
                        out.push_sql(" = ");
                        <$backend>::value_of(column, &mut out);
                    }
                }
                Ok(())
            }
        }

        impl QueryFragment<$backend> for Delete<'_> {
            fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, $backend>) -> QueryResult<()> {
                let Keys { table, columns } = *self.keys;
                out.push_sql("DELETE FROM ");
                out.push_sql(table);
                for (n, column) in columns.iter().enumerate() {
                    out.push_sql(if n == 0 { " WHERE (" } else { ", " });
                    out.push_sql(column);
                }
                out.push_sql(") IN (");
                out.push_sql(<$backend>::KEYS);
                tuples(self.values, columns.len(), &mut out)?;
                out.push_sql(")");
                Ok(())
            }
        }

        impl QueryFragment<$backend> for Fixed<'_> {
            fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, $backend>) -> QueryResult<()> {
                let mut values = self.values.iter();
                for (n, piece) in self.sql.split('?').enumerate() {
                    if n > 0 {
                        let value = values.next().expect("a statement has a value for each question mark");
                        value.walk_ast(out.reborrow())?;
                    }
                    out.push_sql(piece);
                }
                Ok(())
            }
        }
    };
}
fragments!(Sqlite);
fragments!(Pg);
fragments!(Mysql);

#[cfg(test)]
#[allow(clippy::unwrap_used)]
#[path = "statement_tests.rs"]
mod tests;
