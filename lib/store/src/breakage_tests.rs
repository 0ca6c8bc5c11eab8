//! The errors of a connection when its database breaks, hangs, fills up or is in use.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use diesel::connection::SimpleConnection;
use estimand_testkit::databases::{self, Kind, Server};
use estimand_testkit::processes;

use crate::backend::on;
use crate::{Change, Connection, DataRowRef, Error, Group, HistoryRowRef, Key, StoreUrl};

fn open(url: &str) -> Connection {
    let mut connection = Connection::open(&StoreUrl::parse(url).unwrap()).unwrap();
    connection.migrate().unwrap();
    connection
}

fn in_folder(folder: &tempfile::TempDir) -> String {
    format!("sqlite://{}/store.db", folder.path().display())
}

/// Runs SQL of the test's own on the connection under test.
fn tell(connection: &mut Connection, sql: &str) {
    connection
        .special("testing", |backend, _| {
            on!(backend, connection => connection.batch_execute(sql)).unwrap();
            Ok(())
        })
        .unwrap();
}

fn set_deadline(connection: &mut Connection, deadline: Duration) {
    connection
        .special("testing", |_, driver| {
            driver.unwrap().set_deadline(deadline);
            Ok(())
        })
        .unwrap();
}

fn row(data_value: &str) -> DataRowRef<'_> {
    DataRowRef {
        data_name: "a",
        node_name: "n",
        data_value,
        collected_at: 1,
        received_at: 1,
        valid_for: None,
        failed: false,
        lost: false,
        revision: 1,
        epoch: 1,
        sequence: 1,
        provenance: None,
    }
}

/// The content of such a log may be in the kernel's memory alone.
#[test]
fn a_log_that_somebody_left_is_emptied_before_anything_is_added() {
    let [folder, crashed] = [0; 2].map(|_| tempfile::tempdir().unwrap());
    let _writing = open(&in_folder(&folder));
    for file in ["store.db", "store.db-wal"] {
        std::fs::copy(folder.path().join(file), crashed.path().join(file)).unwrap();
    }
    let left = || crashed.path().join("store.db-wal").metadata().unwrap().len();
    assert!(left() > 0);
    let mut opened = Connection::open(&StoreUrl::parse(&in_folder(&crashed)).unwrap()).unwrap();
    assert_eq!((left(), count(&mut opened)), (0, 0), "the tables are there, the log is not");
}

fn count(connection: &mut Connection) -> usize {
    let mut keys = BTreeSet::new();
    let each = &mut |change: Change<'_>| {
        let Key { data_name, node_name } = change.key();
        keys.insert(format!("{data_name}/{node_name}"));
    };
    connection.load_data(each).unwrap();
    keys.len()
}

/// After `breaking`, a commit is of unknown outcome, the connection is closed, and another one works.
fn loses_the_connection(url: &str, breaking: impl FnOnce(), mending: impl FnOnce()) {
    let mut connection = open(url);
    let claim = connection.claim("data", 0).unwrap();
    let group = Group { revision: 1, upserts: vec![row("1")], ..Group::default() };
    set_deadline(&mut connection, Duration::from_millis(500));
    breaking();
    let lost = connection.commit(&claim, &group);
    assert!(matches!(lost, Err(Error::Connection { .. })), "{lost:?}");
    assert!(connection.is_closed());
    assert!(matches!(connection.ping(), Err(Error::Connection { .. })));
    mending();
    let mut another = open(url);
    another.commit(&claim, &group).unwrap();
    assert_eq!(count(&mut another), 1);
}

#[test]
fn postgres_ends_the_session() {
    let server = databases::postgres();
    let url = server.fresh_url();
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
               WHERE application_name = 'estimand' AND datname = current_database()";
    loses_the_connection(&url, || assert_eq!(server.query(&url, end), "t"), || ());
}

#[test]
fn mariadb_ends_the_session() {
    let server = databases::mariadb();
    let url = server.fresh_url();
    let find =
        "SELECT id FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID()";
    let end = || {
        let id = server.query(&url, find);
        server.query(&url, &format!("KILL CONNECTION {id}"));
    };
    loses_the_connection(&url, end, || ());
}

#[test]
fn postgres_hangs() {
    let server = databases::postgres();
    let url = server.fresh_url();
    let find = "SELECT pid FROM pg_stat_activity WHERE application_name = 'estimand' AND datname = current_database()";
    let session = std::cell::Cell::new(0);
    let stop = || {
        session.set(server.query(&url, find).parse().unwrap());
        processes::pause(session.get());
    };
    loses_the_connection(&url, stop, || processes::resume(session.get()));
}

fn the_server_hangs_and_dies(kind: Kind) {
    let server = Server::start_own(kind);
    let url = server.fresh_url();
    let first = server.pid();
    loses_the_connection(&url, || server.kill9(), || server.start_again());
    let (url, second) = (server.fresh_url(), server.pid());
    if kind == Kind::Mariadb {
        loses_the_connection(&url, || processes::pause(second), || processes::resume(second));
    }
    assert_eq!((server.pid(), second == first), (second, false));
}

#[test]
fn a_postgres_server_dies() {
    the_server_hangs_and_dies(Kind::Postgres);
}

#[test]
fn a_mariadb_server_hangs_and_dies() {
    the_server_hangs_and_dies(Kind::Mariadb);
}

