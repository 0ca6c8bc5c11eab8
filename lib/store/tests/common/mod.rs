//! Empty stores of each kind to test on, and rows to put into them.
#![allow(dead_code, clippy::unwrap_used)]

use std::collections::BTreeMap;

use estimand_store::{
    Change, Claim, Connection, DataRow, DataRowRef, Error, HistoryEntry, HistoryQuery, HistoryRowRef, Key,
    RegistrationChange, RegistrationRow, StoreUrl,
};
use estimand_testkit::databases::{self, Server};
use tempfile::TempDir;

pub struct Place {
    pub url: StoreUrl,
    pub server: Option<(&'static Server, String)>,
    pub folder: Option<TempDir>,
}

impl Place {
    pub fn sqlite() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("not/yet/there/store.db");
        let url = StoreUrl::parse(&format!("sqlite://{}", path.display())).unwrap();
        Self { url, server: None, folder: Some(folder) }
    }

    pub fn postgres() -> Self {
        Self::on_server(databases::postgres())
    }

    pub fn mariadb() -> Self {
        Self::on_server(databases::mariadb())
    }

    fn on_server(server: &'static Server) -> Self {
        let text = server.fresh_url();
        Self { url: StoreUrl::parse(&text).unwrap(), server: Some((server, text)), folder: None }
    }

    /// A connection to the store, whose tables are there.
    pub fn open(&self) -> Connection {
        let mut connection = Connection::open(&self.url).unwrap();
        connection.migrate().unwrap();
        connection
    }
}

/// Defines each named test once for each kind of store.
#[macro_export]
macro_rules! on_every_store {
    ($($test:ident),* $(,)?) => {
        mod sqlite { $( #[test] fn $test() { super::$test(&super::common::Place::sqlite()); } )* }
        mod postgres { $( #[test] fn $test() { super::$test(&super::common::Place::postgres()); } )* }
        mod mariadb { $( #[test] fn $test() { super::$test(&super::common::Place::mariadb()); } )* }
    };
}

pub fn value<'a>(data_name: &'a str, node_name: &'a str, revision: i64) -> DataRowRef<'a> {
    DataRowRef {
        data_name,
        node_name,
        data_value: "0.5",
        collected_at: revision * 10,
        received_at: revision * 10 + 1,
        valid_for: None,
        failed: false,
        lost: false,
        revision,
        epoch: 1,
        sequence: revision,
        provenance: None,
    }
}

pub fn owned(row: &DataRowRef<'_>) -> DataRow {
    DataRow {
        data_name: row.data_name.to_owned(),
        node_name: row.node_name.to_owned(),
        data_value: row.data_value.to_owned(),
        collected_at: row.collected_at,
        received_at: row.received_at,
        valid_for: row.valid_for,
        failed: row.failed,
        lost: row.lost,
        revision: row.revision,
        epoch: row.epoch,
        sequence: row.sequence,
        provenance: row.provenance.map(str::to_owned),
    }
}

/// The values, by id.
pub fn all(connection: &mut Connection) -> Vec<DataRow> {
    let mut rows = BTreeMap::new();
    let each = &mut |change: Change<'_>| {
        let Key { data_name, node_name } = change.key();
        let id = format!("{data_name}/{node_name}");
        match change {
            Change::Put(row) => drop(rows.insert(id, owned(&row))),
            Change::Delete(_) => drop(rows.remove(&id)),
        }
    };
    connection.load_data(each).unwrap();
    rows.into_values().collect()
}

/// Folds the whole journal.
pub fn fold(connection: &mut Connection, claim: &Claim) -> Result<(), Error> {
    loop {
        let page = connection.read_journal()?;
        let mut fold = page.fold()?;
        if fold.is_done() {
            return Ok(());
        }
        while !fold.is_done() {
            connection.fold_piece(claim, &mut fold)?;
        }
    }
}

/// How many changes are in the journal.
pub fn journaled(connection: &mut Connection) -> usize {
    connection.load_data(&mut |_| ()).unwrap().changes
}

pub fn registration(name: &str, version: i64) -> RegistrationRow {
    RegistrationRow {
        data_name: name.to_owned(),
        cmd: "cat /proc/loadavg".to_owned(),
        time_max: Some(1.25),
        spec: format!("{{\"dataName\":\"{name}\"}}"),
        version,
        created_at: 1,
        updated_at: version,
    }
}

pub fn put(row: &RegistrationRow, entry: HistoryEntry) -> RegistrationChange {
    RegistrationChange { row: Some(row.clone()), entry }
}

pub fn removed(entry: HistoryEntry) -> RegistrationChange {
    RegistrationChange { row: None, entry }
}

pub fn entry(name: &str, version: i64, action: &str) -> HistoryEntry {
    HistoryEntry {
        data_name: name.to_owned(),
        version,
        action: action.to_owned(),
        at: version * 100,
        actor: "somebody".to_owned(),
        spec: "{}".to_owned(),
    }
}

pub fn history<'a>(data_name: &'a str, node_name: &'a str, revision: i64) -> HistoryRowRef<'a> {
    HistoryRowRef {
        data_name,
        node_name,
        revision,
        data_value: "1",
        collected_at: revision * 10,
        received_at: revision * 10 + 1,
    }
}

pub fn query(data_name: &str) -> HistoryQuery {
    HistoryQuery { data_name: data_name.to_owned(), node_name: None, since: None, until: None, limit: 1_000 }
}

pub fn revisions(connection: &mut Connection, query: &HistoryQuery) -> Vec<i64> {
    connection.read_history(query).unwrap().rows.iter().map(|row| row.revision).collect()
}
