//! How many rows a second `commit` makes durable in groups of 1, 100 and 1,000, beside raw SQLite with a
//! prepared statement a row and the same settings.
//!
//! `cargo run --release -p estimand-store --example commit_speed [STORE_URL]` (a temporary file without one).
#![allow(clippy::unwrap_used, unsafe_code)]

use std::time::{Duration, Instant};

use estimand_store::{Connection, DataRowRef, Group, StoreUrl};

const KEYS: usize = 100_000;
const TIME: Duration = Duration::from_secs(4);
const ROUNDS: usize = 3;

fn main() {
    let folder = tempfile::tempdir_in(".").unwrap();
    let given = std::env::args().nth(1);
    let url = given.clone().unwrap_or_else(|| format!("sqlite://{}/store.db", folder.path().display()));
    let mut connection = Connection::open(&StoreUrl::parse(&url).unwrap()).unwrap();
    connection.migrate().unwrap();
    let nodes: Vec<_> = (0..KEYS).map(|n| format!("node-{:06}", (n * 7_919) % KEYS)).collect();
    let mut raw = given.is_none().then(|| raw::Raw::open(&folder.path().join("raw.db")));
    let claim = connection.claim("data", 0).unwrap();
    let mut revision = 0;
    let mut store = |some: &[String]| {
        revision += 1;
        let upserts = some.iter().map(|node| row(node, revision)).collect();
        connection.commit(&claim, &Group { revision, upserts, ..Group::default() }).unwrap();
    };
    // Both are measured on a table that holds all keys already.
    nodes.chunks(1_000).for_each(&mut store);
    if let Some(raw) = &mut raw {
        nodes.chunks(1_000).for_each(|some| raw.commit(some, 0));
    }
    // SQLite writes nothing for a row that doesn't change.
    let mut raw_revision = 0;
    for size in [1, 100, 1_000] {
        for _ in 0..ROUNDS {
            let ours = rate(&nodes, size, &mut store);
            match &mut raw {
                Some(raw) => {
                    let theirs = rate(&nodes, size, |some| {
                        raw_revision += 1;
                        raw.commit(some, raw_revision);
                    });
                    println!(
                        "{size:5} rows: {ours:9.0} rows/s, raw {theirs:9.0}, {:.2} of it",
                        ours / theirs
                    );
                }
                None => println!("{size:5} rows: {ours:9.0} rows/s"),
            }
        }
    }
}

fn rate(nodes: &[String], size: usize, mut commit: impl FnMut(&[String])) -> f64 {
    let start = Instant::now();
    let mut rows = 0;
    for some in nodes.chunks_exact(size).cycle() {
        commit(some);
        rows += size;
        if start.elapsed() > TIME {
            break;
        }
    }
    rows as f64 / start.elapsed().as_secs_f64()
}

fn row(node: &str, revision: i64) -> DataRowRef<'_> {
    DataRowRef {
        data_name: "cpu_usage",
        node_name: node,
        data_value: "{\"user\":0.25,\"system\":0.0625,\"idle\":0.6875}",
        collected_at: 1_750_000_000_000_000 + revision,
        received_at: 1_750_000_000_000_100 + revision,
        valid_for: Some(15_000_000),
        failed: false,
        lost: false,
        revision,
        epoch: 3,
        sequence: revision,
        provenance: None,
    }
}

/// SQLite without anything between, on the same table.
mod raw {
    use std::ffi::{CString, c_char, c_int};
    use std::path::Path;
    use std::ptr;

    use libsqlite3_sys as ffi;

    const TABLE: &str = include_str!("../migrations/sqlite/2026-01-01-000000_first/up.sql");
    const SETTINGS: &str = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA temp_store = MEMORY; \
         PRAGMA cache_size = -65536; PRAGMA wal_autocheckpoint = 4000;";
    const UPSERT: &str = "INSERT INTO t_data (id, data_name, node_name, data_value, collected_at, received_at, \
         valid_for, failed, lost, revision, epoch, sequence, provenance) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?) \
         ON CONFLICT (id) DO UPDATE SET data_name = excluded.data_name, node_name = excluded.node_name, \
         data_value = excluded.data_value, collected_at = excluded.collected_at, \
         received_at = excluded.received_at, valid_for = excluded.valid_for, failed = excluded.failed, \
         lost = excluded.lost, revision = excluded.revision, epoch = excluded.epoch, \
         sequence = excluded.sequence, provenance = excluded.provenance";

