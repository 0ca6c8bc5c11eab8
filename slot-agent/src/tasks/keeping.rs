//! Makes the attempts on this node what is assigned: accepts, gives each a keeper, has it ended, and removes it.
//!
//! A round looks at every attempt and takes the step that is due, whatever was done before, so that it does not matter at
//! which step an agent died.

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::sync::Arc;
use std::time::Duration;

use estimand_api::task::{TaskAssignment, TaskEnding};
use estimand_exec::Detached;
use estimand_runtime::{BackOff, Driver, Next, Stop, Work};
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use super::folder::{Accepted, AttemptFolder, End};
use super::lease::boot_id;
use super::order::{LOG_BYTES, LauncherOrder, Order, RunOrder};
use super::{Attempt, LOOK_EVERY, Tasks, launcher_id, lock};

/// Between starts of keepers of one attempt, should they not live.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

impl Tasks {
    /// Follows what is assigned. What runs goes on when this ends.
    pub async fn keep(self: &Arc<Self>, mut driver: Driver, stop: &Stop) {
        let mut work = Keeping { tasks: Arc::clone(self), keepers: Some(HashMap::new()) };
        driver.run(&mut work, &self.keeping, stop.requested()).await;
    }
}

struct Keeping {
    tasks: Arc<Tasks>,
    /// By attempt. None while a round has them.
    keepers: Option<HashMap<String, Keeper>>,
}

/// An attempt's keeper as this agent knows it, beside what is on disk.
struct Keeper {
    /// None if the agent before this one started it.
    process: Option<Detached>,
    starts: BackOff,
    not_before: Option<Instant>,
    /// The lease under which it could have begun: when that is over, it may have been begun elsewhere.
    lease: Option<u64>,
}

impl Keeper {
    fn new(lease: Option<u64>) -> Self {
        let starts = BackOff::new(FIRST_PAUSE, LONGEST_PAUSE);
        Keeper { process: None, starts, not_before: None, lease }
    }

    fn is_running(&mut self) -> bool {
        self.process.as_mut().is_some_and(|process| !process.has_ended())
    }
}

/// The next thing to do with an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Nothing,
    /// It ends without having begun.
    Settle(Unbegun),
    /// A keeper is to run it, or to clear away what a former one left.
    Start,
    Remove,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unbegun {
    Cancelled,
    LeaseOver,
}

/// An attempt as it is found.
#[derive(Debug, Clone, Copy)]
struct Look {
    gone: bool,
    stop: bool,
    begun: bool,
    ended: bool,
    kept: bool,
    leased: bool,
    lease_holds: bool,
    was_leased: bool,
}

/// The step that is due. Pure.
fn step(look: &Look) -> Step {
    match look {
        Look { ended: true, gone: true, .. } => Step::Remove,
        Look { ended: true, .. } | Look { kept: true, .. } => Step::Nothing,
        // An attempt that has begun and has neither end nor keeper was left by one that was killed.
        Look { begun: true, .. } => Step::Start,
        Look { gone: true, .. } => Step::Remove,
        Look { stop: true, .. } => Step::Settle(Unbegun::Cancelled),
        Look { leased: true, lease_holds: false, was_leased: true, .. } => Step::Settle(Unbegun::LeaseOver),
        Look { leased: true, lease_holds: false, .. } => Step::Nothing,
        Look { .. } => Step::Start,
    }
}

impl Work for Keeping {
    type Error = Infallible;

    async fn round(&mut self) -> Result<Next, Infallible> {
        let (tasks, keepers) = (Arc::clone(&self.tasks), self.keepers.take().unwrap_or_default());
        let round = move || {
            let mut round = Round { tasks: &tasks, keepers };
            round.make();
            round.keepers
        };
        match spawn_blocking(round).await {
            Ok(keepers) => self.keepers = Some(keepers),
            Err(error) => tracing::error!(%error, "a look at the tasks here failed"),
        }
        Ok(match self.tasks.is_empty() {
            true => Next::Period,
            false => Next::At(Instant::now() + LOOK_EVERY),
        })
    }
}

struct Round<'a> {
    tasks: &'a Arc<Tasks>,
    keepers: HashMap<String, Keeper>,
}

