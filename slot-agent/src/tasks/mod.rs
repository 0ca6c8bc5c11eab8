//! The tasks of this node: what is assigned is accepted, given to a keeper each, watched, and told to the task service.
//!
//! The agent starts no task itself. A *keeper* ([`keeper`]), a process for each attempt that runs, does, and outlives the
//! agent; all that they tell each other is in the attempt's folder ([`folder`]). So an agent that is started anew finds
//! everything there, and loops do the rest: [`keeping`] makes the folders and keepers ([`pool`]) follow what is
//! assigned, [`telling`] brings stages and logs to the task service, [`carrying`] fetches inputs and stores outputs,
//! [`tunneling`] makes connections to their ports. They
//! look at everything each second, and at an attempt as soon as its keeper has news of it.
//!
//! Invariants: an attempt is begun at most once; that it was accepted is on disk before it is begun; an end is told after its
//! log and its outputs, and never taken back; what is no longer assigned has ended before its folder goes; a leased task has ended when the
//! lease has, whether or not this agent lives.

mod attempt;
#[cfg(test)]
mod before_tests;
mod carrying;
mod folder;
mod keeper;
mod keeping;
mod lease;
mod leftovers;
mod log;
mod order;
mod pipe;
mod pool;
mod promise_end;
mod record;
mod stop_order;
mod telling;
mod tunneling;
mod work_folder;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use estimand_api::task::TaskAssignment;
use estimand_exec::{Capabilities, CgroupMode};
use estimand_runtime::files::{write_atomically, write_whole};
use estimand_runtime::{Clock, Rounds, Stop};
use tokio::net::unix::pipe::{OpenOptions, Receiver};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until};

use crate::reserve::Reserve;
use crate::runners::{Runner, Runners};
use attempt::{Attempt, Mark, Progress};
use folder::{Accepted, AttemptFolder};
use keeper::{Hearing, NewsKind};
use lease::{LeaseLength, Leases};

pub use carrying::{ClientAt, client_options as file_client_options};
pub use keeper::keep_tasks;
pub use lease::boot_clock;
pub use order::{TaskDefaults, Terms};

/// How many attempts that are gone are remembered, so that a late word of a former manager does not bring one back.
const MAX_FORMER: usize = 4096;

/// The surroundings of all tasks of a node.
pub struct TaskOptions {
    /// The folder of all attempts.
    pub folder: PathBuf,
    /// Names the agent.
    pub agent: String,
    pub terms: Terms,
    /// The space without which no task begins.
    pub reserve: Reserve,
    /// The most that the inputs of a task may have, and so its outputs.
    pub max_file_bytes: u64,
    /// The users of this machine as whom they run.
    pub runners: Runners,
    /// The capabilities of the agent that they keep.
    pub keep: Capabilities,
    pub cgroups: CgroupMode,
    /// How a launcher is started,
    pub launcher: (PathBuf, Vec<OsString>),
    /// and how a keeper is, but for the path that names it.
    pub keeper: (PathBuf, Vec<OsString>),
    /// The limit of open files that a process has here.
    pub open_files: Option<u64>,
    /// Where values are read.
    pub server: watch::Receiver<String>,
    pub clock: Arc<dyn Clock>,
}

impl TaskOptions {
    /// The user of this machine as whom a task runs, or why it does not run here.
    fn runner(&self, assignment: &TaskAssignment) -> Result<Option<Runner>, String> {
        let has_image = assignment.work.supported().is_ok_and(|work| work.image.is_some());
        self.runners.of(assignment.user.as_deref(), has_image)
    }
}

/// The tasks of a node.
pub struct Tasks {
    options: TaskOptions,
    leases: Leases,
    /// None until a manager has said it since this start.
    assigned: Mutex<Option<Arc<Assigned>>>,
    attempts: Mutex<BTreeMap<String, Arc<Attempt>>>,
    former: Mutex<BTreeSet<String>>,
    /// Where their news go.
    task_server: watch::Sender<Option<String>>,
    keeping: Rounds,
    telling: Rounds,
    carrying: Rounds,
    tunneling: Rounds,
    /// The attempts of which keepers had news since they were looked at last,
    to_keep: Mutex<BTreeSet<String>>,
    /// and since they were told of.
    to_tell: Mutex<BTreeSet<String>>,
    /// Something is to be told soon, though not at once.
    soon: Notify,
    /// Keepers write into it when there is something to look at.
    news: Mutex<Option<Receiver>>,
}

