//! `t_history`: earlier values of the names that keep some. Rows are added by commits of data, under the
//! revision of the write that brought them, and never change.
//!
//! Pruning goes node by node in transactions of its own: it can be long, and must not make commits wait.

use std::collections::{BTreeMap, BTreeSet};

use diesel::dsl::{max, sql};
use diesel::prelude::*;
use diesel::sql_types::BigInt;

use crate::backend::{Backend, on};
use crate::schema::t_history;
use crate::statement::{Rows, Value, write_all};
use crate::{Connection, Error};

#[derive(Clone, Debug, PartialEq, Eq, Queryable)]
pub struct HistoryRow {
    pub data_name: String,
    pub node_name: String,
    pub revision: i64,
    pub data_value: String,
    pub collected_at: i64,
    pub received_at: i64,
}

#[derive(Clone, Copy, Debug)]
pub struct HistoryRowRef<'a> {
    pub data_name: &'a str,
    pub node_name: &'a str,
    pub revision: i64,
    pub data_value: &'a str,
    pub collected_at: i64,
    pub received_at: i64,
}

/// A history that a commit deletes: all of a data name's, or that of one node.
#[derive(Clone, Copy, Debug)]
pub enum HistoryDelete<'a> {
    Name(&'a str),
    Node { data_name: &'a str, node_name: &'a str },
}

#[derive(Clone, Debug)]
pub struct HistoryQuery {
    pub data_name: String,
    pub node_name: Option<String>,
    /// Collected at this instant or later.
    pub since: Option<i64>,
    /// Collected before this instant.
    pub until: Option<i64>,
    pub limit: i64,
}

/// Rows of a history, oldest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PastRows {
    pub rows: Vec<HistoryRow>,
    /// There are more, which would take too many bytes.
    pub is_cut: bool,
}

static HISTORY: Rows = Rows {
    table: "t_history",
    columns: &["data_name", "node_name", "revision", "data_value", "collected_at", "received_at"],
    replaced_by: 0,
};
/// The most characters of values that are read at once.
pub const MAX_BYTES: i64 = 64 * 1024 * 1024;
/// So many values are never more than that.
const ALWAYS_FIT: i64 = MAX_BYTES / (64 * 1024);
/// A sum with a large number is one on every database, whatever a length is.
const LENGTH: &str = "length(data_value) + 0 * revision";
const READING: &str = "reading history";
const PRUNING: &str = "pruning history";

/// Loads a selection of the newest rows that a query asks for.
macro_rules! newest {
    ($connection:ident, $query:ident, $most:expr, $selection:expr) => {{
        let found = t_history::table
            .filter(t_history::data_name.eq(&$query.data_name))
            .filter(t_history::collected_at.ge($query.since.unwrap_or(i64::MIN)))
            .filter(t_history::collected_at.lt($query.until.unwrap_or(i64::MAX)))
            .order(t_history::revision.desc())
            .limit($most)
            .select($selection);
        match &$query.node_name {
            Some(node) => found.filter(t_history::node_name.eq(node)).load($connection),
            None => found.load($connection),
        }
    }};
}

impl Connection {
    /// The newest `limit` rows that fit, and of those no more than [`MAX_BYTES`].
    pub fn read_history(&mut self, query: &HistoryQuery) -> Result<PastRows, Error> {
        let limit = match query.limit {
            ..=ALWAYS_FIT => query.limit,
            more => self.fitting(query, more)?,
        };
        let mut rows: Vec<HistoryRow> = self.read(
            READING,
            |backend| on!(backend, connection => newest!(connection, query, limit, t_history::all_columns)),
        )?;
        rows.reverse();
        Ok(PastRows { is_cut: limit < query.limit, rows })
    }

    /// How many of the newest rows fit into [`MAX_BYTES`]: `most` if all do.
    fn fitting(&mut self, query: &HistoryQuery, most: i64) -> Result<i64, Error> {
        let lengths: Vec<i64> = self.read(
            READING,
            |backend| on!(backend, connection => newest!(connection, query, most, sql::<BigInt>(LENGTH))),
        )?;
        let mut bytes = 0;
        let fits = |length: &&i64| {
            bytes += **length;
            bytes <= MAX_BYTES
        };
        let fitting = lengths.iter().take_while(fits).count();
        Ok(if fitting == lengths.len() { most } else { fitting as i64 })
    }

