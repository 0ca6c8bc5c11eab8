//! The slots of this node: one task owns them all, follows the desired state, starts runs that are due, and keeps the
//! statuses. Runs are tasks of their own, which hand their values to the outbox themselves.
//!
//! Invariants: a slot never runs twice at once; a new version's first good run comes before the old one
//! ends; what is no longer desired is told to end at once, and is reported as stopping until its processes are
//! gone; what runs under a lease has ended before the lease does; what was confirmed to the manager is on disk.

mod attempt;
mod builtin;
mod by_hand;
mod changes;
mod computed;
mod denial;
mod disk;
mod exec;
mod explanation;
mod formula;
mod lines;
mod plan;
mod run_once;
mod slot;
mod starts;
mod stream;
mod stream_events;
mod unsupported;
mod verdict;
mod version;
mod writes;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use estimand_api::names::{DataName, NodeName};
use estimand_api::node::{Assignment, DesiredState};
use estimand_api::slot::{FAILING_AFTER, RunOutcome, RunReport, SlotActivity};
use estimand_collectors::Bounds;
use estimand_runtime::{Clock, Stop};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use crate::LEASE_MARGIN;
use crate::allow_env::AllowEnv;
use crate::board::Board;
use crate::deliver::{Outbox, Refusal, Sequencer, Setback};
use crate::derive::Derive;
use crate::home::Home;
use crate::link::SlotCommand;
use crate::program::Programs;
use crate::reserve::Reserve;
use crate::timetable::{Key, Now, Timetable};
use crate::uploads::Uploads;
use crate::user::RunAs;
use estimand_exec::{Capabilities, Launcher, Privileges};

use slot::Slot;

pub use exec::{Outcome, RunResult};
pub use stream_events::StreamEvent;
use version::EndMode;

/// How often statuses are looked at although nothing has happened.
const LOOK_EVERY: Duration = Duration::from_secs(1);
const MAX_STREAM_EVENTS: usize = 256;

/// The surroundings of all runs.
pub struct Context {
    pub launcher: Launcher,
    pub programs: Arc<Programs>,
    pub allow_env: AllowEnv,
    /// The files that built-in collectors may read, and the addresses that they may reach.
    pub bounds: Bounds,
    /// The rights to files that they have, if not those of this process.
    pub file_rights: Option<Privileges>,
    pub uploads: Arc<Uploads>,
    /// As whom things run, if not as the agent's own user.
    pub run_as: Option<RunAs>,
    /// True if things run as root, and cannot do all that root can.
    pub drops_root: bool,
    /// The capabilities that the agent has and its runs have not.
    pub lacking: Capabilities,
    pub node: NodeName,
    pub home: Arc<Home>,
    /// The space without which no run begins.
    pub reserve: Reserve,
    pub outbox: Arc<Outbox>,
    pub sequencer: Sequencer,
    pub derive: Derive,
    /// Where values are read.
    pub server: watch::Receiver<String>,
    /// Until when leased slots may run.
    pub lease: watch::Receiver<Option<Instant>>,
    /// The plane's.
    pub clock: Arc<dyn Clock>,
    /// This machine's, which its programs look at.
    pub machine_clock: Arc<dyn Clock>,
}

impl Context {
    /// The advice for a run that wrote this to its standard error, if it was denied something for want of a capability.
    pub fn denial_advice(&self, stderr: &[u8]) -> Option<String> {
        let identity = match &self.run_as {
            Some(run_as) => format!("as the user `{run_as}`, without capabilities"),
            None => "without the agent's capabilities".to_owned(),
        };
        denial::advice(stderr, self.lacking, &identity)
    }

    /// When leased slots must be ended.
    pub fn lease_end(&self) -> Option<Instant> {
        self.lease.borrow().map(|until| until.checked_sub(LEASE_MARGIN).unwrap_or(until))
    }
}

/// The end of a run by hand, for the manager.
pub type HandReport = (u64, RunOutcome);

