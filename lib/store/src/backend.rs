//! The three kinds of connection, and the differences between them: opening, and transactions.
//!
//! A query is written once, inside [`on!`], and compiled once per connection type. Later code relies on the
//! settings that are made here on opening: durable commits, statements that end, text that is refused rather
//! than cut off.

use std::fs;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel::result::QueryResult;
use diesel::sql_types::Text;

use crate::ballast::Ballast;
use crate::driver::{Driver, MysqlWrapper, PgWrapper};
use crate::error::{Cause, Failure, is_full, is_sqlite_io};
use crate::url::Target;
use crate::{Error, Halt, StoreUrl, tls, unwritten};

/// The owner of a connection keeps this in a box.
#[allow(clippy::large_enum_variant)]
pub(crate) enum Backend {
    Sqlite(SqliteConnection),
    Postgres(PgWrapper),
    Mysql(MysqlWrapper),
}

/// Expands the same query once for each type of connection.
macro_rules! on {
    ($backend:expr, $connection:ident => $body:expr) => {
        match $backend {
            $crate::backend::Backend::Sqlite($connection) => $body,
            $crate::backend::Backend::Postgres($connection) => $body,
            $crate::backend::Backend::Mysql($connection) => $body,
        }
    };
}
pub(crate) use on;

const OPENING: &str = "opening the store";
/// How long SQLite waits for another process's transaction.
pub(crate) const SQLITE_BUSY_TIMEOUT: Duration = Duration::from_secs(5);
const SQLITE_WAL_RETRY_DELAY: Duration = Duration::from_millis(20);

/// Durable at each commit. The log may grow to 4,000 pages (16 MiB) before it is copied into the
/// database: fewer and larger copies serve random keys better.
const SQLITE_SETTINGS: &str = "PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; \
     PRAGMA temp_store = MEMORY; PRAGMA wal_autocheckpoint = 4000; PRAGMA journal_size_limit = 67108864;";

/// Random keys are served by a large cache. A scan comes to each page once, so a cache of many would only take memory.
const CACHING: &str = "PRAGMA cache_size = -65536;";
const SCANNING: &str = "PRAGMA cache_size = -2048;";

/// Pages that a process finds in the log need not be on disk: when a sync fails, the kernel treats pages that it
/// could not write as written, and shows them to the next reader of the log. Commits that come to lie behind such a
/// gap are lost with it at a power cut. So nothing is added to a log that another process wrote: it goes into the
/// database first, which writes all of it anew. If another connection is in the way, that one has done so, and
/// nothing happens.
const EMPTY_THE_LOG: &str = "PRAGMA wal_checkpoint(TRUNCATE);";
/// A log that another connection copies is copied here only if it is far longer than that one lets it become.
const LEAVE_THE_LOG: &str = "PRAGMA wal_autocheckpoint = 16000;";
/// Copies the log as far as readers allow. If that is all of it, the next writer begins at its beginning again, where there
/// is room.
const COPY_THE_LOG: &str = "PRAGMA wal_checkpoint(PASSIVE);";

/// A wait for a lock ends before our own deadline does, so that it ends with a certain outcome.
const POSTGRES_SETTINGS: &str = "SET lock_timeout = '5s'; SET idle_in_transaction_session_timeout = '5s'; \
     SET default_transaction_isolation = 'read committed';";

/// Strict, whatever the server's default: text that is too long must be refused, not cut off.
const MYSQL_SETTINGS: &str = "SET SESSION autocommit = 1, \
     SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', \
     SESSION innodb_lock_wait_timeout = 5, SESSION wait_timeout = 2147483; \
     SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED;";

/// Opens a store; the connection to a server comes with its driver.
pub(crate) fn open(url: &StoreUrl, halt: &Halt) -> Result<(Backend, Option<Driver>), Error> {
    let mut halts = vec![halt.clone()];
    halts.extend(url.gate.iter().map(|gate| gate.halt().clone()));
    match &url.target {
        Target::Sqlite(path) => Ok((Backend::Sqlite(open_sqlite(path)?), None)),
        Target::Postgres { config, trust } => {
            trust.as_ref().map_or(Ok(()), tls::Trust::check)?;
            open_server(halts, |driver| {
                let mut connection = driver.postgres(config, trust.as_ref(), halt)?;
                connection
                    .batch_execute(POSTGRES_SETTINGS)
                    .map_err(|error| Cause::passing(error.to_string()))?;
                Ok(Backend::Postgres(connection))
            })
        }
        Target::Mysql { opts, trust } => {
            tls::install_provider();
            trust.as_ref().map_or(Ok(()), tls::Trust::check)?;
            open_server(halts, |driver| {
                let mut connection = driver.mysql(opts, halt)?;
                connection
                    .batch_execute(MYSQL_SETTINGS)
                    .map_err(|error| Cause::passing(error.to_string()))?;
                Ok(Backend::Mysql(connection))
            })
        }
    }
}

fn open_server(
    halts: Vec<Halt>,
    connect: impl FnOnce(&Driver) -> Result<Backend, Cause>,
) -> Result<(Backend, Option<Driver>), Error> {
    let driver = Driver::start(halts)
        .map_err(|error| Error::Connection { doing: OPENING, cause: error.to_string() })?;
    match connect(&driver) {
        Ok(backend) => Ok((backend, Some(driver))),
        Err(cause) => {
            driver.close((), false);
            Err(cause.error(OPENING))
        }
    }
}

