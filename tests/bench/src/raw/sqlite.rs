//! SQLite without a service: one connection in this process, on the core where the service runs.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context;
use rusqlite::{Connection, Statement, params};

use super::{FIRST, ON_CONFLICT, upsert};
use crate::contest::Sample;
use crate::histogram::Histogram;
use crate::keys::{Keys, Row};

const TABLES: &str = include_str!("../../../../lib/store/migrations/sqlite/2026-01-01-000000_first/up.sql");
/// The service's settings of its own connection, so that both do the same work.
const SETTINGS: &str = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA temp_store = MEMORY; \
     PRAGMA cache_size = -65536; PRAGMA wal_autocheckpoint = 4000; PRAGMA journal_size_limit = 67108864;";

pub struct RawSqlite {
    connection: Connection,
    rows: Vec<Row>,
    next: usize,
    revision: i64,
}

impl RawSqlite {
    /// A new database with all values in it.
    pub fn create(path: &Path, keys: Keys) -> anyhow::Result<Self> {
        let connection = Connection::open(path).with_context(|| format!("opening {}", path.display()))?;
        connection.execute_batch(SETTINGS)?;
        connection.execute_batch(TABLES)?;
        let all: Vec<Row> = keys.all().collect();
        let mut revision = FIRST;
        transaction(&connection, &mut prepare(&connection)?, &all, &mut revision)?;
        Ok(RawSqlite { connection, rows: keys.some(), next: 0, revision })
    }

    /// Writes for so long, so many rows a transaction; the figure counts transactions.
    pub fn write(&mut self, rows: usize, time: Duration) -> anyhow::Result<Sample> {
        let mut latencies = Histogram::default();
        let mut upsert = prepare(&self.connection)?;
        let began = Instant::now();
        while began.elapsed() < time {
            if self.next + rows > self.rows.len() {
                self.next = 0;
            }
            let now = &self.rows[self.next..self.next + rows];
            self.next += rows;
            let sent = Instant::now();
            transaction(&self.connection, &mut upsert, now, &mut self.revision)?;
            latencies.record(sent.elapsed());
        }
        Ok(Sample::new(latencies, began.elapsed()))
    }
}

fn prepare(connection: &Connection) -> anyhow::Result<Statement<'_>> {
    let sql = upsert(|n| format!("?{n}"), ON_CONFLICT, |column| format!("excluded.{column}"));
    Ok(connection.prepare(&sql)?)
}

fn transaction(
    connection: &Connection,
    upsert: &mut Statement<'_>,
    rows: &[Row],
    revision: &mut i64,
) -> anyhow::Result<()> {
    // A single statement is a transaction of its own.
    let framed = rows.len() > 1;
    if framed {
        connection.execute_batch("BEGIN IMMEDIATE")?;
    }
    let nothing = None::<&str>;
    for Row { id, name, node, value } in rows {
        *revision += 1;
        let now = *revision;
        upsert
            .execute(params![id, name, node, value, now, now, nothing, false, false, now, -1, -1, nothing])?;
    }
    if framed {
        connection.execute_batch("COMMIT")?;
    }
    Ok(())
}