/// Everything the task owns.
pub struct Slots {
    context: Arc<Context>,
    board: Arc<Board>,
    lease: watch::Receiver<Option<Instant>>,
    reports: mpsc::Sender<HandReport>,
    setbacks: mpsc::Receiver<Setback>,
    timetable: Timetable,
    slots: BTreeMap<DataName, Slot>,
    by_key: HashMap<Key, DataName>,
    desired: Vec<Assignment>,
    /// Of the desired state; what is on disk may be one behind.
    revision: u64,
    kept: u64,
    /// The state to keep on disk next; `keeping` while one is being written.
    to_keep: Option<DesiredState>,
    keeping: bool,
    /// It is wanted on disk at once, and not only soon.
    keep_at_once: bool,
    kept_at: Option<Instant>,
    /// True once the manager has sent it since this start: only then leased slots may run.
    heard: bool,
    /// True if leased slots were allowed to run when the desired state was last applied.
    leased: bool,
    next_key: u64,
    started: Instant,
    work: JoinSet<TaskResult>,
    streams: (mpsc::Sender<StreamEvent>, mpsc::Receiver<StreamEvent>),
}

/// The result of a task of a slot.
enum TaskResult {
    Ran { key: Key, ended: RunResult, waited_us: u64 },
    StreamOver { key: Key },
    Closed { key: Key },
    ByHand { name: DataName, id: u64, report: RunReport },
    Kept { revision: u64 },
}

impl Slots {
    pub fn new(
        context: Context,
        board: Arc<Board>,
        lease: watch::Receiver<Option<Instant>>,
        reports: mpsc::Sender<HandReport>,
        setbacks: mpsc::Receiver<Setback>,
        (turns, long_turns): (usize, usize),
    ) -> Self {
        Slots {
            context: Arc::new(context),
            board,
            lease,
            reports,
            setbacks,
            timetable: Timetable::new(turns, long_turns),
            slots: BTreeMap::new(),
            by_key: HashMap::new(),
            desired: Vec::new(),
            revision: 0,
            kept: 0,
            to_keep: None,
            keeping: false,
            keep_at_once: false,
            kept_at: None,
            heard: false,
            leased: false,
            next_key: 0,
            started: Instant::now(),
            work: JoinSet::new(),
            streams: mpsc::channel(MAX_STREAM_EVENTS),
        }
    }

    /// Runs until it is stopped; when it returns nothing of it runs any more.
    pub async fn run(&mut self, commands: &mut mpsc::Receiver<SlotCommand>, stop: &Stop) {
        let mut look_at = Instant::now() + LOOK_EVERY;
        let board = Arc::clone(&self.board);
        while !stop.is_requested() {
            self.check_lease();
            self.start_due();
            let wake = self.next_wake().min(look_at);
            tokio::select! {
                () = stop.requested() => break,
                Some(command) = commands.recv() => self.command(command),
                Some(done) = self.work.join_next() => self.joined(done),
                Some(event) = self.streams.1.recv() => self.stream_said(event),
                Some(setback) = self.setbacks.recv() => self.set_back(&setback),
                Ok(()) = self.lease.changed() => self.extend_leases(),
                () = board.confirming() => {
                    self.keep_at_once = true;
                    self.keep();
                }
                () = sleep_until(wake) => {}
            }
            self.take_what_is_there();
            if Instant::now() >= look_at {
                look_at = Instant::now() + LOOK_EVERY;
                self.post_all();
                self.keep();
            }
        }
        self.end_all().await;
    }

    /// Takes everything else that has happened meanwhile, so that many ends are followed by one look at the timetable.
    fn take_what_is_there(&mut self) {
        while let Some(done) = self.work.try_join_next() {
            self.joined(done);
        }
        while let Ok(event) = self.streams.1.try_recv() {
            self.stream_said(event);
        }
    }

    fn now(&self) -> Now {
        let mono = self.started.elapsed().as_micros();
        Now { mono_us: u64::try_from(mono).unwrap_or(u64::MAX), wall_us: self.context.clock.now_micros() }
    }

    /// When there is something to do although nothing happens.
    fn next_wake(&mut self) -> Instant {
        let due = self.timetable.next_wake(self.now()).map(|us| self.started + Duration::from_micros(us));
        let lease_ends = self.leased.then(|| self.context.lease_end()).flatten();
        let far = Instant::now() + Duration::from_secs(60);
        due.into_iter().chain(lease_ends).min().unwrap_or(far).min(far)
    }

    fn check_lease(&mut self) {
        let held = self.heard && self.context.lease_end().is_some_and(|end| Instant::now() < end);
        if held != self.leased {
            if !held {
                tracing::warn!(
                    "no heartbeat was answered in time: what may run once in the cluster ends here"
                );
            }
            self.leased = held;
            self.apply();
        }
    }