    pub struct Raw {
        database: *mut ffi::sqlite3,
        begin: *mut ffi::sqlite3_stmt,
        upsert: *mut ffi::sqlite3_stmt,
        commit: *mut ffi::sqlite3_stmt,
    }

    impl Raw {
        pub fn open(path: &Path) -> Self {
            let mut database = ptr::null_mut();
            let name = CString::new(path.to_str().unwrap()).unwrap();
            // SAFETY: the name outlives the call, and the pointer is written before it is used.
            assert_eq!(unsafe { ffi::sqlite3_open(name.as_ptr(), &mut database) }, ffi::SQLITE_OK);
            for sql in [SETTINGS, TABLE] {
                let sql = CString::new(sql).unwrap();
                // SAFETY: the database is open, and no callback or message is asked for.
                let code = unsafe {
                    ffi::sqlite3_exec(database, sql.as_ptr(), None, ptr::null_mut(), ptr::null_mut())
                };
                assert_eq!(code, ffi::SQLITE_OK);
            }
            let prepare = |sql: &str| {
                let mut statement = ptr::null_mut();
                // SAFETY: the length is that of the text, and the pointer is written before it is used.
                let code = unsafe {
                    ffi::sqlite3_prepare_v3(
                        database,
                        sql.as_ptr().cast(),
                        sql.len() as c_int,
                        ffi::SQLITE_PREPARE_PERSISTENT as _,
                        &mut statement,
                        ptr::null_mut(),
                    )
                };
                assert_eq!(code, ffi::SQLITE_OK);
                statement
            };
            let (begin, upsert, commit) = (prepare("BEGIN IMMEDIATE"), prepare(UPSERT), prepare("COMMIT"));
            Self { database, begin, upsert, commit }
        }

        pub fn commit(&mut self, nodes: &[String], revision: i64) {
            self.step(self.begin);
            for node in nodes {
                let row = super::row(node, revision);
                let id = format!("{}/{}", row.data_name, row.node_name);
                let texts = [&id, row.data_name, row.node_name, row.data_value];
                for (n, text) in (1..).zip(texts) {
                    // SAFETY: the text lives until the statement has been stepped.
                    unsafe {
                        let text_start = text.as_ptr().cast::<c_char>();
                        ffi::sqlite3_bind_text(
                            self.upsert,
                            n,
                            text_start,
                            text.len() as c_int,
                            ffi::SQLITE_STATIC(),
                        )
                    };
                }
                let numbers = [
                    row.collected_at,
                    row.received_at,
                    row.valid_for.unwrap(),
                    i64::from(row.failed),
                    i64::from(row.lost),
                    row.revision,
                    row.epoch,
                    row.sequence,
                ];
                for (n, number) in (5..).zip(numbers) {
                    // SAFETY: the statement has so many parameters.
                    unsafe { ffi::sqlite3_bind_int64(self.upsert, n, number) };
                }
                self.step(self.upsert);
            }
            self.step(self.commit);
        }

        fn step(&self, statement: *mut ffi::sqlite3_stmt) {
            // SAFETY: the statement belongs to the open database.
            unsafe {
                assert_eq!(ffi::sqlite3_step(statement), ffi::SQLITE_DONE);
                ffi::sqlite3_reset(statement);
            }
        }
    }

    impl Drop for Raw {
        fn drop(&mut self) {
            // SAFETY: nothing uses them any more.
            unsafe {
                for statement in [self.begin, self.upsert, self.commit] {
                    ffi::sqlite3_finalize(statement);
                }
                ffi::sqlite3_close(self.database);
            }
        }
    }
}