/// All tasks that belong on this node.
#[derive(Debug, Clone)]
struct Assigned {
    tasks: Vec<TaskAssignment>,
    /// When the task service said so, by [`boot_clock`].
    at: u64,
    /// When the manager was asked for them, by [`boot_clock`]. Under a lease that began later they may belong elsewhere.
    asked_at: u64,
}

impl Tasks {
    /// Finds the attempts that the agent before this one had. Blocking; within a runtime.
    pub fn open(options: TaskOptions) -> io::Result<Self> {
        let news = options.folder.join(NEWS_PIPE);
        pipe::make_pipe(&news)?;
        let news = OpenOptions::new().read_write(true).open_receiver(&news)?;
        let former_boot = former_boot(&options.folder, options.clock.now_micros())?;
        pool::clear_pipes(&options.folder)?;
        let mut attempts = BTreeMap::new();
        for folder in AttemptFolder::all(&options.folder)? {
            match folder.accepted() {
                Ok(Some(accepted)) => {
                    let runner = options.runner(&accepted.assignment);
                    attempts.insert(folder.name(), Arc::new(Attempt::found(folder, accepted).run_by(runner)));
                }
                // The agent died before it had accepted it.
                Ok(None) => drop(folder.remove()?),
                Err(error) => {
                    let folder = folder.path().display();
                    tracing::error!(%folder, %error, "the folder of a task cannot be read; it is left as it is");
                }
            }
        }
        if former_boot {
            write_atomically(&options.folder.join(BOOT_FILE), lease::boot_id().as_bytes(), 0o600)?;
        }
        if !attempts.is_empty() {
            // The agent before this one may have died before it had brought them to the disk.
            File::open(&options.folder)?.sync_all()?;
            tracing::info!(tasks = attempts.len(), "finds the tasks that were here before");
        }
        let leases = Leases::open(options.folder.clone(), &lease_lengths(&attempts))?;
        Ok(Tasks {
            leases,
            options,
            assigned: Mutex::default(),
            attempts: Mutex::new(attempts),
            former: Mutex::default(),
            task_server: watch::Sender::new(None),
            keeping: Rounds::new(),
            telling: Rounds::new(),
            carrying: Rounds::new(),
            tunneling: Rounds::new(),
            to_keep: Mutex::default(),
            to_tell: Mutex::default(),
            soon: Notify::new(),
            news: Mutex::new(Some(news)),
        })
    }

    /// All tasks that belong here now, as a manager said that was asked then, by [`boot_clock`], and had heard it so long ago,
    /// and where their news go.
    pub fn follow(&self, tasks: Vec<TaskAssignment>, age: Duration, asked_at: u64, task_server: String) {
        let at = boot_clock().saturating_sub(nanos(age));
        self.task_server.send_if_modified(|known| {
            let new = Some(task_server);
            let is_new = std::mem::replace(known, new.clone()) != new;
            if is_new {
                self.telling.ask();
                self.tunneling.ask();
            }
            is_new
        });
        *lock(&self.assigned) = Some(Arc::new(Assigned { tasks, at, asked_at }));
        self.keeping.ask();
        if self.has_files() {
            self.carrying.ask();
        }
    }

    /// A heartbeat that was sent then, by [`boot_clock`], was answered with this lease of slots. Blocking, though not for long.
    pub fn extend_leases(&self, sent: u64, of_slots: Duration) {
        self.leases.grant(sent, of_slots);
        if let Err(error) = self.leases.publish(&self.lease_lengths()) {
            tracing::warn!(%error, "a lease of the tasks here cannot be renewed");
        }
    }

    /// The number of the slots' lease, each time that another one begins.
    pub fn leases(&self) -> watch::Receiver<u64> {
        self.leases.begun()
    }

    /// There is no lease any more: what is leased ends. Blocking, though not for long.
    pub fn end_leases(&self) {
        self.leases.end();
        if let Err(error) = self.leases.publish(&self.lease_lengths()) {
            tracing::warn!(%error, "a lease of the tasks here cannot be ended; they end when it does");
        }
        for attempt in self.attempts().iter().filter(|attempt| attempt.accepted.assignment.leased) {
            attempt.folder.wake();
        }
    }

    /// The lengths of leases that tasks here have.
    fn lease_lengths(&self) -> BTreeSet<LeaseLength> {
        lease_lengths(&lock(&self.attempts))
    }