    /// Also the launcher ends leased runs by itself, should this process be stopped.
    fn extend_leases(&self) {
        if let Some(end) = self.context.lease_end() {
            self.context.launcher.extend_leases(end.into_std());
        }
    }

    fn joined(&mut self, done: Result<TaskResult, tokio::task::JoinError>) {
        match done {
            Ok(TaskResult::Ran { key, ended, waited_us }) => self.ran(key, &ended, waited_us),
            Ok(TaskResult::StreamOver { key }) => self.over(key),
            Ok(TaskResult::Closed { key }) => self.closed(key),
            Ok(TaskResult::ByHand { name, id, report }) => self.ran_by_hand(&name, id, report),
            Ok(TaskResult::Kept { revision }) => {
                (self.kept, self.keeping) = (self.kept.max(revision), false);
                self.kept_at = Some(Instant::now());
                self.keep();
                self.confirm();
            }
            Err(error) => tracing::error!(%error, "a run's task failed"),
        }
    }

    fn ran(&mut self, key: Key, ended: &RunResult, waited_us: u64) {
        let now = self.now();
        self.timetable.ended(key, now);
        let Some(name) = self.by_key.get(&key).cloned() else { return };
        let Some(slot) = self.slots.get_mut(&name) else { return };
        let closing = slot.closing.iter().any(|version| version.key == key);
        if let Some(version) = slot.version_mut(key) {
            version.running = false;
        }
        if closing {
            self.close_cell(key);
        } else if ended.outcome != Outcome::Stopped {
            let before = (slot.status.failing, slot.status.version);
            let proved = slot.record(key, ended);
            slot.status.last_wait_ms = Some(waited_us as f64 / 1e3);
            slot.status.doing = match ended.outcome {
                Outcome::Refused(_) => SlotActivity::Refused,
                Outcome::NotHere(_) => SlotActivity::Unavailable,
                _ => SlotActivity::Idle,
            };
            let news = proved || before.0 != slot.status.failing && slot.status.failing <= FAILING_AFTER;
            if proved {
                self.proved(&name);
            }
            self.post(&name, news);
        }
        self.free(&name);
    }

    /// The version on trial has had a good run: it serves, and the old one ends.
    fn proved(&mut self, name: &DataName) {
        let Some(slot) = self.slots.get_mut(name) else { return };
        let old = slot.close(slot::VersionRole::Serving, EndMode::Gently);
        slot.promote();
        if let Some(key) = old {
            self.end_version(key);
        }
    }

    /// The slot's turn is free: what waits for it comes next.
    fn free(&mut self, name: &DataName) {
        let now = self.now();
        let Some(slot) = self.slots.get_mut(name) else { return };
        if slot.is_busy() {
            return;
        }
        if slot.by_hand.is_empty() {
            for key in std::mem::take(&mut slot.postponed) {
                self.timetable.run_soon(key, now);
            }
        } else {
            self.next_by_hand(name);
        }
    }

    fn set_back(&mut self, setback: &Setback) {
        match setback {
            Setback::Refused(refusal) => self.refused(refusal),
            Setback::Older(name) => {
                let Some(slot) = self.slots.get_mut(name) else { return };
                slot.status.superseded += 1;
                let news = slot.status.superseded == 1;
                self.post(name, news);
            }
        }
    }

    /// The data service did not take what a run gave, which is no better than giving nothing.
    fn refused(&mut self, refusal: &Refusal) {
        let Some(slot) = self.slots.get_mut(&refusal.data_name) else { return };
        let reason = format!("the data service does not take its value: {}", refusal.reason);
        (slot.status.last_error, slot.refused) = (Some(reason.clone()), Some(reason));
        slot.status.failures += 1;
        let news = slot.status.failing == 0;
        self.post(&refusal.data_name, news);
    }

    /// Tells how a slot is; with news somebody may wait for it.
    fn post(&mut self, name: &DataName, news: bool) {
        let (leased_out, now) = (!self.leased, self.now());
        let Some(slot) = self.slots.get_mut(name).filter(|slot| !slot.is_by_hand_only()) else { return };
        let timetable = &self.timetable;
        slot.look(|key| timetable.view(key, now).map(|view| (view.state, view.overruns)), leased_out);
        if self.board.post(&slot.status) && news {
            self.board.hurry();
        }
    }

    fn post_all(&mut self) {
        let names: Vec<DataName> = self.slots.keys().cloned().collect();
        for name in names {
            self.post(&name, false);
        }
    }
}
