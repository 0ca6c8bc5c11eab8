//! One connection to the store, and the ways in which work is run on it.
//!
//! All functions wait for the database, so they belong on plain threads, never on those of an
//! asynchronous runtime. A call that ends with [`Error::Connection`] closes the connection: its owner
//! opens another one. No call ever waits longer than its statements' deadlines.
//!
//! If such a call had sent its COMMIT, that may still take effect later. Writers are safe from it:
//! the first statement of each locks the owner's row, so a new attempt waits for the old one's end.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use diesel::result::QueryResult;

use crate::backend::{self, Backend};
use crate::ballast::{self, Ballast};
use crate::driver::{Driver, Unwound, caught};
use crate::error::{Failure, is_sqlite_io, lost};
use crate::preparation::Gate;
use crate::{Error, Halt, StoreUrl};

/// The victim of a deadlock is run again after these pauses, in which the winner can finish: without
/// one, both would meet again.
const PAUSES: [Duration; 4] = [
    Duration::from_millis(20),
    Duration::from_millis(80),
    Duration::from_millis(320),
    Duration::from_millis(1_280),
];

pub struct Connection {
    live: Option<Box<Live>>,
    gate: Option<Arc<Gate>>,
}

struct Live {
    backend: Backend,
    driver: Option<Driver>,
    /// Of a SQLite file.
    ballast: Option<Ballast>,
}

impl Connection {
    pub fn open(url: &StoreUrl) -> Result<Self, Error> {
        Self::open_until(url, &Halt::default())
    }

    /// The same, but gives up at once when `halt` is requested, also while a name server or a server does not
    /// answer. From then on no statement takes longer than a moment.
    pub fn open_until(url: &StoreUrl, halt: &Halt) -> Result<Self, Error> {
        let gate = url.gate.clone();
        if let Some(gate) = &gate {
            gate.pass(halt)?;
        }
        match caught(|| backend::open(url, halt)) {
            Ok(opened) => {
                let (backend, driver) = opened?;
                let ballast = url.file().map(Ballast::of);
                Ok(Self { live: Some(Box::new(Live { backend, driver, ballast })), gate })
            }
            Err(unwound) => Err(lost_or_panic("opening the store", unwound)),
        }
    }

    /// True if the tables were made before this connection was opened.
    pub(crate) fn is_prepared(&self) -> bool {
        self.gate.is_some()
    }

    /// True if an earlier [`Error::Connection`] closed the connection.
    pub fn is_closed(&self) -> bool {
        self.live.is_none()
    }

    /// Asks the database for any answer.
    pub fn ping(&mut self) -> Result<(), Error> {
        self.read("asking for an answer", Backend::ping)
    }

    /// Commits do not copy SQLite's log into the database from now on, as long as another connection does.
    pub fn leave_log(&mut self) -> Result<(), Error> {
        self.read("leaving the log to others", Backend::leave_log)
    }

    /// Copies SQLite's log into the database, as far as it was written when this begins.
    pub fn copy_log(&mut self) -> Result<(), Error> {
        self.read("copying the log", |backend| {
            backend.copy_log();
            Ok(())
        })
    }

    /// Runs statements that change nothing.
    pub(crate) fn read<T>(
        &mut self,
        doing: &'static str,
        body: impl FnOnce(&mut Backend) -> QueryResult<T>,
    ) -> Result<T, Error> {
        self.guarded(doing, |live| {
            let backend = &mut live.backend;
            body(backend).map_err(|error| match backend.ping() {
                Ok(()) => Failure::from(error).without_effect(doing),
                Err(_) => lost(doing, &error),
            })
        })
    }

    /// Runs one transaction, again if it was the victim of a deadlock.
    pub(crate) fn write<T>(
        &mut self,
        doing: &'static str,
        body: impl Fn(&mut Backend) -> Result<T, Failure>,
    ) -> Result<T, Error> {
        self.guarded(doing, |live| {
            if live.ballast.as_mut().is_some_and(|ballast| !ballast.allows_additions()) {
                return Err(Error::Busy { doing, cause: ballast::FULL.to_owned() });
            }
            let outcome = transaction(&mut live.backend, doing, &body)?;
            outcome.map_err(|failure| failure.without_effect(doing))
        })
    }

    /// The same for a transaction that must not fail because the disk is full: one that only removes, or that removals
    /// need. It adds little or nothing.
    pub(crate) fn write_on_full_disk<T>(
        &mut self,
        doing: &'static str,
        body: impl Fn(&mut Backend) -> Result<T, Failure>,
    ) -> Result<T, Error> {
        self.guarded(doing, |live| {
            let Live { backend, ballast, .. } = live;
            let outcome = match (transaction(backend, doing, &body)?, ballast) {
                (Err(failure), Some(ballast)) if failure.is_full() => {
                    with_ballast(backend, ballast, doing, &body)?
                }
                (outcome, _) => outcome,
            };
            outcome.map_err(|failure| failure.without_effect(doing))
        })
    }

