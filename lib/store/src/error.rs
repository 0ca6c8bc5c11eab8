//! Errors, told apart by the caller's knowledge afterwards.
//!
//! The distinction that matters is whether a transaction may have taken effect. It is not read from
//! texts, which databases translate: a transaction was refused if its rollback was acknowledged (or, on
//! SQLite, if it was never committed), and in every other case its outcome is unknown. Texts only decide
//! how certain refusals are named.

use diesel::result::{DatabaseErrorKind, Error as Diesel};
use tokio_postgres::error::SqlState;

use crate::ballast;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The store URL can't be used; the text names the mistake and a right form.
    #[error("store URL: {0}")]
    Url(String),
    /// The connection broke or timed out, and is closed. The transaction that was under way may have taken
    /// effect or not.
    #[error("{doing}: the database connection is lost: {cause}")]
    Connection { doing: &'static str, cause: String },
    /// It cannot be opened, and that does not heal by itself: a wrong password, an unknown database, a missing right, a
    /// certificate that is not trusted.
    #[error("{doing}: {cause}")]
    Denied { doing: &'static str, cause: String },
    /// Another process has claimed this owner, or taken over in this role. Nothing took effect, and nothing
    /// will under this claim or leadership.
    #[error("{owner} was claimed by another process: epoch {epoch} is over")]
    Fenced { owner: String, epoch: i64 },
    /// The database refused. Nothing took effect; the same request is likely to be refused again.
    #[error("{doing}: the database refused: {cause}")]
    Refused { doing: &'static str, cause: String },
    /// Something was in the way, such as another transaction or a full disk. Nothing took effect; the same
    /// request may well succeed later.
    #[error("{doing}: busy: {cause}")]
    Busy { doing: &'static str, cause: String },
    /// A row of the journal is not as it was written.
    #[error(
        "row {sequence} of t_journal is damaged: {cause}; restore a backup of the store, or do without the writes of this \
         row: DELETE FROM t_journal WHERE sequence = {sequence}"
    )]
    Damaged { sequence: i64, cause: String },
}

impl Error {
    /// The reason of a broken connection by itself, for a sentence that says the rest; otherwise all of it.
    pub fn reason(&self) -> String {
        match self {
            Error::Connection { cause, .. } => cause.clone(),
            other => other.to_string(),
        }
    }

    /// True if there was no room on the disk.
    pub fn is_full_disk(&self) -> bool {
        matches!(self, Error::Busy { cause, .. } if is_full(cause) || cause == ballast::FULL)
    }
}

/// Why the body of a transaction failed.
#[derive(Debug)]
pub(crate) enum Failure {
    Database(Diesel),
    Fenced { owner: String, epoch: i64 },
}

impl From<Diesel> for Failure {
    fn from(error: Diesel) -> Self {
        Self::Database(error)
    }
}

impl Failure {
    /// The error for a failure that certainly had no effect.
    pub(crate) fn without_effect(self, doing: &'static str) -> Error {
        match self {
            Self::Fenced { owner, epoch } => Error::Fenced { owner, epoch },
            Self::Database(error) => {
                let cause = error.to_string();
                match name(&error) {
                    // Another server of this cluster may be the one that writes: look again.
                    Name::ReadOnly => Error::Connection { doing, cause },
                    Name::Conflict | Name::Waited | Name::Full => Error::Busy { doing, cause },
                    Name::Other => Error::Refused { doing, cause },
                }
            }
        }
    }

    /// True if there was no room on the disk.
    pub(crate) fn is_full(&self) -> bool {
        matches!(self, Self::Database(error) if name(error) == Name::Full)
    }

    /// True if the database chose this transaction as the victim of a conflict, so that trying again at
    /// once is right.
    pub(crate) fn is_conflict(&self) -> bool {
        matches!(self, Self::Database(error) if name(error) == Name::Conflict)
    }
}

pub(crate) fn lost(doing: &'static str, cause: &Diesel) -> Error {
    Error::Connection { doing, cause: cause.to_string() }
}

/// True if SQLite failed to read or write its file. At a COMMIT, the content of the file is then unknown
/// until it is opened again.
pub(crate) fn is_sqlite_io(error: &Diesel) -> bool {
    matches!(error, Diesel::DatabaseError(_, information) if information.message() == "disk I/O error")
}

#[derive(Debug, PartialEq)]
enum Name {
    ReadOnly,
    Conflict,
    Waited,
    /// The disk is full, and may have room later.
    Full,
    Other,
}

const CONFLICTS: &[&str] = &[
    // PostgreSQL 40P01, MySQL 1213, MariaDB 1020.
    "deadlock detected",
    "Deadlock found when trying to get lock",
    "Record has changed since last read",
];
const WAITED: &[&str] = &[
    // SQLITE_BUSY, SQLITE_LOCKED, PostgreSQL 55P03, MySQL 1205.
    "database is locked",
    "database table is locked",
    "canceling statement due to lock timeout",
    "Lock wait timeout exceeded",
];
/// SQLITE_FULL, PostgreSQL 53100, MariaDB 1021 and 1114.
const FULL: &[&str] =
    &["database or disk is full", "No space left on device", "Disk full", "Disk got full", "' is full"];
/// True if that is said of a disk without room.
pub(crate) fn is_full(text: &str) -> bool {
    FULL.iter().any(|full| text.contains(full))
}

/// MySQL 1290, of a server that follows another one.
const READ_ONLY: &[&str] = &["running with the --read-only", "running with the --super-read-only"];

fn name(error: &Diesel) -> Name {
    let Diesel::DatabaseError(kind, information) = error else { return Name::Other };
    let says = |texts: &[&str]| texts.iter().any(|text| information.message().contains(text));
    match kind {
        DatabaseErrorKind::ReadOnlyTransaction => Name::ReadOnly,
        DatabaseErrorKind::SerializationFailure => Name::Conflict,
        DatabaseErrorKind::Unknown if says(CONFLICTS) => Name::Conflict,
        DatabaseErrorKind::Unknown if says(WAITED) => Name::Waited,
        DatabaseErrorKind::Unknown if says(FULL) => Name::Full,
        DatabaseErrorKind::Unknown if says(READ_ONLY) => Name::ReadOnly,
        _ => Name::Other,
    }
}

/// The reason why a server was not reached.
pub(crate) struct Cause {
    text: String,
    /// A person has to act before another attempt can succeed.
    is_lasting: bool,
}

/// MySQL's and MariaDB's refusals of a user, a host, a database or a connection without TLS.
const DENIED_BY_MYSQL: [u16; 9] = [1044, 1045, 1049, 1130, 1142, 1227, 1251, 1698, 3159];

impl Cause {
    pub(crate) fn passing(text: String) -> Self {
        Cause { text, is_lasting: false }
    }

    pub(crate) fn lasting(text: String) -> Self {
        Cause { text, is_lasting: true }
    }

    pub(crate) fn of_postgres(error: &tokio_postgres::Error) -> Self {
        let text = explain(error);
        // Class 28 is about who may connect.
        let denied = |state: &SqlState| {
            state.code().starts_with("28")
                || [SqlState::INVALID_CATALOG_NAME, SqlState::INSUFFICIENT_PRIVILEGE].contains(state)
        };
        let is_unsaid = error.code().is_none()
            && ["invalid configuration", "authentication error", "server does not support TLS"]
                .iter()
                .any(|kind| text.contains(kind));
        let is_lasting = error.code().is_some_and(denied) || is_unsaid || is_about_trust(error);
        Cause { text, is_lasting }
    }

    pub(crate) fn of_mysql(error: &mysql_async::Error) -> Self {
        let is_lasting = match error {
            mysql_async::Error::Server(said) => DENIED_BY_MYSQL.contains(&said.code),
            mysql_async::Error::Driver(mysql_async::DriverError::NoClientSslFlagFromServer) => true,
            other => is_about_trust(other),
        };
        Cause { text: explain(error), is_lasting }
    }

    pub(crate) fn error(self, doing: &'static str) -> Error {
        match self.is_lasting {
            true => Error::Denied { doing, cause: self.text },
            false => Error::Connection { doing, cause: self.text },
        }
    }
}

/// True if the server's certificate, or how it speaks TLS, is the reason.
fn is_about_trust(error: &(dyn std::error::Error + 'static)) -> bool {
    if error.is::<rustls::Error>() {
        return true;
    }
    // An I/O error passes over the error that it wraps when asked for its cause.
    let wrapped = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
    wrapped.is_some_and(|inner| is_about_trust(inner)) || error.source().is_some_and(is_about_trust)
}

/// The text of an error with its causes: the drivers keep the actual one innermost.
pub(crate) fn explain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text.push_str(": ");
            text.push_str(&inner_text);
        }
        cause = inner.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(kind: DatabaseErrorKind, text: &str) -> Name {
        name(&Diesel::DatabaseError(kind, Box::new(text.to_owned())))
    }

    #[test]
    fn certain_refusals_are_named_by_what_the_caller_should_do() {
        use DatabaseErrorKind::{ReadOnlyTransaction, SerializationFailure, UniqueViolation, Unknown};
        for (kind, text, expected) in [
            (Unknown, "database is locked", Name::Waited),
            (Unknown, "database table is locked: t_data", Name::Waited),
            (Unknown, "database or disk is full", Name::Full),
            (Unknown, "disk I/O error", Name::Other),
            (Unknown, "attempt to write a readonly database", Name::Other),
            (Unknown, "could not extend file \"base/1/2\": No space left on device", Name::Full),
            (Unknown, "deadlock detected", Name::Conflict),
            (SerializationFailure, "beliebiger Text", Name::Conflict),
            (ReadOnlyTransaction, "cannot execute UPDATE in a read-only transaction", Name::ReadOnly),
            (Unknown, "Deadlock found when trying to get lock; try restarting transaction", Name::Conflict),
            (Unknown, "Lock wait timeout exceeded; try restarting transaction", Name::Waited),
            (Unknown, "The table 't_data' is full", Name::Full),
            (
                Unknown,
                "The MariaDB server is running with the --read-only option so it cannot execute this",
                Name::ReadOnly,
            ),
            // A value that quotes such a text in a constraint's message must not change what is done.
            (UniqueViolation, "Duplicate entry 'deadlock detected' for key", Name::Other),
        ] {
            assert_eq!(named(kind, text), expected, "{text}");
        }
    }
}
