//! A disk that refuses data for a while: what is stored after that outlasts a power cut.
#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeSet;
use std::path::PathBuf;

use common::value;
use estimand_store::{Claim, Connection, DataRowRef, Error, Group, StoreUrl};
use estimand_testkit::disk::Disk;

/// Each takes pages of its own, so that the file has to grow.
const LARGE: usize = 16 << 10;
/// Few enough to be in SQLite's log only.
const BEFORE: usize = 100;
/// How often it is tried in vain: each time the connection is closed, and another one has to copy the log into the database.
const IN_VAIN: usize = 3;

/// Of the store alone: what the file system keeps at its top is not refused.
fn folder(disk: &Disk) -> PathBuf {
    disk.path().join("data")
}

/// A store on the disk, and its owner's claim.
struct Store {
    url: StoreUrl,
    connection: Option<Connection>,
    claim: Claim,
    /// The names of the values that were stored.
    stored: BTreeSet<String>,
    tried: usize,
}

impl Store {
    fn on(disk: &Disk) -> Self {
        let url = StoreUrl::parse(&format!("sqlite://{}", folder(disk).join("store.db").display())).unwrap();
        let mut connection = Connection::open(&url).unwrap();
        connection.migrate().unwrap();
        let claim = connection.claim("data", 0).unwrap();
        Store { url, connection: Some(connection), claim, stored: BTreeSet::new(), tried: 0 }
    }

    /// Stores another value, on another connection if the last one is closed.
    fn add(&mut self) -> Result<(), Error> {
        let open = self.connection.take().filter(|connection| !connection.is_closed());
        let mut connection = open.map_or_else(|| Connection::open(&self.url), Ok)?;
        self.tried += 1;
        let (name, text) = (format!("name_{}", self.tried), "x".repeat(LARGE));
        let row = DataRowRef { data_value: &text, ..value(&name, "n", 1) };
        let group = Group { revision: 1, upserts: vec![row], ..Group::default() };
        let added = connection.commit(&self.claim, &group).map(drop);
        self.connection = Some(connection);
        self.stored.extend(added.is_ok().then_some(name));
        added
    }

    /// The power is cut; everything that was stored is there afterwards.
    fn check_after_power_cut(mut self, disk: &Disk) {
        disk.note();
        self.connection = None;
        disk.cut_power();
        let mut connection = Connection::open(&self.url).unwrap();
        let there: BTreeSet<_> = common::all(&mut connection).into_iter().map(|row| row.data_name).collect();
        let lost: Vec<_> = self.stored.difference(&there).collect();
        assert!(lost.is_empty(), "{} of {} are lost: {lost:?}", lost.len(), self.stored.len());
    }
}

#[test]
fn what_is_stored_after_refused_writes_outlasts_a_power_cut() {
    let disk = Disk::in_file(64);
    let mut store = Store::on(&disk);
    (0..BEFORE).for_each(|_| store.add().unwrap());
    let refusing = disk.refuse_data(&folder(&disk));
    (0..IN_VAIN).for_each(|_| drop(store.add().unwrap_err()));
    drop(refusing);
    (0..BEFORE).for_each(|_| store.add().unwrap());
    store.check_after_power_cut(&disk);
}