    /// Runs `work` on the backend and its driver, with deadlines of its own.
    pub(crate) fn special<T>(
        &mut self,
        doing: &'static str,
        work: impl FnOnce(&mut Backend, Option<&Driver>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.guarded(doing, |live| work(&mut live.backend, live.driver.as_ref()))
    }

    /// The only place where work meets the connection, which is put back only if nothing about it is doubtful.
    fn guarded<T>(
        &mut self,
        doing: &'static str,
        work: impl FnOnce(&mut Live) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let Some(mut live) = self.live.take() else {
            let cause = "it was closed after an earlier failure".to_owned();
            return Err(Error::Connection { doing, cause });
        };
        match caught(|| work(&mut live)) {
            Ok(Err(error @ Error::Connection { .. })) => {
                live.close(false);
                Err(error)
            }
            Ok(result) => {
                self.live = Some(live);
                result
            }
            Err(unwound) => {
                live.close(false);
                Err(lost_or_panic(doing, unwound))
            }
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if let Some(live) = self.live.take() {
            live.close(true);
        }
    }
}

impl Live {
    fn close(self, in_order: bool) {
        match self.driver {
            Some(driver) => driver.close(self.backend, in_order),
            None => drop(self.backend),
        }
    }
}

/// One transaction, again if it was the victim of a deadlock.
fn transaction<T>(
    backend: &mut Backend,
    doing: &'static str,
    body: impl Fn(&mut Backend) -> Result<T, Failure>,
) -> Result<Result<T, Failure>, Error> {
    for pause in PAUSES {
        match attempt(backend, doing, &body)? {
            Err(failure) if failure.is_conflict() => {
                thread::sleep(pause.mul_f64(0.5 + fastrand::f64() / 2.0));
            }
            outcome => return Ok(outcome),
        }
    }
    attempt(backend, doing, &body)
}

/// A transaction for which the disk had no room: in the room that the log has already, or else in that of the ballast.
fn with_ballast<T>(
    backend: &mut Backend,
    ballast: &Ballast,
    doing: &'static str,
    body: impl Fn(&mut Backend) -> Result<T, Failure>,
) -> Result<Result<T, Failure>, Error> {
    backend.copy_log();
    match transaction(backend, doing, &body)? {
        Err(failure) if failure.is_full() => {}
        outcome => return Ok(outcome),
    }
    ballast.give_back();
    backend.copy_log();
    let outcome = transaction(backend, doing, &body);
    ballast.take_back();
    outcome
}

/// One attempt. The outer error means that its outcome is unknown, or that it can't be begun; the
/// inner one, that it was rolled back.
fn attempt<T>(
    backend: &mut Backend,
    doing: &'static str,
    body: impl Fn(&mut Backend) -> Result<T, Failure>,
) -> Result<Result<T, Failure>, Error> {
    let local = backend.is_sqlite();
    if let Err(error) = backend.begin() {
        return if local { Ok(Err(error.into())) } else { Err(lost(doing, &error)) };
    }
    let committed = body(backend)
        .map_err(|failure| (failure, false))
        .and_then(|value| backend.commit().map(|()| value).map_err(|error| (Failure::from(error), true)));
    let (failure, in_commit) = match committed {
        Ok(value) => return Ok(Ok(value)),
        Err(failed) => failed,
    };
    let rolled_back = backend.rollback();
    match (&failure, rolled_back) {
        (Failure::Database(error), _) if in_commit && (!local || is_sqlite_io(error)) => {
            Err(lost(doing, error))
        }
        (_, Ok(())) => Ok(Err(failure)),
        // SQLite has rolled back by itself when there is nothing left to roll back.
        (_, Err(error)) if local && error.to_string().contains("no transaction is active") => {
            Ok(Err(failure))
        }
        (Failure::Database(error), Err(_)) => Err(lost(doing, error)),
        (Failure::Fenced { .. }, Err(error)) => Err(lost(doing, &error)),
    }
}

fn lost_or_panic(doing: &'static str, unwound: Unwound) -> Error {
    match unwound {
        Unwound::TimedOut(deadline) => {
            Error::Connection { doing, cause: format!("no answer within {deadline:?}") }
        }
        Unwound::Panicked(payload) => std::panic::resume_unwind(payload),
    }
}

#[cfg(test)]
#[path = "breakage_tests.rs"]
mod tests;
