//! The reports of the slots for the heartbeats.
//!
//! A heartbeat carries only the changes since the last one that was answered. A change that somebody waits for
//! (a slot is gone, a new version works) asks for a heartbeat at once; everything else waits for the next one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use estimand_api::names::DataName;
use estimand_api::slot::Status;
use estimand_runtime::Rounds;
use tokio::sync::Notify;

#[derive(Debug, Default)]
pub struct Board {
    inner: Mutex<Inner>,
    urgent: Rounds,
    confirming: Notify,
}

#[derive(Debug, Default)]
struct Inner {
    /// Each status with the number of the change that made it.
    statuses: BTreeMap<DataName, (Status, u64)>,
    changes: u64,
    applied: u64,
    stopping: BTreeSet<DataName>,
}

/// The part of a heartbeat about the slots.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    pub statuses: Vec<Status>,
    pub applied: u64,
    pub stopping: Vec<DataName>,
    /// To be given to the next report once this one was answered.
    pub upto: u64,
}

impl Board {
    /// Puts a status in place of the one before; whether it is another one.
    pub fn post(&self, status: &Status) -> bool {
        let mut inner = self.lock();
        if inner.statuses.get(&status.data_name).is_some_and(|(known, _)| known == status) {
            return false;
        }
        inner.changes += 1;
        let change = inner.changes;
        inner.statuses.insert(status.data_name.clone(), (status.clone(), change));
        true
    }

    pub fn remove(&self, name: &DataName) {
        self.lock().statuses.remove(name);
    }

    /// The slots follow this revision, but for the processes of these, which are not gone yet.
    pub fn applied(&self, revision: u64, stopping: BTreeSet<DataName>) {
        let mut inner = self.lock();
        if inner.applied != revision || inner.stopping != stopping {
            (inner.applied, inner.stopping) = (revision, stopping);
            drop(inner);
            self.urgent.ask();
        }
    }

    /// Asks for a heartbeat at once.
    pub fn hurry(&self) {
        self.urgent.ask();
    }

    /// Asks the slots to say at once that they follow the next state, since a lease waits for that.
    pub fn confirm_soon(&self) {
        self.confirming.notify_one();
    }

    /// Waits until the slots are asked to.
    pub async fn confirming(&self) {
        self.confirming.notified().await;
    }

    /// The heartbeats that are asked for at once.
    pub fn urgent(&self) -> &Rounds {
        &self.urgent
    }

    /// The changes since the report of that number; everything without one.
    pub fn report(&self, since: Option<u64>) -> Report {
        let inner = self.lock();
        let changed = inner.statuses.values().filter(|(_, change)| since.is_none_or(|since| *change > since));
        Report {
            statuses: changed.map(|(status, _)| status.clone()).collect(),
            applied: inner.applied,
            stopping: inner.stopping.iter().cloned().collect(),
            upto: inner.changes,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_report_has_what_changed_since_the_one_that_was_answered() {
        let board = Board::default();
        let mut a = Status::new(DataName::parse("a").unwrap(), 1);
        let b = Status::new(DataName::parse("b").unwrap(), 1);
        assert!(board.post(&a) && board.post(&b) && !board.post(&a));
        let first = board.report(None);
        assert_eq!(first.statuses, [a.clone(), b.clone()]);
        assert_eq!(board.report(Some(first.upto)).statuses, []);
        a.runs = 1;
        assert!(board.post(&a));
        assert_eq!(board.report(Some(first.upto)).statuses, std::slice::from_ref(&a));
        board.remove(&a.data_name);
        assert_eq!(board.report(None).statuses, [b]);
    }

    /// A slot that waits for its calendar changes once and then not for years.
    #[test]
    fn the_first_change_ever_is_reported_after_an_empty_report() {
        let board = Board::default();
        let empty = board.report(None);
        assert_eq!(empty.statuses, []);
        let status = Status::new(DataName::parse("a").unwrap(), 1);
        assert!(board.post(&status));
        assert_eq!(board.report(Some(empty.upto)).statuses, [status]);
    }
}