    /// Deletes the rows of a name that were collected before an instant, or all of them.
    pub fn prune_history(&mut self, name: &str, before: Option<i64>) -> Result<(), Error> {
        let before = before.unwrap_or(i64::MAX);
        let nodes: Vec<String> = self.read(PRUNING, |backend| {
            on!(backend, connection => t_history::table
                .filter(t_history::data_name.eq(name))
                .select(t_history::node_name)
                .distinct()
                .load(connection))
        })?;
        for node in &nodes {
            self.write(PRUNING, |backend| {
                on!(backend, connection => diesel::delete(t_history::table)
                    .filter(t_history::data_name.eq(name))
                    .filter(t_history::node_name.eq(node))
                    .filter(t_history::collected_at.lt(before))
                    .execute(connection))?;
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Keeps the newest `keep` rows of one node.
    pub fn prune_history_count(&mut self, name: &str, node: &str, keep: i64) -> Result<(), Error> {
        self.write(PRUNING, |backend| {
            on!(backend, connection => {
                let newest_to_go: Option<i64> = t_history::table
                    .filter(t_history::data_name.eq(name))
                    .filter(t_history::node_name.eq(node))
                    .order(t_history::revision.desc())
                    .select(t_history::revision)
                    .limit(1)
                    .offset(keep)
                    .first(connection)
                    .optional()?;
                if let Some(revision) = newest_to_go {
                    diesel::delete(t_history::table)
                        .filter(t_history::data_name.eq(name))
                        .filter(t_history::node_name.eq(node))
                        .filter(t_history::revision.le(revision))
                        .execute(connection)?;
                }
                Ok(())
            })
        })
    }
}

pub(crate) fn add(backend: &mut Backend, rows: &[HistoryRowRef<'_>]) -> QueryResult<()> {
    write_all(backend, &HISTORY, rows, |row, values| {
        values.extend([
            Value::Text(row.data_name),
            Value::Text(row.node_name),
            Value::Int(row.revision),
            Value::Text(row.data_value),
            Value::Int(row.collected_at),
            Value::Int(row.received_at),
        ]);
    })
}

/// Adds the rows whose data name and node have none that was collected then or later.
pub(crate) fn begin(backend: &mut Backend, rows: &[HistoryRowRef<'_>]) -> QueryResult<()> {
    let names: BTreeSet<&str> = rows.iter().map(|row| row.data_name).collect();
    for name in names {
        let newest: Vec<(String, Option<i64>)> = on!(backend, connection => t_history::table
            .filter(t_history::data_name.eq(name))
            .group_by(t_history::node_name)
            .select((t_history::node_name, max(t_history::collected_at)))
            .load(connection))?;
        let newest: BTreeMap<String, Option<i64>> = newest.into_iter().collect();
        let is_new = |row: &HistoryRowRef<'_>| {
            newest.get(row.node_name).copied().flatten().is_none_or(|newest| newest < row.collected_at)
        };
        let of_name = rows.iter().filter(|row| row.data_name == name);
        let missing: Vec<_> = of_name.filter(|row| is_new(row)).copied().collect();
        add(backend, &missing)?;
    }
    Ok(())
}

/// Deletes rows that an attempt of unknown outcome may have added for the same keys. By key, because there is no
/// index that leads from revisions to rows, and a history may be long.
pub(crate) fn erase_from(
    backend: &mut Backend,
    revision: i64,
    again: &[HistoryRowRef<'_>],
) -> QueryResult<()> {
    let keys: BTreeSet<(&str, &str)> = again.iter().map(|row| (row.data_name, row.node_name)).collect();
    for (data_name, node_name) in keys {
        on!(backend, connection => diesel::delete(t_history::table)
            .filter(t_history::data_name.eq(data_name))
            .filter(t_history::node_name.eq(node_name))
            .filter(t_history::revision.ge(revision))
            .execute(connection))?;
    }
    Ok(())
}

pub(crate) fn delete(backend: &mut Backend, deletes: &[HistoryDelete<'_>]) -> QueryResult<()> {
    for which in deletes {
        on!(backend, connection => match *which {
            HistoryDelete::Name(name) => diesel::delete(t_history::table)
                .filter(t_history::data_name.eq(name))
                .execute(connection),
            HistoryDelete::Node { data_name, node_name } => diesel::delete(t_history::table)
                .filter(t_history::data_name.eq(data_name))
                .filter(t_history::node_name.eq(node_name))
                .execute(connection),
        })?;
    }
    Ok(())
}
