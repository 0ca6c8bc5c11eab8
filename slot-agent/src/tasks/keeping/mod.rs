//! Makes the attempts on this node what is assigned: accepts, gives each a keeper, has it ended, and removes it.
//!
//! A round looks at every attempt and takes the step that is due, whatever was done before, so that it does not matter at
//! which step an agent died.

mod assignment;
mod devices;
mod keeper;
mod leavings;
mod step;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use estimand_api::task::TaskEnding;
use estimand_runtime::{Driver, Next, Stop, Work};
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use super::folder::AttemptFolder;
use super::lease::{LeaseFile, LeaseLength, boot_id};
use super::order::{KeeperOrder, LOG_BYTES, TaskRun};
use super::pool::{KeeperProcess, Pool, at_once};
use super::record::End;
use super::{Assigned, Attempt, LOOK_EVERY, Mark, Progress, Tasks, lease_lengths, lock};
use crate::devices::DeviceGrant;
use keeper::Keeper;
use leavings::Leavings;
use step::{Look, Step, Unbegun, step};

impl Tasks {
    /// Follows what is assigned. What runs goes on when this ends.
    pub async fn keep(self: &Arc<Self>, mut driver: Driver, stop: &Stop) {
        let mut work = Keeping { tasks: Arc::clone(self), state: Some(State::default()) };
        driver.run(&mut work, &self.keeping, stop.requested()).await;
    }
}

struct Keeping {
    tasks: Arc<Tasks>,
    /// None while a round has it.
    state: Option<State>,
}

/// All that this agent knows of the attempts beside what is on disk.
#[derive(Default)]
struct State {
    keepers: HashMap<String, Keeper>,
    pool: Pool,
    /// The attempts that wait for a keeper of their user's, by when they were accepted.
    waiting: BTreeMap<RunnerKey, BTreeSet<(i64, String)>>,
    /// The assignment that was followed, to its end.
    followed: Option<Arc<Assigned>>,
    /// When all attempts were looked at last.
    looked_at: Option<Instant>,
    leavings: Leavings,
}

/// The number of the user of this machine as whom a task runs; none: as the agent.
type RunnerKey = Option<u32>;

impl Work for Keeping {
    type Error = Infallible;

    async fn round(&mut self) -> Result<Next, Infallible> {
        let (tasks, state) = (Arc::clone(&self.tasks), self.state.take().unwrap_or_default());
        let round = move || {
            let mut round = Round { tasks: &tasks, state, no_keeper: BTreeSet::new() };
            round.make();
            round.state
        };
        let (is_idle, waits) = match spawn_blocking(round).await {
            Ok(state) => {
                let state = self.state.insert(state);
                (state.pool.is_empty() && state.leavings.is_empty(), !state.waiting.is_empty())
            }
            Err(error) => {
                tracing::error!(%error, "a look at the tasks here failed");
                (true, false)
            }
        };
        Ok(match is_idle && self.tasks.is_empty() {
            true => Next::Period,
            false if waits => Next::At(Pool::look_again_at()),
            false => Next::At(Instant::now() + LOOK_EVERY),
        })
    }
}

struct Round<'a> {
    tasks: &'a Arc<Tasks>,
    state: State,
    /// The users all of whose keepers have something to keep, while enough are being started.
    no_keeper: BTreeSet<RunnerKey>,
}