#[derive(QueryableByName)]
struct JournalMode {
    #[diesel(sql_type = Text)]
    journal_mode: String,
}

fn open_sqlite(path: &Path) -> Result<SqliteConnection, Error> {
    let refused =
        |cause: String| Error::Refused { doing: OPENING, cause: format!("{}: {cause}", path.display()) };
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        fs::create_dir_all(folder).map_err(|error| refused(error.to_string()))?;
    }
    // The file holds secrets, and its journals get its permissions. If it cannot be made, SQLite says why.
    let _ = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let name = path.to_str().ok_or_else(|| refused("the path is not UTF-8".to_owned()))?;
    // SQLite and diesel give meaning to some beginnings, none of which is "/" or "./".
    let name = if path.is_absolute() { name.to_owned() } else { format!("./{name}") };
    unwritten::before_opening(path);
    let mut connection = SqliteConnection::establish(&name).map_err(|error| refused(error.to_string()))?;
    with_ballast(path, || prepare_sqlite(&mut connection))
        .map_err(|error| Failure::from(error).without_effect(OPENING))
        .and_then(|mode| match mode.as_str() {
            "wal" => Ok(()),
            other => Err(refused(format!(
                "its journal can only be {other:?}, which readers would wait for; a file on a local disk would be right"
            ))),
        })?;
    Ok(connection)
}

/// Runs `prepare`, on a full disk once more with the ballast's room: the log's index and what the log has more than the
/// database need some, and without them nothing could be removed after a start.
fn with_ballast<T>(path: &Path, mut prepare: impl FnMut() -> QueryResult<T>) -> QueryResult<T> {
    let prepared = prepare();
    // For the index SQLite says no more than that it cannot be written.
    if !prepared.as_ref().is_err_and(|error| is_full(&error.to_string()) || is_sqlite_io(error)) {
        return prepared;
    }
    let ballast = Ballast::of(path);
    ballast.give_back();
    let prepared = prepare();
    ballast.take_back();
    prepared
}

/// The journal's mode, once all is set and the log is empty.
fn prepare_sqlite(connection: &mut SqliteConnection) -> QueryResult<String> {
    connection.batch_execute(&format!("PRAGMA busy_timeout = {};", SQLITE_BUSY_TIMEOUT.as_millis()))?;
    let mode = use_write_ahead_log(connection)?;
    connection.batch_execute(&format!("{SQLITE_SETTINGS} {CACHING}"))?;
    connection.batch_execute(EMPTY_THE_LOG)?;
    Ok(mode)
}

/// Two processes that switch a new file over at once get an error without any wait, whatever the
/// timeout; so the wait is here.
fn use_write_ahead_log(connection: &mut SqliteConnection) -> QueryResult<String> {
    let give_up = Instant::now() + SQLITE_BUSY_TIMEOUT;
    loop {
        let answer = diesel::sql_query("PRAGMA journal_mode = WAL").get_result::<JournalMode>(connection);
        match answer {
            Err(error) if error.to_string().contains("locked") && Instant::now() < give_up => {
                std::thread::sleep(SQLITE_WAL_RETRY_DELAY);
            }
            other => return other.map(|answer| answer.journal_mode),
        }
    }
}

impl Backend {
    pub(crate) fn is_sqlite(&self) -> bool {
        matches!(self, Self::Sqlite(_))
    }

    /// SQLite takes the write lock at once: taken later, it could not be waited for.
    pub(crate) fn begin(&mut self) -> QueryResult<()> {
        match self {
            Self::Sqlite(connection) => connection.batch_execute("BEGIN IMMEDIATE"),
            Self::Postgres(connection) => connection.batch_execute("BEGIN"),
            Self::Mysql(connection) => connection.batch_execute("BEGIN"),
        }
    }

    pub(crate) fn commit(&mut self) -> QueryResult<()> {
        on!(self, connection => connection.batch_execute("COMMIT"))
    }

    pub(crate) fn rollback(&mut self) -> QueryResult<()> {
        on!(self, connection => connection.batch_execute("ROLLBACK"))
    }

    /// Makes room in SQLite's log, if that can be done. If not, the next statement shows why.
    pub(crate) fn copy_log(&mut self) {
        if let Self::Sqlite(connection) = self {
            let _ = connection.batch_execute(COPY_THE_LOG);
        }
    }

    pub(crate) fn leave_log(&mut self) -> QueryResult<()> {
        self.set_of_sqlite(LEAVE_THE_LOG)
    }

    /// Prepares for reading a large table from its beginning to its end.
    pub(crate) fn begin_scan(&mut self) -> QueryResult<()> {
        self.set_of_sqlite(SCANNING)
    }

    pub(crate) fn end_scan(&mut self) -> QueryResult<()> {
        self.set_of_sqlite(CACHING)
    }

    fn set_of_sqlite(&mut self, settings: &str) -> QueryResult<()> {
        match self {
            Self::Sqlite(connection) => connection.batch_execute(settings),
            Self::Postgres(_) | Self::Mysql(_) => Ok(()),
        }
    }

    /// Asks for any answer.
    pub(crate) fn ping(&mut self) -> QueryResult<()> {
        on!(self, connection => connection.batch_execute("SELECT 1"))
    }
}
