//! One version of a registration in its slot: what its runs share, and how it is ended.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};

use estimand_api::names::NodeName;
use estimand_api::registration;
use estimand_api::registration::{Mode, RegistrationRecord};
use estimand_api::slot::FAILING_AFTER;
use estimand_collectors::Collector;
use estimand_runtime::Stop;
use estimand_runtime::stop::{self, StopTrigger};
use tokio::sync::{Mutex, Notify, RwLock, RwLockReadGuard};

use crate::derive::is_derived;
use crate::timetable::Key;
use estimand_exec::{Cell, Launcher};

/// A collector, once the first run has made it.
pub type CollectorInstance = Option<Box<dyn Collector>>;

/// The common part of all runs of a version.
pub struct Shared {
    pub registered: Arc<RegistrationRecord>,
    /// Its command as an argument vector, split once.
    pub argv: Vec<String>,
    pub leased: bool,
    /// Names the place where its processes are held; its own among all that are open.
    place: String,
    /// The epoch of what it writes; a registration that moved away and came back has a later one.
    epoch: AtomicU64,
    /// Its processes are asked to end, and made to.
    gently: (StopTrigger, Stop),
    /// Its processes are ended at once.
    at_once: (StopTrigger, Stop),
    /// Where its processes are held; made with the first run. A run reads it as long as it lasts.
    cell: RwLock<Option<Cell>>,
    /// Asks a stream for a value, and a formula to look at the time.
    pub ask: Notify,
    /// The collector, if it is one inside the agent.
    pub collector: Arc<Mutex<CollectorInstance>>,
    /// True while an older version serves, whose values a failure of this one does not mark.
    quiet: AtomicBool,
    /// How often a formula was evaluated, and the nodes that it gave values for.
    rounds: AtomicU64,
    gave: std::sync::Mutex<BTreeSet<NodeName>>,
}

impl Shared {
    pub fn new(registered: Arc<RegistrationRecord>, epoch: u64, leased: bool, number: u64) -> Self {
        let place = format!("{}.{number}", registered.registration.data_name);
        Shared {
            place,
            argv: registered.registration.cmd.argv(),
            registered,
            leased,
            epoch: AtomicU64::new(epoch),
            gently: stop::pair(),
            at_once: stop::pair(),
            cell: RwLock::new(None),
            ask: Notify::new(),
            collector: Arc::default(),
            quiet: AtomicBool::new(false),
            rounds: AtomicU64::new(0),
            gave: std::sync::Mutex::default(),
        }
    }

    pub fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Relaxed)
    }

    pub fn set_epoch(&self, epoch: u64) {
        self.epoch.store(epoch, Ordering::Relaxed);
    }

    pub fn is_quiet(&self) -> bool {
        self.quiet.load(Ordering::Relaxed)
    }

    pub fn set_quiet(&self, quiet: bool) {
        self.quiet.store(quiet, Ordering::Relaxed);
    }

    /// The number of the next evaluation.
    pub fn count_run(&self) -> u64 {
        self.rounds.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Takes note of the nodes that it has given values for.
    pub fn gave(&self, nodes: &BTreeSet<NodeName>) {
        let mut gave = self.gave.lock().unwrap_or_else(PoisonError::into_inner);
        gave.extend(nodes.iter().cloned());
    }

    /// All nodes that it has given values for.
    pub fn gave_for(&self) -> BTreeSet<NodeName> {
        self.gave.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn end(&self, how: EndMode) {
        self.gently.0.request();
        if how == EndMode::AtOnce {
            self.at_once.0.request();
        }
    }

    /// Heard when its processes are to end, in whichever way.
    pub fn ends(&self) -> &Stop {
        &self.gently.1
    }

    /// Heard when they are to end at once.
    pub fn ends_at_once(&self) -> &Stop {
        &self.at_once.1
    }

    /// Where its processes are held, for as long as the run that asks keeps the guard.
    pub async fn cell(&self, launcher: &Launcher) -> RwLockReadGuard<'_, Option<Cell>> {
        let known = self.cell.read().await;
        if known.is_some() {
            return known;
        }
        drop(known);
        let mut place = self.cell.write().await;
        if place.is_none() {
            let registration::Limits { memory, cpu, processes, open_files, disk: _ } =
                self.registered.registration.limits;
            let limits = estimand_exec::Limits { memory, cpu, processes, open_files };
            *place = Some(launcher.open_cell(&self.place, &limits).await);
        }
        place.downgrade()
    }

    /// Ends whatever is left in it, and the place itself, once no run reads it any more.
    pub async fn close_cell(&self, launcher: &Launcher) {
        let cell = self.cell.write().await.take();
        if let Some(cell) = cell {
            launcher.close_cell(cell).await;
        }
    }

    /// The limits of the registration that are not enforced here.
    pub fn unenforced(&self) -> Vec<String> {
        let cell = self.cell.try_read();
        cell.ok().and_then(|cell| cell.as_ref().map(Cell::unenforced)).unwrap_or_default()
    }
}

/// How processes are ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndMode {
    /// They are asked to, and have a moment.
    Gently,
    AtOnce,
}

/// A version in a slot.
pub struct Version {
    pub key: Key,
    pub shared: Arc<Shared>,
    /// True while a process of it runs, or for a stream its supervisor.
    pub running: bool,
    /// Runs without a good one among them, counted from the last good one.
    pub failing: u64,
    /// Due times that it still leaves out, because it failed so often.
    pub breaks: u64,
    pub last_error: Option<String>,
}

impl Version {
    pub fn number(&self) -> u64 {
        self.shared.registered.version
    }

    /// True if it leaves out a due time. A version on trial that fails holds the slot while it runs, and the one that
    /// serves needs its time: so it is tried less and less often, down to every 32nd due time.
    pub fn takes_a_break(&mut self) -> bool {
        if self.breaks > 0 {
            self.breaks -= 1;
            return true;
        }
        let doublings = self.failing.saturating_sub(FAILING_AFTER - 1).min(5);
        self.breaks = (1 << doublings) - 1;
        false
    }

    /// True if it goes on by itself once it is started, and does not run and end.
    pub fn goes_on(&self) -> bool {
        self.is_stream() || is_derived(&self.shared.registered.registration)
    }

    /// True if it is a process that goes on.
    pub fn is_stream(&self) -> bool {
        self.shared.registered.registration.mode == Mode::Stream
    }
}