#[test]
fn nobody_listens() {
    let server = databases::postgres();
    let nobody = server.fresh_url().replace(&server.port().to_string(), "1");
    for url in [nobody.clone(), nobody.replace("postgres://", "mysql://")] {
        let lost = Connection::open(&StoreUrl::parse(&url).unwrap()).err();
        assert!(
            matches!(&lost, Some(Error::Connection { cause, .. }) if cause.contains("refused")),
            "{lost:?}"
        );
    }
}

/// A statement that the server refuses leaves the connection usable; one that it refuses at the COMMIT
/// leaves the outcome open.
#[test]
fn a_refusal_at_the_commit_is_of_unknown_outcome() {
    let url = databases::postgres().fresh_url();
    let mut connection = open(&url);
    tell(
        &mut connection,
        "ALTER TABLE t_history ADD CONSTRAINT late UNIQUE (collected_at) DEFERRABLE INITIALLY DEFERRED",
    );
    let claim = connection.claim("data", 0).unwrap();
    let kept = |revision| HistoryRowRef {
        data_name: "a",
        node_name: "n",
        revision,
        data_value: "1",
        collected_at: 7,
        received_at: 7,
    };
    let group = Group { revision: 2, history: vec![kept(1), kept(1)], ..Group::default() };
    let refused = connection.commit(&claim, &group);
    assert!(matches!(refused, Err(Error::Refused { .. })), "{refused:?}");
    let group = Group { revision: 2, history: vec![kept(1), kept(2)], ..Group::default() };
    let unknown = connection.commit(&claim, &group);
    assert!(matches!(unknown, Err(Error::Connection { .. })), "{unknown:?}");
}

#[test]
fn mysql_refuses_what_is_too_long() {
    let mut connection = open(&databases::mariadb().fresh_url());
    let refused = connection.claim(&"x".repeat(33), 0);
    assert!(matches!(refused, Err(Error::Refused { .. })), "{refused:?}");
    connection.claim(&"x".repeat(32), 0).unwrap();
}

#[test]
fn sqlite_is_full() {
    let folder = tempfile::tempdir().unwrap();
    let mut connection = open(&in_folder(&folder));
    let claim = connection.claim("data", 0).unwrap();
    tell(&mut connection, "PRAGMA max_page_count = 20");
    let large = "x".repeat(200 * 1024);
    let group = Group { revision: 1, upserts: vec![row(&large)], ..Group::default() };
    let refused = connection.commit(&claim, &group);
    assert!(matches!(&refused, Err(Error::Busy { cause, .. }) if cause.contains("full")), "{refused:?}");
    assert_eq!(count(&mut connection), 0);
    connection.commit(&claim, &Group { revision: 1, upserts: vec![row("1")], ..Group::default() }).unwrap();
    assert_eq!(count(&mut connection), 1);
}

#[test]
fn sqlite_is_in_use() {
    let folder = tempfile::tempdir().unwrap();
    let (mut one, mut other) = (open(&in_folder(&folder)), open(&in_folder(&folder)));
    let claim = one.claim("data", 0).unwrap();
    let group = Group { revision: 1, upserts: vec![row("1")], ..Group::default() };
    tell(&mut other, "BEGIN IMMEDIATE");
    tell(&mut one, "PRAGMA busy_timeout = 10");
    let busy = one.commit(&claim, &group);
    assert!(matches!(busy, Err(Error::Busy { .. })), "{busy:?}");
    assert_eq!(count(&mut one), 0, "reading goes on beside a writer");
    tell(&mut other, "ROLLBACK");
    one.commit(&claim, &group).unwrap();
}

/// A writer that waits for another one's row ends with a certain outcome, before its own deadline.
#[test]
fn a_lock_is_not_waited_for_without_end() {
    for url in [databases::postgres().fresh_url(), databases::mariadb().fresh_url()] {
        let (mut one, mut other) = (open(&url), open(&url));
        let claim = one.claim("data", 0).unwrap();
        let short = if url.starts_with("postgres") {
            "SET lock_timeout = '100ms'"
        } else {
            "SET SESSION innodb_lock_wait_timeout = 1"
        };
        tell(&mut one, short);
        tell(&mut other, "BEGIN; UPDATE t_owner SET epoch = epoch + 1");
        let busy = one.commit(&claim, &Group::default());
        assert!(matches!(busy, Err(Error::Busy { .. })), "{busy:?}");
        tell(&mut other, "ROLLBACK");
        one.commit(&claim, &Group::default()).unwrap();
    }
}

#[test]
fn a_panic_in_between_is_passed_on() {
    let folder = tempfile::tempdir().unwrap();
    let mut connection = open(&in_folder(&folder));
    let work = || connection.special::<()>("testing", |_, _| panic!("a bug"));
    let payload = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).unwrap_err();
    assert_eq!(payload.downcast_ref(), Some(&"a bug"));
    assert!(connection.is_closed());
}

#[test]
fn a_deadline_holds_while_connecting() {
    // It accepts, and never says a word.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let start = Instant::now();
    let lost = Connection::open(&StoreUrl::parse(&format!("mysql://u@127.0.0.1:{port}/d")).unwrap()).err();
    assert!(matches!(lost, Some(Error::Connection { .. })), "{lost:?}");
    assert!(start.elapsed() < crate::driver::STATEMENT_TIMEOUT);
}
