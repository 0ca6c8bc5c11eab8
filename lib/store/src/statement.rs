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
}

impl Value<'_> {
    fn bytes(&self) -> usize {
        VALUE_BYTES
            + match self {
                Self::Text(text) | Self::OptText(Some(text)) => text.len(),
                Self::Bytes(bytes) => bytes.len(),
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
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    static TABLE: Rows = Rows { table: "t", columns: &["k", "v"], replaced_by: 1 };
    static KEYS: Keys = Keys { table: "t", columns: &["k", "v"] };

    fn sizes(texts: &[&str]) -> Vec<usize> {
        let values: Vec<_> = texts.iter().flat_map(|text| [Value::Int(1), Value::Text(text)]).collect();
        let mut sizes = Vec::new();
        let mut rest = &values[..];
        while !rest.is_empty() {
            let (now, later) = next_piece(rest, 2);
            sizes.push(now.len() / 2);
            rest = later;
        }
        sizes
    }

    #[test]
    fn rows_are_cut_into_few_different_sizes() {
        assert_eq!(sizes(&[]), Vec::<usize>::new());
        assert_eq!(sizes(&["x"; 1000]), [256, 256, 256, 64, 64, 64, 16, 16, 4, 4]);
        assert_eq!(sizes(&["x"; 3]), [1, 1, 1]);
    }

    #[test]
    fn a_statement_stays_below_what_a_server_takes() {
        let large = "x".repeat(64 * 1024);
        assert_eq!(sizes(&[large.as_str(); 17]), [4, 4, 4, 4, 1]);
        let huge = "x".repeat(2 * MAX_BYTES);
        assert_eq!(sizes(&[huge.as_str(), "x", huge.as_str()]), [1, 1, 1]);
    }

    #[test]
    fn the_text_is_each_databases_own() {
        let values = [Value::Int(1), Value::Text("a"), Value::Int(2), Value::Text("b")];
        let insert = Insert { rows: &TABLE, values: &values };
        let delete = Delete { keys: &KEYS, values: &values };
        let text = |debug: String| debug.split(" -- ").next().unwrap_or_default().to_owned();
        assert_eq!(
            text(diesel::debug_query::<Pg, _>(&insert).to_string()),
            "INSERT INTO t (k, v) VALUES ($1,$2),($3,$4) ON CONFLICT (k) DO UPDATE SET v = excluded.v"
        );
        assert_eq!(
            text(diesel::debug_query::<Mysql, _>(&insert).to_string()),
            "INSERT INTO t (k, v) VALUES (?,?),(?,?) ON DUPLICATE KEY UPDATE v = VALUES(v)"
        );
        assert_eq!(
            text(diesel::debug_query::<Pg, _>(&delete).to_string()),
            "DELETE FROM t WHERE (k, v) IN (VALUES ($1,$2),($3,$4))"
        );
        assert_eq!(
            text(diesel::debug_query::<Mysql, _>(&delete).to_string()),
            "DELETE FROM t WHERE (k, v) IN ((?,?),(?,?))"
        );
    }

    #[test]
    fn a_statement_is_prepared_once() {
        use std::sync::Arc;
        use std::sync::atomic::{AtomicUsize, Ordering};

        use diesel::connection::{InstrumentationEvent, SimpleConnection};

        let (cached, run) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let mut connection = SqliteConnection::establish(":memory:").unwrap();
        connection.batch_execute("CREATE TABLE t (k INTEGER PRIMARY KEY, v TEXT)").unwrap();
        let counts = (Arc::clone(&cached), Arc::clone(&run));
        connection.set_instrumentation(move |event: InstrumentationEvent<'_>| {
            match event {
                InstrumentationEvent::CacheQuery { .. } => counts.0.fetch_add(1, Ordering::Relaxed),
                InstrumentationEvent::StartQuery { .. } => counts.1.fetch_add(1, Ordering::Relaxed),
                _ => 0,
            };
        });
        let mut backend = Backend::Sqlite(connection);
        for n in 0..5 {
            let values: Vec<_> = (0..320).flat_map(|k| [Value::Int(k * n), Value::Text("x")]).collect();
            TABLE.write(&mut backend, &values).unwrap();
            let update =
                Fixed { sql: "UPDATE t SET v = ? WHERE k = ?", values: &[Value::Text("y"), Value::Int(n)] };
            assert_eq!(update.execute_on(&mut backend).unwrap(), 1);
        }
        assert_eq!(run.load(Ordering::Relaxed), 15);
        assert_eq!(cached.load(Ordering::Relaxed), 3, "256 rows, 64 rows, and the update");
    }
}
