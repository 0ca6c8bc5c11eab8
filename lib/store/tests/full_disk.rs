//! A full disk under SQLite's file: additions wait, and removals, and what those need, go through for as long as it is full.
#![allow(clippy::unwrap_used)]

mod common;

use std::fs;

use common::{entry, put, registration, removed, value};
use estimand_store::{Claim, Connection, Error, Group, Key, StoreUrl};
use estimand_testkit::disk::Disk;
use estimand_testkit::wait::{self, PATIENCE};

const NAMES: usize = 300;
/// Each takes pages of its own.
const LARGE: usize = 16 << 10;

fn add(connection: &mut Connection, claim: &Claim, name: &str) -> Result<(), Error> {
    let text = "x".repeat(LARGE);
    let row = estimand_store::DataRowRef { data_value: &text, ..value(name, "n", 1) };
    connection.commit(claim, &Group { revision: 1, upserts: vec![row], ..Group::default() }).map(drop)
}

fn remove(connection: &mut Connection, claim: &Claim, name: &str) -> Result<(), Error> {
    let key = Key { data_name: name, node_name: "n" };
    connection.commit(claim, &Group { revision: 1, deletes: vec![key], ..Group::default() }).map(drop)
}

#[track_caller]
fn expect_busy(done: &Result<(), Error>) {
    assert!(matches!(done, Err(Error::Busy { cause, .. }) if cause.contains("full")), "{done:?}");
}

fn removals_go_through_on(disk: &Disk) {
    let url = StoreUrl::parse(&format!("sqlite://{}", disk.path().join("store.db").display())).unwrap();
    let open = || {
        let mut connection = Connection::open(&url).unwrap();
        connection.migrate().unwrap();
        connection
    };
    let mut connection = open();
    let claim = connection.claim("data", 0).unwrap();
    let registry = connection.claim("registry", 0).unwrap();
    let lead = connection.take_lead("manager", None, "me", "").unwrap().unwrap();
    let names: Vec<String> = (0..NAMES).map(|number| format!("name_{number}")).collect();
    for name in &names {
        add(&mut connection, &claim, name).unwrap();
        let new = put(&registration(name, 1), entry(name, 1, "create"));
        connection.change_registrations(&registry, &[new]).unwrap();
    }

    let full = disk.fill();
    let more = (0..).map(|number| format!("more_{number}"));
    let refused = more.map(|name| add(&mut connection, &claim, &name)).find(Result::is_err).unwrap();
    expect_busy(&refused);
    let (first, second) = names.split_at(NAMES / 2);
    let remove_all = |connection: &mut Connection, claim: &Claim, registry: &Claim, names: &[String]| {
        for name in names {
            // Somebody else takes at once what becomes free.
            full.grow();
            connection.beat_lead(&lead).unwrap();
            remove(connection, claim, name).unwrap();
            connection.change_registrations(registry, &[removed(entry(name, 2, "delete"))]).unwrap();
        }
        expect_busy(&add(connection, claim, "new"));
    };
    remove_all(&mut connection, &claim, &registry, first);

    // A start empties the log, whose room is gone then, and makes an index for it.
    drop(connection);
    fs::remove_file(disk.path().join("store.db-shm")).unwrap();
    full.grow();
    let mut connection = open();
    let claim = connection.claim("data", 0).unwrap();
    let registry = connection.claim("registry", 0).unwrap();
    remove_all(&mut connection, &claim, &registry, second);

    drop(full);
    wait::until_ok(PATIENCE, "an addition to be taken", || add(&mut connection, &claim, "new"));
    assert!(connection.load_registrations().unwrap().is_empty());
    let left = common::all(&mut connection);
    assert!(left.iter().all(|row| !row.data_name.starts_with("name_")));
    let full = disk.fill();
    drop(connection);
    let mut connection = open();
    full.grow();
    let claim = connection.claim("data", 0).unwrap();
    remove(&mut connection, &claim, "new").unwrap();
}

#[test]
fn removals_go_through_on_a_full_disk() {
    removals_go_through_on(&Disk::in_memory("96m"));
    removals_go_through_on(&Disk::in_file(128));
}
