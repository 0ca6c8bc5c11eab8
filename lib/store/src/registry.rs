//! `t_dp`, the registrations, and `t_dp_history`, which keeps every change of them.
//!
//! A change and its entry in the history are one transaction, under the claim of the registry.

use diesel::prelude::*;

use crate::backend::{Backend, on};
use crate::owner::fence;
use crate::schema::{t_dp, t_dp_history};
use crate::statement::{Keys, Rows, Value};
use crate::{Claim, Connection, Error};

#[derive(Clone, Debug, PartialEq, Queryable)]
pub struct RegistrationRow {
    pub data_name: String,
    pub cmd: String,
    /// Seconds, as in the paper.
    pub time_max: Option<f64>,
    /// The whole registration as JSON.
    pub spec: String,
    pub version: i64,
    pub created_at: i64,
    pub updated_at: i64,
}

#[derive(Clone, Debug, PartialEq, Eq, Queryable)]
pub struct HistoryEntry {
    pub data_name: String,
    /// Never used twice for a name, not even after it was deleted.
    pub version: i64,
    pub action: String,
    pub at: i64,
    pub actor: String,
    pub spec: String,
}

/// A change of a registration, and its entry in the history.
#[derive(Clone, Debug, PartialEq)]
pub struct RegistrationChange {
    /// None: it is removed.
    pub row: Option<RegistrationRow>,
    pub entry: HistoryEntry,
}

static NAMES: Keys = Keys { table: "t_dp", columns: &["data_name"] };
static REGISTRATIONS: Rows = Rows {
    table: "t_dp",
    columns: &["data_name", "cmd", "time_max", "spec", "version", "created_at", "updated_at"],
    replaced_by: 1,
};
static ENTRIES: Rows = Rows {
    table: "t_dp_history",
    columns: &["data_name", "version", "action", "at", "actor", "spec"],
    replaced_by: 0,
};

impl HistoryEntry {
    fn values(&self) -> [Value<'_>; 6] {
        [
            Value::Text(&self.data_name),
            Value::Int(self.version),
            Value::Text(&self.action),
            Value::Int(self.at),
            Value::Text(&self.actor),
            Value::Text(&self.spec),
        ]
    }
}

impl RegistrationRow {
    fn values(&self) -> [Value<'_>; 7] {
        [
            Value::Text(&self.data_name),
            Value::Text(&self.cmd),
            Value::OptReal(self.time_max),
            Value::Text(&self.spec),
            Value::Int(self.version),
            Value::Int(self.created_at),
            Value::Int(self.updated_at),
        ]
    }
}

impl Connection {
    /// All registrations, by name.
    pub fn load_registrations(&mut self) -> Result<Vec<RegistrationRow>, Error> {
        self.read(
            "loading the registrations",
            |backend| on!(backend, connection => t_dp::table.order(t_dp::data_name).load(connection)),
        )
    }

    /// Adds, replaces and removes registrations, all or nothing. The name of a change is that of its entry.
    pub fn change_registrations(
        &mut self,
        claim: &Claim,
        changes: &[RegistrationChange],
    ) -> Result<(), Error> {
        let gone = changes.iter().filter(|change| change.row.is_none());
        let gone: Vec<Value<'_>> = gone.map(|change| Value::Text(&change.entry.data_name)).collect();
        let rows: Vec<Value<'_>> = changes
            .iter()
            .filter_map(|change| change.row.as_ref())
            .flat_map(RegistrationRow::values)
            .collect();
        let entries: Vec<Value<'_>> = changes.iter().flat_map(|change| change.entry.values()).collect();
        let doing = "storing registrations";
        let change = |backend: &mut Backend| {
            fence(backend, claim)?;
            NAMES.delete(backend, &gone)?;
            REGISTRATIONS.write(backend, &rows)?;
            Ok(ENTRIES.write(backend, &entries)?)
        };
        match rows.is_empty() {
            true => self.write_on_full_disk(doing, change),
            false => self.write(doing, change),
        }
    }

    /// The latest changes of one registration, newest first.
    pub fn registration_history(&mut self, name: &str, limit: i64) -> Result<Vec<HistoryEntry>, Error> {
        self.read("reading the history of a registration", |backend| {
            on!(backend, connection => t_dp_history::table
                .filter(t_dp_history::data_name.eq(name))
                .order(t_dp_history::version.desc())
                .limit(limit)
                .load(connection))
        })
    }

    /// The highest version that each name ever had, deleted ones too.
    pub fn last_versions(&mut self) -> Result<Vec<(String, i64)>, Error> {
        use diesel::dsl::max;
        let found: Vec<(String, Option<i64>)> = self.read("reading the last versions", |backend| {
            on!(backend, connection => t_dp_history::table
                .group_by(t_dp_history::data_name)
                .select((t_dp_history::data_name, max(t_dp_history::version)))
                .order(t_dp_history::data_name)
                .load(connection))
        })?;
        Ok(found.into_iter().filter_map(|(name, version)| Some((name, version?))).collect())
    }
}