impl Round<'_> {
    fn make(&mut self) {
        let assigned = lock(&self.tasks.assigned).clone();
        if let Some(assigned) = assigned {
            self.follow(assigned.tasks);
        }
        for attempt in self.tasks.attempts() {
            self.look_at(&attempt);
        }
        let attempts = lock(&self.tasks.attempts);
        self.keepers.retain(|name, _| attempts.contains_key(name));
    }

    /// Accepts what is new, and marks what is to end or is no longer here.
    fn follow(&mut self, tasks: Vec<TaskAssignment>) {
        let assigned: BTreeMap<String, TaskAssignment> =
            tasks.into_iter().map(|one| (format!("{}.{}", one.id, one.attempt), one)).collect();
        for attempt in self.tasks.attempts() {
            let mark = match assigned.get(&attempt.folder.name()) {
                None => "gone",
                Some(assignment) if assignment.stop => "stop",
                Some(_) => continue,
            };
            let checkpoint = assigned.get(&attempt.folder.name()).is_some_and(|one| one.checkpoint);
            if let Err(error) = tell_to_end(&attempt.folder, mark, checkpoint) {
                tracing::warn!(task = attempt.folder.name(), %error, "a task cannot be told to end");
            }
        }
        for (name, assignment) in assigned {
            let known = lock(&self.tasks.attempts).contains_key(&name) || self.tasks.is_former(&name);
            if !known && let Err(error) = self.accept(assignment) {
                tracing::warn!(task = name, %error, "a task cannot be accepted yet");
            }
        }
    }

    fn accept(&mut self, assignment: TaskAssignment) -> io::Result<()> {
        let options = &self.tasks.options;
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        let id = &assignment.id;
        if id.is_empty() || id.starts_with('.') || id.len() > 64 || !id.bytes().all(is_name) {
            return Err(io::Error::other(format!("`{id}` is no id of a task")));
        }
        let folder = AttemptFolder::new(&options.folder, id, assignment.attempt);
        let launcher = launcher_id(&options.agent, &folder.name());
        let stop = assignment.stop;
        let accepted = Accepted { assignment, at: self.tasks.now_micros(), boot: boot_id(), launcher };
        folder.accept(&accepted, options.privileges.run_as.as_ref())?;
        if stop {
            folder.mark("stop")?;
        }
        self.keepers.insert(folder.name(), Keeper::new(None));
        let attempt = Arc::new(Attempt { folder, accepted });
        lock(&self.tasks.attempts).insert(attempt.folder.name(), Arc::clone(&attempt));
        self.tasks.telling.ask();
        // Before the next one is accepted, which waits for the disk.
        self.look_at(&attempt);
        Ok(())
    }

    fn look_at(&mut self, attempt: &Attempt) {
        if let Err(error) = self.go_on_with(attempt) {
            tracing::warn!(task = attempt.folder.name(), %error, "a task on this node cannot be gone on with yet");
        }
    }

    fn go_on_with(&mut self, attempt: &Attempt) -> io::Result<()> {
        let Attempt { folder, accepted } = attempt;
        let leased = accepted.assignment.leased;
        let lease = self.tasks.lease.holds();
        // One that was here before this agent could have begun under the lease of that time.
        let former = self.tasks.former_lease;
        let keeper = self.keepers.entry(folder.name()).or_insert_with(|| Keeper::new(Some(former)));
        // One that was assigned before the lease began may have been begun elsewhere since, and is waited for again.
        let under = lock(&self.tasks.assigned).as_ref().map(|assigned| assigned.under);
        keeper.lease = keeper.lease.or(lease.filter(|number| under == Some(*number)));
        let running = keeper.is_running();
        let look = Look {
            gone: folder.has("gone"),
            stop: folder.has("stop"),
            begun: folder.has("begun"),
            // Looked for first: one that ends meanwhile has an end then.
            kept: running || folder.is_kept()?,
            ended: folder.has("end.json"),
            leased,
            lease_holds: lease.is_some() && lease == keeper.lease,
            was_leased: keeper.lease.is_some(),
        };
        match step(&look) {
            Step::Nothing => Ok(()),
            Step::Settle(Unbegun::Cancelled) => self.settle(folder, TaskEnding::Cancelled),
            Step::Settle(Unbegun::LeaseOver) => self.settle(folder, TaskEnding::NodeLost),
            Step::Start => self.start(attempt, look.begun),
            Step::Remove => self.remove(folder),
        }
    }

    /// Ends an attempt that no keeper has begun.
    fn settle(&self, folder: &AttemptFolder, ending: TaskEnding) -> io::Result<()> {
        // Nobody begins while this is held.
        let Some(_lock) = folder.lock()? else { return Ok(()) };
        if !folder.has("begun") && !folder.has("end.json") {
            folder.write_end(&End { at: self.tasks.now_micros(), ending })?;
            self.tasks.telling.ask();
        }
        Ok(())
    }

    fn start(&mut self, attempt: &Attempt, begun: bool) -> io::Result<()> {
        let (tasks, folder) = (self.tasks, &attempt.folder);
        let Some(keeper) = self.keepers.get_mut(&folder.name()) else { return Ok(()) };
        if keeper.not_before.is_some_and(|at| Instant::now() < at) {
            return Ok(());
        }
        keeper.not_before = Some(Instant::now() + keeper.starts.pause());
        if !begun {
            tasks.options.reserve.check(&[tasks.options.folder.as_path()]).map_err(io::Error::other)?;
        }
        let leased = attempt.accepted.assignment.leased;
        if leased {
            tasks.lease.publish()?;
        }
        let run = match begun {
            // There is only something left to be cleared away.
            true => None,
            false => match tasks.run_order(attempt) {
                Ok(run) => Some(run),
                Err(reason) => return self.settle(folder, TaskEnding::NotStarted(reason)),
            },
        };
        let container = match &run {
            Some(RunOrder::Container(order)) => Some(order.place.clone()),
            Some(RunOrder::Process(_)) => None,
            // As the keeper was told that began it.
            None => folder.order::<Order>().ok().flatten().and_then(|order| order.container),
        };
        let options = &tasks.options;
        folder.write_order(&Order {
            launcher: LauncherOrder {
                program: options.launcher.0.clone(),
                args: options.launcher.1.iter().map(|arg| arg.to_string_lossy().into_owned()).collect(),
                id: attempt.accepted.launcher.clone(),
                cgroups: options.cgroups,
                privileges: options.privileges.clone(),
            },
            lease: leased.then(|| (tasks.lease.path().to_owned(), keeper.lease.unwrap_or(0))),
            news: tasks.news_pipe(),
            log_bytes: LOG_BYTES,
            open_files: options.open_files,
            container,
            run,
        })?;
        let mut errors = OpenOptions::new();
        let errors = errors.append(true).create(true).mode(0o600).open(folder.file("keeper.log"))?;
        let args: Vec<OsString> =
            options.keeper.1.iter().cloned().chain([folder.path().as_os_str().to_owned()]).collect();
        keeper.process = Some(Detached::start(&options.keeper.0, &args, errors).map_err(io::Error::other)?);
        Ok(())
    }

    fn remove(&mut self, folder: &AttemptFolder) -> io::Result<()> {
        // A keeper that only just was started ends when it finds no folder.
        let Some(_lock) = folder.lock()? else { return Ok(()) };
        // It is waited for, or it would stay in the process table.
        if self.keepers.get_mut(&folder.name()).is_some_and(Keeper::is_running) {
            return Ok(());
        }
        if folder.remove()? {
            self.tasks.forget(&folder.name());
            self.keepers.remove(&folder.name());
        }
        Ok(())
    }
}

