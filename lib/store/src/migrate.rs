//! Brings the tables to the state that this program expects.
//!
//! Migrations are compiled in. Several processes may start at once: a lock of the database lets one do
//! the work, and the others then find it done. On SQLite and PostgreSQL a migration is applied whole or
//! not at all; MySQL commits each statement that changes tables, so there each can be repeated.

use std::error::Error as StdError;
use std::time::Duration;

use diesel::backend::Backend as Backing;
use diesel::connection::{Connection as _, SimpleConnection};
use diesel::migration::MigrationSource;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Nullable};
use diesel_migrations::{EmbeddedMigrations, MigrationHarness, embed_migrations};

use crate::backend::{Backend, SQLITE_BUSY_TIMEOUT};
use crate::driver::{MysqlWrapper, PgWrapper, STATEMENT_TIMEOUT};
use crate::error::is_full;
use crate::{Connection, Error};

const SQLITE: EmbeddedMigrations = embed_migrations!("migrations/sqlite");
const POSTGRES: EmbeddedMigrations = embed_migrations!("migrations/postgres");
const MYSQL: EmbeddedMigrations = embed_migrations!("migrations/mysql");

const DOING: &str = "preparing the tables";
/// A migration may rewrite a large table, and another process's migration is waited for.
const MIGRATION_TIMEOUT: Duration = Duration::from_secs(600);
const LOCK_WAIT_S: u32 = 300;
/// Shorter on SQLite, whose file any program may hold, which is to be told soon.
const SQLITE_MIGRATION_WAIT: Duration = Duration::from_secs(30);
/// Any number, as long as all processes use the same one.
const POSTGRES_LOCK: i64 = 0x0e57_1a4d;

type Outcome = Result<(), Box<dyn StdError + Send + Sync>>;

impl Connection {
    /// Nothing is left to do where the process has prepared the store.
    pub fn migrate(&mut self) -> Result<(), Error> {
        if self.is_prepared() {
            return Ok(());
        }
        self.special(DOING, |backend, driver| {
            if let Some(driver) = driver {
                driver.set_deadline(MIGRATION_TIMEOUT);
            }
            let outcome = match backend {
                Backend::Sqlite(connection) => sqlite(connection),
                Backend::Postgres(connection) => postgres(connection),
                Backend::Mysql(connection) => mysql(connection),
            };
            if let Some(driver) = driver {
                driver.set_deadline(STATEMENT_TIMEOUT);
            }
            outcome.map_err(|error| {
                let cause = error.to_string();
                let locked = backend.is_sqlite() && cause.contains("database is locked") || is_full(&cause);
                match backend.ping() {
                    _ if locked => Error::Busy { doing: DOING, cause },
                    Ok(()) => Error::Refused { doing: DOING, cause },
                    Err(_) => Error::Connection { doing: DOING, cause },
                }
            })
        })
    }
}

fn sqlite(connection: &mut SqliteConnection) -> Outcome {
    wait_for_others(connection, SQLITE_MIGRATION_WAIT)?;
    let outcome = connection.immediate_transaction(|connection| bring_up_to_date(connection, SQLITE));
    wait_for_others(connection, SQLITE_BUSY_TIMEOUT)?;
    outcome
}

fn wait_for_others(connection: &mut SqliteConnection, time: Duration) -> QueryResult<()> {
    connection.batch_execute(&format!("PRAGMA busy_timeout = {}", time.as_millis()))
}

/// Applies the missing migrations. A store with a migration that this program does not know is another program's: the
/// meaning of its tables is unknown here, so nothing of it is touched.
fn bring_up_to_date<DB: Backing, C: MigrationHarness<DB>>(
    connection: &mut C,
    known: EmbeddedMigrations,
) -> Outcome {
    let applied = connection.applied_migrations()?;
    let known_versions = MigrationSource::<DB>::migrations(&known)?;
    let known_versions: Vec<_> = known_versions.iter().map(|one| one.name().version().as_owned()).collect();
    if let Some(newer) = applied.iter().filter(|version| !known_versions.contains(version)).max() {
        return Err(format!(
            "it was used by a newer version of this program, which made its tables different (migration {newer}); \
             start that version, or use a copy of the store from before"
        )
        .into());
    }
    connection.run_pending_migrations(known).map(drop)
}

fn postgres(connection: &mut PgWrapper) -> Outcome {
    connection.transaction(|connection| {
        connection.batch_execute(&format!(
            "SET LOCAL lock_timeout = '{LOCK_WAIT_S}s'; SELECT pg_advisory_xact_lock({POSTGRES_LOCK});"
        ))?;
        bring_up_to_date(connection, POSTGRES)
    })
}

#[derive(QueryableByName)]
struct LockAnswer {
    #[diesel(sql_type = Nullable<BigInt>)]
    locked: Option<i64>,
}

fn mysql(connection: &mut MysqlWrapper) -> Outcome {
    // Such locks belong to the server, so the database is part of the name. The lock ends with the
    // connection at the latest.
    let name = "CONCAT('estimand.', MD5(DATABASE()))";
    let query = format!("SELECT CAST(GET_LOCK({name}, {LOCK_WAIT_S}) AS SIGNED) AS locked");
    let answer: LockAnswer = diesel::sql_query(query).get_result(connection)?;
    if answer.locked != Some(1) {
        return Err("another process holds the lock for migrations".into());
    }
    let outcome = bring_up_to_date(connection, MYSQL);
    connection.batch_execute(&format!("DO RELEASE_LOCK({name})"))?;
    outcome
}

#[cfg(test)]
#[path = "migrate_tests.rs"]
mod tests;
