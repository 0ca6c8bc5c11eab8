//! The one thread that changes the state of the data service.
//!
//! It takes all operations that have arrived, applies them to a clone of the published snapshot, stores the
//! result in one transaction, publishes it, and answers. When the journal is full it waits for the folder. While a transaction runs the next group gathers by
//! itself; there is no lingering. When the connection breaks during a commit it is unknown whether the
//! transaction took effect: the same operations are then applied and stored again until the database says,
//! and since nothing else was stored meanwhile, the second time has the effect that the first would have had.
//! When the database refuses a group it was rolled back, and its callers are told.
//!
//! Values that expire are marked between groups, without the database: a reader sees `stale` in time also
//! while the database is away.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use estimand_api::names::DataName;
use estimand_runtime::{BackOff, Clock};
use estimand_store::Halt;

use crate::core::alarms::Alarms;
use crate::core::entry::Entry;
use crate::core::epochs::GivenEpochs;
use crate::core::group::{Group, Retention};
use crate::core::log::{Change, Log};
use crate::core::snapshot::Snapshot;
use crate::core::value_cell::ValueCell;
use crate::figures::Figures;
use crate::http::problems::TAKEN_OVER;
use crate::journal::Journal;
use crate::queue::{Empty, Inbox, Job, SubmitError};
use crate::storage::{Storage, StoreFailure};

/// The most operations and bytes that are stored at once.
const MAX_GROUP: usize = 4_096;
const MAX_GROUP_BYTES: usize = 16 * 1024 * 1024;
/// How many values are marked stale in one go.
const MAX_DUE: usize = 10_000;
/// How long the thread sleeps at most before it looks around.
const IDLE: Duration = Duration::from_millis(200);
/// How often histories are cut to the part that is to be kept.
const PRUNE_EVERY: Duration = Duration::from_secs(5);
/// How long a broken database is waited for between two attempts.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// The state that readers see.
#[derive(Debug)]
pub struct PublishedState {
    /// Says when everything is loaded.
    pub loaded: tokio::sync::watch::Sender<bool>,
    /// None until everything is loaded.
    pub snapshot: ArcSwapOption<Snapshot>,
    pub retention: ArcSwapOption<Retention>,
    pub log: ArcSwapOption<Log>,
    pub epochs: ArcSwapOption<GivenEpochs>,
}

/// The thread's belongings.
pub struct Writer {
    pub inbox: Inbox,
    pub published: Arc<PublishedState>,
    pub log: Arc<Log>,
    pub storage: Storage,
    pub journal: Arc<Journal>,
    pub clock: Arc<dyn Clock>,
    pub figures: Arc<Figures>,
    pub halt: Halt,
    pub alarms: Alarms,
    /// Older snapshots that may still be held.
    pub held: VecDeque<(u64, Weak<Snapshot>)>,
    /// Cells that hold entries from before a revision.
    pub outdated: VecDeque<(u64, Arc<ValueCell>)>,
    /// The revision that is stored.
    pub stored_revision: u64,
    /// Names whose history has grown since it was last cut.
    pub grown: BTreeSet<DataName>,
    pub pruned_at: Instant,
}

/// The service cannot go on.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Fatal(pub String);

impl Writer {
    /// Works until the service stops and everything that was accepted is answered.
    pub fn run(mut self) -> Result<(), Fatal> {
        loop {
            self.expire();
            self.prune();
            // Accepted writes are stored also when the folder has ended first.
            if !self.journal.wait_for_room(self.nap()) && !self.stopping() {
                continue;
            }
            match self.inbox.wait(self.nap()) {
                Ok(job) => {
                    let jobs = self.gather(job);
                    self.store(jobs)?;
                }
                Err(Empty::Now) if !self.stopping() => {}
                Err(_) => return Ok(()),
            }
        }
    }

    fn stopping(&self) -> bool {
        self.halt.is_requested()
    }

    /// Until the next value expires, or for a little while.
    fn nap(&self) -> Duration {
        let Some(at) = self.alarms.next() else { return IDLE };
        Duration::from_micros((at - self.clock.now_micros()).max(0) as u64).min(IDLE)
    }

    /// Takes the other operations that have arrived.
    fn gather(&self, first: Box<dyn Job>) -> Vec<Box<dyn Job>> {
        let mut bytes = first.bytes();
        let mut jobs = vec![first];
        while jobs.len() < MAX_GROUP
            && bytes < MAX_GROUP_BYTES
            && let Ok(job) = self.inbox.next()
        {
            bytes += job.bytes();
            jobs.push(job);
        }
        jobs
    }

    fn snapshot(&self) -> Arc<Snapshot> {
        self.published.snapshot.load_full().unwrap_or_default()
    }