impl Round<'_> {
    fn make(&mut self) {
        let mut heard = std::mem::take(&mut *lock(&self.tasks.to_keep));
        let all = self.state.looked_at.is_none_or(|at| at.elapsed() >= LOOK_EVERY);
        let assigned = lock(&self.tasks.assigned).clone();
        if let Some(assigned) = assigned {
            let known = self.state.followed.as_ref().is_some_and(|known| Arc::ptr_eq(known, &assigned));
            if !known || all {
                heard.extend(self.follow(&assigned));
            }
        }
        if all {
            self.state.looked_at = Some(Instant::now());
            self.state.waiting.clear();
            for attempt in self.tasks.attempts() {
                self.look_at(&attempt);
            }
            let attempts = lock(&self.tasks.attempts);
            self.state.keepers.retain(|name, _| attempts.contains_key(name));
            self.tasks.leases.retain(&lease_lengths(&attempts));
        } else {
            // Those that leave their keeper go before those that wait for one.
            heard.iter().for_each(|name| self.look_at_named(name));
            for (runner, waiting) in std::mem::take(&mut self.state.waiting) {
                self.look_at_waiting(runner, waiting);
            }
        }
        self.state.pool.look();
        self.clear_leavings();
    }

    fn look_at_waiting(&mut self, runner: RunnerKey, mut waiting: BTreeSet<(i64, String)>) {
        while !self.no_keeper.contains(&runner)
            && let Some((_, name)) = waiting.pop_first()
        {
            self.look_at_named(&name);
        }
        if !waiting.is_empty() {
            self.state.waiting.entry(runner).or_default().append(&mut waiting);
        }
    }

    /// Puts an attempt among those that wait for a keeper.
    fn wait(&mut self, attempt: &Attempt) {
        let waiting = self.state.waiting.entry(runner_key(attempt)).or_default();
        waiting.insert((attempt.accepted.at, attempt.folder.name()));
    }

    fn look_at_named(&mut self, name: &str) {
        let attempt = lock(&self.tasks.attempts).get(name).cloned();
        if let Some(attempt) = attempt {
            self.look_at(&attempt);
        }
    }

    fn look_at(&mut self, attempt: &Attempt) {
        if let Err(error) = self.go_on_with(attempt) {
            tracing::warn!(task = attempt.folder.name(), %error, "a task on this node cannot be gone on with yet");
        }
    }

    fn go_on_with(&mut self, attempt: &Attempt) -> io::Result<()> {
        let folder = &attempt.folder;
        let file = self.lease_of(attempt);
        let lease = file.as_ref().and_then(|file| file.holds());
        // One that was here before this agent could have begun under the lease of that time.
        let former = file.as_ref().map_or(0, |file| file.former());
        let keeper = self.state.keepers.entry(folder.name()).or_insert_with(|| Keeper::new(Some(former)));
        // An attempt that was asked for before the lease began may have been begun elsewhere since, and is waited for again.
        let asked_at = lock(&self.tasks.assigned).as_ref().map_or(0, |assigned| assigned.asked_at);
        keeper.lease = keeper.lease.or(lease.filter(|began| asked_at >= *began));
        let running = keeper.is_running();
        // Looked for first: one that ends meanwhile has an end then.
        let kept = !keeper.has_ended && !keeper.is_new && (running || folder.is_kept()?);
        let Progress { begun, end, .. } =
            if keeper.is_new { Progress::default() } else { attempt.progress()? };
        if !keeper.has_ended && end.is_some() {
            (keeper.has_ended, keeper.is_gone) = (true, attempt.is_marked(Mark::Gone));
        }
        if let Some(process) = keeper.process.as_mut().filter(|process| !process.is_proven) {
            process.is_proven = keeper.has_ended || begun;
        }
        if keeper.has_ended
            && let Some(process) = keeper.process.take()
        {
            self.state.pool.put(process);
        }
        // Most often there is nothing to be done.
        if running && !keeper.has_ended || keeper.has_ended && !keeper.is_gone {
            return Ok(());
        }
        let promise_over = attempt.promise_over();
        let look = Look {
            gone: keeper.is_gone || attempt.is_marked(Mark::Gone),
            stop: attempt.is_marked(Mark::Stop),
            begun: keeper.has_ended || begun,
            kept,
            ended: keeper.has_ended,
            leased: file.is_some(),
            lease_holds: lease.is_some() && lease == keeper.lease,
            was_leased: keeper.lease.is_some(),
            promise_over: promise_over.is_some(),
            awaits_inputs: attempt.awaits_inputs(),
        };
        match step(&look) {
            Step::Nothing => Ok(()),
            Step::Settle(Unbegun::Cancelled) => self.settle(folder, TaskEnding::Cancelled),
            Step::Settle(Unbegun::LeaseOver) => self.settle(folder, TaskEnding::NodeLost),
            Step::Settle(Unbegun::PromiseOver) => {
                promise_over.map_or(Ok(()), |end| self.settle(folder, end.ending()))
            }
            Step::Start => self.start(attempt, look.begun),
            Step::Remove => {
                attempt.is_over.store(true, Ordering::Relaxed);
                self.remove(folder)
            }
        }
    }

    fn start(&mut self, attempt: &Attempt, begun: bool) -> io::Result<()> {
        let (tasks, folder, name) = (self.tasks, &attempt.folder, attempt.folder.name());
        let is_due = |keeper: &Keeper| keeper.not_before.is_none_or(|at| Instant::now() >= at);
        if !self.state.keepers.get(&name).is_some_and(is_due) {
            return Ok(());
        }
        // It may have begun, and nothing of it outlived that.
        if !begun && attempt.accepted.boot != boot_id() {
            return self.settle(folder, TaskEnding::NodeLost);
        }
        if self.no_keeper.contains(&runner_key(attempt)) {
            self.wait(attempt);
            return Ok(());
        }
        if !begun {
            tasks.options.reserve.check(&[tasks.options.folder.as_path()]).map_err(io::Error::other)?;
        }
        let lease = self.lease_of(attempt);
        lease.as_ref().map_or(Ok(()), |file| file.publish())?;
        let run = if begun {
            // There is only something left to be cleared away.
            None
        } else {
            let gpus = match self.take_gpus(attempt)? {
                DeviceGrant::Ids(ids) => ids,
                // Looked at again with all others.
                DeviceGrant::NotYet => return Ok(()),
                DeviceGrant::Never(most) => {
                    return self.settle(folder, TaskEnding::NotStarted(devices::too_few(attempt, most)));
                }
            };
            match tasks.run_of(attempt, &gpus) {
                Ok(run) => Some(run),
                Err(reason) => return self.settle(folder, TaskEnding::NotStarted(reason)),
            }
        };
        let Some(mut process) = self.keeper(attempt)? else {
            self.no_keeper.insert(runner_key(attempt));
            self.wait(attempt);
            return Ok(());
        };
        let container = match &run {
            Some(TaskRun::Container(run)) => Some(run.place.clone()),
            Some(TaskRun::Process(_)) => None,
            // As the keeper was told that began it.
            None => folder.order().ok().flatten().and_then(|order| order.container),
        };
        if let Some(TaskRun::Container(run)) = &run
            && attempt.has_files()
            && run.user.is_none()
        {
            folder.open_work()?;
        }
        // The agent before this one may have had another user for it.
        attempt.identity().map_or(Ok(()), |identity| folder.give_to(identity))?;
        let Some(keeper) = self.state.keepers.get_mut(&name) else { return Ok(()) };
        keeper.is_new = false;
        keeper.not_before = Some(Instant::now() + keeper.starts.pause());
        let order = KeeperOrder {
            folder: folder.clone(),
            lease: lease.map(|file| (file.path().to_owned(), keeper.lease.unwrap_or(0))),
            log_bytes: LOG_BYTES,
            container,
            run,
        };
        if let Err(error) = process.give(&order) {
            self.state.pool.leave(process);
            return Err(error);
        }
        if let Some(former) = keeper.process.replace(process) {
            self.state.pool.leave(former);
        }
        Ok(())
    }

    /// The lease by which an attempt runs, if it has one.
    fn lease_of(&self, attempt: &Attempt) -> Option<Arc<LeaseFile>> {
        LeaseLength::of(&attempt.accepted.assignment).map(|length| self.tasks.leases.of(length))
    }

    /// Ends an attempt that no keeper has begun.
    fn settle(&mut self, folder: &AttemptFolder, ending: TaskEnding) -> io::Result<()> {
        if let Some(keeper) = self.state.keepers.get_mut(&folder.name()) {
            keeper.is_new = false;
        }
        self.tasks.settle(folder, ending)
    }

    /// A keeper for an attempt; none while enough of them are being started.
    fn keeper(&mut self, attempt: &Attempt) -> io::Result<Option<KeeperProcess>> {
        let identity = attempt.identity();
        if let Some(process) = self.state.pool.take(identity) {
            return Ok(Some(process));
        }
        let busy = self.state.keepers.values().filter_map(|keeper| keeper.process.as_ref());
        let (busy, starting) = busy.fold((0, 0), |(busy, starting), process| {
            (busy + 1, starting + usize::from(process.is_starting()))
        });
        if starting < at_once() {
            self.state.pool.start(&self.tasks.options, identity, busy)
        } else {
            Ok(None)
        }
    }

    fn remove(&mut self, folder: &AttemptFolder) -> io::Result<()> {
        let name = folder.name();
        // A keeper that only just was given it leaves it alone when it finds no folder.
        let _lock = match folder.lock() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            lock => match lock? {
                Some(lock) => Some(lock),
                None => return Ok(()),
            },
        };
        if self.state.keepers.get_mut(&name).is_some_and(Keeper::is_running) {
            return Ok(());
        }
        if folder.remove()? {
            self.tasks.forget(&name);
            if let Some(process) = self.state.keepers.remove(&name).and_then(|keeper| keeper.process) {
                self.state.pool.leave(process);
            }
        }
        Ok(())
    }
}

impl Tasks {
    /// Ends an attempt that no keeper has begun.
    pub(super) fn settle(&self, folder: &AttemptFolder, ending: TaskEnding) -> io::Result<()> {
        // Nobody begins while this is held.
        let Some(_lock) = folder.lock()? else { return Ok(()) };
        if !folder.has("begun") && !folder.has("end.json") {
            folder.write_end(&End { at: self.now_micros(), ending, program: None, used: None })?;
            self.tell_now(&folder.name());
        }
        Ok(())
    }

    fn run_of(&self, attempt: &Attempt, gpus: &[String]) -> Result<TaskRun, String> {
        let server = self.options.server.borrow().clone();
        let runner = attempt.runner.as_ref().map_err(Clone::clone)?.as_ref();
        self.options.terms.run_of(&attempt.accepted.assignment, runner, &attempt.folder, &server, gpus)
    }
}

fn runner_key(attempt: &Attempt) -> RunnerKey {
    attempt.identity().map(|identity| identity.uid)
}