impl Tasks {
    fn run_order(&self, attempt: &Attempt) -> Result<super::order::RunOrder, String> {
        let server = self.options.server.borrow().clone();
        self.options.terms.run_order(&attempt.accepted.assignment, &attempt.folder, &server)
    }
}

/// Marks it, and wakes its keeper, the first time.
fn tell_to_end(folder: &AttemptFolder, mark: &str, checkpoint: bool) -> io::Result<()> {
    if !folder.has(mark) {
        // Before the other, so that the keeper does not end it without one.
        if checkpoint {
            folder.mark("checkpoint")?;
        }
        folder.mark(mark)?;
        folder.wake();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEW: Look = Look {
        gone: false,
        stop: false,
        begun: false,
        ended: false,
        kept: false,
        leased: false,
        lease_holds: false,
        was_leased: false,
    };

    #[test]
    fn each_attempt_takes_the_step_that_is_due() {
        let cancelled = Step::Settle(Unbegun::Cancelled);
        for (look, expected) in [
            (NEW, Step::Start),
            (Look { kept: true, ..NEW }, Step::Nothing),
            (Look { begun: true, kept: true, stop: true, gone: true, ..NEW }, Step::Nothing),
            (Look { stop: true, ..NEW }, cancelled),
            (Look { gone: true, ..NEW }, Step::Remove),
            (Look { gone: true, ended: true, begun: true, ..NEW }, Step::Remove),
            (Look { ended: true, begun: true, ..NEW }, Step::Nothing),
        ] {
            assert_eq!(step(&look), expected, "{look:?}");
        }
    }

    /// Its keeper was killed: another one clears away what is left, also of what is to go.
    #[test]
    fn what_has_begun_without_an_end_is_cleared_away_first() {
        for look in
            [NEW, Look { gone: true, ..NEW }, Look { stop: true, ..NEW }, Look { leased: true, ..NEW }]
        {
            assert_eq!(step(&Look { begun: true, ..look }), Step::Start, "{look:?}");
        }
    }

    #[test]
    fn what_is_leased_begins_under_a_lease_and_never_after_one() {
        let leased = Look { leased: true, ..NEW };
        assert_eq!(step(&leased), Step::Nothing);
        assert_eq!(step(&Look { lease_holds: true, was_leased: true, ..leased }), Step::Start);
        assert_eq!(step(&Look { was_leased: true, ..leased }), Step::Settle(Unbegun::LeaseOver));
        assert_eq!(step(&Look { was_leased: true, ..NEW }), Step::Start, "not leased");
    }
}