    /// Applies and stores a group until its fate is known, and answers.
    fn store(&mut self, mut jobs: Vec<Box<dyn Job>>) -> Result<(), Fatal> {
        let retention = self.published.retention.load_full().unwrap_or_default();
        // The same for each attempt: what one has stored another one must not leave out.
        let epochs = self.published.epochs.load_full().unwrap_or_default();
        let mut unknown_from = None;
        let mut pauses = BackOff::new(FIRST_PAUSE, MAX_PAUSE);
        loop {
            let snapshot = self.snapshot();
            let base = snapshot.revision;
            let mut group = Group::under(&snapshot, epochs.clone(), self.clock.now_micros());
            drop(snapshot);
            jobs.iter_mut().for_each(|job| job.apply(&mut group, &retention));
            if group.is_empty() && unknown_from.is_none() {
                self.figures.superseded.add(group.superseded);
                jobs.into_iter().for_each(|job| job.answer());
                return Ok(());
            }
            let began = Instant::now();
            match self.storage.commit(&group, unknown_from) {
                Ok(journaled) => {
                    self.journal.added(journaled);
                    self.figures.commit(began.elapsed(), group.changes.len());
                    self.figures.superseded.add(group.superseded);
                    self.stored_revision = group.next.revision;
                    self.publish(group);
                    jobs.into_iter().for_each(|job| job.answer());
                    return Ok(());
                }
                Err(StoreFailure::Fenced) => {
                    fail(jobs, &SubmitError::TakenOver { is_known: unknown_from.is_none() });
                    return Err(Fatal(TAKEN_OVER.to_owned()));
                }
                // After an attempt of unknown outcome a refusal settles nothing: that one may be stored.
                Err(StoreFailure::Refused(cause)) if unknown_from.is_none() => {
                    self.figures.refused.add(1);
                    tracing::error!(%cause, writes = jobs.len(), "the database refused a group of writes");
                    jobs = refuse(jobs);
                    continue;
                }
                Err(StoreFailure::Unknown(cause) | StoreFailure::Refused(cause)) => {
                    self.figures.broken.add(1);
                    tracing::warn!(%cause, writes = jobs.len(), "the database broke off; storing the same writes again");
                    unknown_from = unknown_from.or(Some(base + 1));
                    if self.stopping() {
                        return Ok(());
                    }
                }
            }
            std::thread::sleep(pauses.pause());
            self.expire();
        }
    }

    /// Makes a group visible, to readers first and then to watchers.
    fn publish(&mut self, mut group: Group) {
        let cells = group.settle();
        let Group { next, changes, retention, past, .. } = group;
        let revision = next.revision;
        if let Some(old) = self.published.snapshot.swap(Some(Arc::new(next))) {
            self.held.push_back((old.revision, Arc::downgrade(&old)));
        }
        self.outdated.extend(cells.into_iter().map(|cell| (revision, cell)));
        self.forget(revision);
        self.log.append(&changes);
        for change in &changes {
            if let Change::Put(entry) = change {
                self.alarms.set(entry);
            }
        }
        if let Some(retention) = retention {
            self.grown.extend(retention.keys().cloned());
            self.published.retention.store(Some(Arc::new(retention)));
        }
        self.grown.extend(past.iter().map(|entry| entry.facts.name.clone()));
    }

    /// Drops entries that only released snapshots show.
    fn forget(&mut self, published: u64) {
        self.held.retain(|(_, snapshot)| snapshot.strong_count() > 0);
        let oldest = self.held.front().map_or(published, |(revision, _)| *revision);
        while self.outdated.front().is_some_and(|(since, _)| *since <= oldest) {
            if let Some((_, cell)) = self.outdated.pop_front() {
                cell.forget(oldest);
            }
        }
    }

    /// Marks the values that have expired.
    fn expire(&mut self) {
        let now = self.clock.now_micros();
        let snapshot = self.snapshot();
        self.alarms.look(now, self.clock.steady_micros(), &snapshot);
        drop(snapshot);
        while self.alarms.next().is_some_and(|at| at <= now) {
            let snapshot = self.snapshot();
            let due: Vec<Entry> = self.alarms.due(now, &snapshot, MAX_DUE);
            if due.is_empty() {
                continue;
            }
            let mut group = Group::new(&snapshot, now);
            drop(snapshot);
            due.iter().for_each(|entry| group.expire(entry));
            if group.next.revision > self.stored_revision + self.storage.headroom() / 2
                && self.storage.keep_revision(group.next.revision).is_ok()
            {
                self.stored_revision = group.next.revision;
            }
            self.publish(group);
        }
    }

    /// Cuts the histories that have grown, now and then.
    fn prune(&mut self) {
        if self.pruned_at.elapsed() < PRUNE_EVERY {
            return;
        }
        self.pruned_at = Instant::now();
        let retention = self.published.retention.load_full().unwrap_or_default();
        let snapshot = self.snapshot();
        let now = self.clock.now_micros();
        for name in std::mem::take(&mut self.grown) {
            let Some(history) = retention.get(&name) else { continue };
            if let Err(cause) = self.storage.prune(&name, history, now, &snapshot) {
                tracing::warn!(%cause, %name, "could not cut a history; trying again later");
            }
            // A history that is bounded by age shrinks also when nothing is added to it.
            if history.keep.is_some() {
                self.grown.insert(name);
            }
        }
    }
}

/// Refuses a group, and gives back what only removes if that was not alone: a full disk may have refused the rest.
fn refuse(jobs: Vec<Box<dyn Job>>) -> Vec<Box<dyn Job>> {
    let (removals, others): (Vec<_>, Vec<_>) = jobs.into_iter().partition(|job| job.only_removes());
    if others.is_empty() {
        fail(removals, &SubmitError::Refused);
        return Vec::new();
    }
    fail(others, &SubmitError::Refused);
    removals
}

fn fail(jobs: Vec<Box<dyn Job>>, error: &SubmitError) {
    jobs.into_iter().for_each(|job| job.fail(error.clone()));
}
