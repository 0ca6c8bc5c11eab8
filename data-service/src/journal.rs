//! The journal beside the writer: how far `t_data` is behind, and the loop that brings it up to date.
//!
//! A commit adds to the journal in the order in which groups arrive; a fold goes through `t_data` in the order of keys, on
//! a connection of its own. It may stop anywhere: the next one begins again with the oldest change that is left.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use estimand_runtime::{Loop, Next, PartReady, Readiness, Rounds, Stop, Tasks, Work};
use estimand_store::{Connection, Error, StoreUrl, Worker};

use crate::core::backlog::{Backlog, JournaledGroup};
use crate::storage::FoldRight;

/// How often the loop looks, although nobody asks it to.
const LOOK_EVERY: Duration = Duration::from_secs(1);
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));
/// Folds that have failed for so long are a reason not to be ready: `t_data` falls behind, and writers will have to wait.
const UNREADY_AFTER: Duration = Duration::from_secs(30);
/// The longest pause after a transaction of a fold, in which others get SQLite's lock.
const MAX_PAUSE: Duration = Duration::from_millis(100);
/// The log is copied when it may be that long.
const MAX_LOG_PAGES: usize = 4_000;
/// Of SQLite.
const PAGE_BYTES: usize = 4_096;

/// The state that writer and folder share.
pub struct Journal {
    backlog: Mutex<Backlog>,
    /// Heard of when the backlog has become smaller.
    folded: Condvar,
    rounds: Rounds,
    /// Set when everything is loaded.
    right: OnceLock<FoldRight>,
    /// The last fold found no room on the disk. Then writers do not wait for it: what adds is refused by the disk as
    /// well, and what removes may make room.
    is_disk_full: AtomicBool,
    /// Pages of SQLite's log that were not copied yet, if each change is in a page of its own.
    log_pages: AtomicUsize,
    ready: PartReady,
    stop: Stop,
}

impl Journal {
    /// Starts the folder among those tasks. It has nothing to do until the journal is loaded.
    pub fn start(store: StoreUrl, fold_age: Duration, tasks: &Tasks, readiness: &Readiness) -> Arc<Self> {
        let ready = readiness.part("journal");
        ready.not_ready("not loaded yet");
        let journal = Arc::new(Journal {
            backlog: Mutex::new(Backlog::new(fold_age)),
            folded: Condvar::new(),
            rounds: Rounds::new(),
            right: OnceLock::new(),
            is_disk_full: AtomicBool::new(false),
            log_pages: AtomicUsize::new(0),
            ready,
            stop: tasks.stop(),
        });
        let folder =
            Loop { name: "fold", activity: "folding the journal", every: LOOK_EVERY, pauses: PAUSES };
        folder.spawn(
            tasks,
            &journal,
            |journal| &journal.rounds,
            move |journal| Folder::new(journal, store.clone()),
        );
        journal
    }

    /// The journal is loaded, with that in it.
    pub fn loaded(&self, found: JournaledGroup, right: FoldRight) {
        self.backlog().add(found);
        // It is loaded once.
        let _ = self.right.set(right);
        self.ready.ready();
        self.rounds.ask();
    }

    /// A group was added.
    pub fn added(&self, group: JournaledGroup) {
        let mut backlog = self.backlog();
        let was_worth_a_fold = backlog.is_worth_a_fold();
        backlog.add(group);
        if backlog.is_worth_a_fold() && !was_worth_a_fold {
            drop(backlog);
            self.rounds.ask();
        }
    }

    /// Waits at most so long while the backlog is full; true if it is no reason to wait any more.
    pub fn wait_for_room(&self, at_most: Duration) -> bool {
        let has_to_wait =
            |backlog: &mut Backlog| backlog.is_full() && !self.is_disk_full.load(Ordering::Acquire);
        let waited = self.folded.wait_timeout_while(self.backlog(), at_most, has_to_wait);
        let (mut backlog, _) = waited.unwrap_or_else(PoisonError::into_inner);
        !has_to_wait(&mut backlog)
    }

    pub fn backlog(&self) -> MutexGuard<'_, Backlog> {
        self.backlog.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The log has become longer by at most so many pages. It is copied in the main while others write, and its end, which
    /// came meanwhile, in a turn: a log that is copied to its end is begun anew.
    fn grow_log(&self, pages: usize, connection: &mut Connection, right: &FoldRight) -> Result<(), Error> {
        let grown = self.log_pages.fetch_add(pages, Ordering::Relaxed) + pages;
        if right.takes_turns() && grown >= MAX_LOG_PAGES {
            self.log_pages.store(0, Ordering::Relaxed);
            connection.copy_log()?;
            let _turn = right.turn();
            connection.copy_log()?;
        }
        Ok(())
    }

    /// One fold: of the oldest changes, as many as are read at once.
    fn fold(&self, connection: &mut Connection, right: &FoldRight) -> Result<(), Error> {
        connection.leave_log()?;
        let read_at = Instant::now();
        let page = connection.read_journal()?;
        let mut fold = page.fold()?;
        while !fold.is_done() {
            if self.stop.is_requested() {
                return Ok(());
            }
            let began = Instant::now();
            let turn = right.turn();
            let stored = connection.fold_piece(right.claim(), &mut fold)?;
            drop(turn);
            self.grow_log(stored, connection, right)?;
            if right.takes_turns() && !self.backlog().is_half_full() {
                std::thread::sleep(began.elapsed().min(MAX_PAUSE));
            }
        }
        self.backlog().fold(read_at, page.complete_up_to().map(i64::unsigned_abs));
        self.folded.notify_all();
        self.grow_log(page.bytes() / PAGE_BYTES, connection, right)
    }
}

/// The loop's work.
struct Folder {
    journal: Arc<Journal>,
    /// Only here: its thread has the journal too, and cannot wait for its own end.
    connection: Worker,
    failing_since: Option<Instant>,
}

impl Folder {
    fn new(journal: Arc<Journal>, store: StoreUrl) -> Self {
        Folder { journal, connection: Worker::start(store, "folder"), failing_since: None }
    }

    fn note(&mut self, outcome: &Result<(), Error>) {
        let is_disk_full = outcome.as_ref().is_err_and(Error::is_full_disk);
        self.journal.is_disk_full.store(is_disk_full, Ordering::Release);
        if is_disk_full {
            self.journal.folded.notify_all();
        }
        match outcome {
            Ok(()) => {
                self.failing_since = None;
                self.journal.ready.ready();
            }
            Err(cause) => {
                let since = *self.failing_since.get_or_insert_with(Instant::now);
                if since.elapsed() >= UNREADY_AFTER {
                    self.journal.ready.not_ready(format_args!(
                        "values are stored, but t_data falls behind, and writers will have to wait: {cause}"
                    ));
                }
            }
        }
    }
}

impl Work for Folder {
    type Error = Error;

    async fn round(&mut self) -> Result<Next, Error> {
        let Some(due) = self.journal.backlog().due() else { return Ok(Next::Period) };
        let Some(right) = self.journal.right.get().cloned() else { return Ok(Next::Period) };
        if due > Instant::now() {
            return Ok(Next::At(due.into()));
        }
        let journal = Arc::clone(&self.journal);
        let outcome = self.connection.run(move |connection| journal.fold(connection, &right)).await;
        self.note(&outcome);
        outcome?;
        let due = self.journal.backlog().due();
        Ok(due.map_or(Next::Period, |due| Next::At(due.into())))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
#[path = "journal_tests.rs"]
mod tests;
