//! Real servers come up, keep apart what tests do, keep what they acknowledged, and leave nothing behind.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;

use estimand_testkit::databases::{self, Kind, Server};

fn keeps_databases_apart(server: &Server) {
    let (one, other) = (server.fresh_url(), server.fresh_url());
    assert_ne!(one, other);
    server.query(&one, "CREATE TABLE t (n INT)");
    server.query(&one, "INSERT INTO t VALUES (7)");
    // Were it the same database, the table would be there already.
    server.query(&other, "CREATE TABLE t (n INT)");
    assert_eq!(server.query(&one, "SELECT n, n + 1 FROM t"), "7\t8");
    assert_eq!(server.query(&other, "SELECT COUNT(*) FROM t"), "0");
}

fn keeps_what_it_acknowledged(kind: Kind) {
    let server = Server::start_own(kind);
    let url = server.fresh_url();
    server.query(&url, "CREATE TABLE t (n INT)");
    server.query(&url, "INSERT INTO t VALUES (42)");

    let before = server.pid();
    server.kill9();
    assert!(!Path::new(&format!("/proc/{before}")).exists(), "the killed server is still there");
    server.start_again();
    assert_ne!(server.pid(), before);
    assert_eq!(server.query(&url, "SELECT n FROM t"), "42", "lost by kill -9");

    server.restart();
    assert_eq!(server.query(&url, "SELECT n FROM t"), "42", "lost by a restart");
}

/// Processes whose command line names the data folder.
fn processes_in(data: &str) -> Vec<String> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let lines = entries.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    lines
        .map(|line| String::from_utf8_lossy(&line).replace('\0', " "))
        .filter(|line| line.contains(data))
        .collect()
}

fn leaves_nothing_behind(kind: Kind, which_data: &str) {
    let server = Server::start_own(kind);
    let data = server.query(&server.fresh_url(), which_data).trim_end_matches('/').to_owned();
    assert!(Path::new(&data).exists() && !processes_in(&data).is_empty());
    drop(server);
    assert_eq!(processes_in(&data), Vec::<String>::new());
    assert!(!Path::new(&data).parent().unwrap().exists(), "{data} is left");
}

#[test]
fn postgres_keeps_databases_apart() {
    keeps_databases_apart(databases::postgres());
}

#[test]
fn mariadb_keeps_databases_apart() {
    keeps_databases_apart(databases::mariadb());
}

#[test]
fn postgres_keeps_what_it_acknowledged() {
    keeps_what_it_acknowledged(Kind::Postgres);
}

#[test]
fn mariadb_keeps_what_it_acknowledged() {
    keeps_what_it_acknowledged(Kind::Mariadb);
}

#[test]
fn postgres_leaves_nothing_behind() {
    leaves_nothing_behind(Kind::Postgres, "SHOW data_directory");
}

#[test]
fn mariadb_leaves_nothing_behind() {
    leaves_nothing_behind(Kind::Mariadb, "SELECT @@datadir");
}

#[test]
fn many_threads_share_one_server() {
    let urls: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..6).map(|_| scope.spawn(|| databases::postgres().fresh_url())).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let ports: std::collections::HashSet<_> =
        urls.iter().map(|url| url.rsplit_once('/').unwrap().0.to_owned()).collect();
    assert_eq!(ports.len(), 1, "{urls:?}");
}