    /// Hears of the keepers.
    pub async fn listen(&self, stop: &Stop) {
        let news = lock(&self.news).take();
        let Some(news) = news else { return };
        let (mut words, mut hearing, mut tell_at) = (vec![0; 16 << 10], Hearing::default(), None);
        loop {
            tokio::select! {
                () = stop.requested() => break,
                _ = news.readable() => {
                    let Ok(count) = news.try_read(&mut words) else { continue };
                    if self.hear(hearing.take(&words[..count])) {
                        tell_at = None;
                        self.telling.ask();
                    } else {
                        tell_at.get_or_insert_with(|| Instant::now() + TELL_SOON);
                    }
                }
                () = self.soon.notified() => {
                    tell_at.get_or_insert_with(|| Instant::now() + TELL_SOON);
                }
                () = at(tell_at) => {
                    tell_at = None;
                    self.telling.ask();
                }
            }
        }
        *lock(&self.news) = Some(news);
    }

    /// Notes what is to be looked at; true if it is to be told at once.
    fn hear(&self, words: Vec<(NewsKind, String)>) -> bool {
        let at_once = words.iter().any(|(heard, _)| *heard != NewsKind::Stage);
        if words.iter().any(|(heard, _)| *heard != NewsKind::Lines) {
            let of_stages = words.iter().filter(|(heard, _)| *heard != NewsKind::Lines);
            lock(&self.to_keep).extend(of_stages.map(|(_, name)| name.clone()));
            self.keeping.ask();
            if self.has_files() {
                self.carrying.ask();
            }
        }
        lock(&self.to_tell).extend(words.into_iter().map(|(_, name)| name));
        at_once
    }

    /// There is something to be told of this attempt.
    fn tell_soon(&self, name: &str) {
        lock(&self.to_tell).insert(name.to_owned());
        self.soon.notify_one();
    }

    /// The same, and it is to be told at once.
    fn tell_now(&self, name: &str) {
        lock(&self.to_tell).insert(name.to_owned());
        self.telling.ask();
    }

    /// True if a task here has inputs or outputs.
    fn has_files(&self) -> bool {
        lock(&self.attempts).values().any(|attempt| attempt.has_files())
    }

    /// True if no task is on this node, also none that has ended. One whose folder is gone is not, though the round that
    /// removed it may have yet to forget it.
    pub fn is_empty(&self) -> bool {
        lock(&self.attempts).values().all(|attempt| !attempt.folder.has("accepted.json"))
    }

    fn attempts(&self) -> Vec<Arc<Attempt>> {
        lock(&self.attempts).values().cloned().collect()
    }

    fn is_former(&self, name: &str) -> bool {
        lock(&self.former).contains(name)
    }

    fn forget(&self, name: &str) {
        lock(&self.attempts).remove(name);
        let mut former = lock(&self.former);
        if former.len() >= MAX_FORMER {
            former.clear();
        }
        former.insert(name.to_owned());
    }

    fn now_micros(&self) -> i64 {
        self.options.clock.now_micros()
    }
}

/// Ends everything in this folder of tasks that is not the node's any more, as soon as an agent uses it.
pub fn give_up(tasks: &Path) -> io::Result<()> {
    match AttemptFolder::all(tasks) {
        Ok(all) => all.into_iter().try_for_each(|folder| {
            folder.mark("gone")?;
            folder.wake();
            Ok(())
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// True if the machine was started anew since an agent was here. Then folders of attempts may be there that are not whole: each
/// was accepted, and what else is known of it is its name.
fn former_boot(tasks: &Path, now: i64) -> io::Result<bool> {
    let known = std::fs::read_to_string(tasks.join(BOOT_FILE)).unwrap_or_default();
    if known == lease::boot_id() {
        return Ok(false);
    }
    for folder in AttemptFolder::all(tasks)? {
        let Some((id, attempt)) = folder.attempt() else { continue };
        if !matches!(folder.accepted(), Ok(Some(_))) {
            let assignment = TaskAssignment { id, attempt, ..TaskAssignment::default() };
            let accepted = Accepted { assignment, at: now, boot: String::new() };
            write_whole(&folder.file("accepted.json"), &serde_json::to_vec(&accepted)?, 0o600)?;
        }
        if folder.end().is_err() {
            std::fs::remove_file(folder.file("end.json"))?;
        }
    }
    Ok(true)
}

fn lease_lengths(attempts: &BTreeMap<String, Arc<Attempt>>) -> BTreeSet<LeaseLength> {
    attempts.values().filter_map(|attempt| LeaseLength::of(&attempt.accepted.assignment)).collect()
}

async fn at(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

const NEWS_PIPE: &str = "news";
/// Names the start of the machine in which an agent was here last.
const BOOT_FILE: &str = "boot";
/// How soon the task service hears of what is neither an end nor a line, so that a short task is told of once.
const TELL_SOON: Duration = Duration::from_millis(10);
/// How often everything is looked at while there are tasks, although nothing is heard of them.
const LOOK_EVERY: Duration = Duration::from_secs(1);
