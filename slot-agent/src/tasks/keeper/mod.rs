//! A keeper: the process that outlives the agent, and starts, watches and ends a task in its stead.
//!
//! It has a launcher of its own, as an agent has, so everything that is true of a run is true of a task: its processes are
//! in a cell, have the privileges that the operator left them, and nothing of it is there when its end is written. If the
//! keeper is killed, its launcher kills the rest and ends. The next keeper of the attempt, which the agent finds for it,
//! clears away what may be left, and says that the attempt is lost: none is begun twice.
//!
//! It keeps one attempt at a time, and when that has ended well the next one that its agent gives it: most of what a short
//! task costs is the start of these two processes. When its agent is gone it ends with the attempt that it has.
//!
//! A container ([`container`]) is run by the engine of the node instead, and goes on without its keeper; the next keeper
//! removes it by its name. All else is the same for both.

mod attempt;
mod container;
mod ender;
mod input;
mod news;
mod notes;
mod output;
mod step;
mod watch;
mod work;

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use estimand_api::task::TaskEnding;
use estimand_api::task_stop::StopOrder;
use estimand_exec::{Cell, DirRights, LaunchError, Launcher, LauncherOptions, Limits, RunSpec, Stdin};
use estimand_runtime::BackOff;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::net::unix::pipe::{OpenOptions, Receiver};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::sleep;

use super::NEWS_PIPE;
use super::folder::AttemptFolder;
use super::lease::LeaseWatch;
use super::order::{KeeperOrder, ProcessRun, TaskRun};
use super::promise_end::WindowEnd;
use super::record::{Beginning, End};
use super::stop_order;
use crate::containers::{ContainerRun, Place};
use attempt::Attempt;
use container::Container;
use input::Input;
use notes::say;
use output::Outputs;
use watch::Watch;
use work::Work;

pub use news::{Hearing, NewsKind};
pub use notes::Complaints;

/// Between attempts to write the end, and to clear away what a former keeper left.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// The keeper process: call this first in `main`, when the hidden argument says so, with the path that names it.
pub fn keep_tasks(path: &Path) -> ExitCode {
    let served = serve(path);
    let _ = std::fs::remove_file(path);
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(format_args!("the keeper ends: {error}"));
            ExitCode::from(2)
        }
    }
}

fn serve(path: &Path) -> io::Result<()> {
    estimand_exec::detach()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut input = Input::of_this_process()?;
        let Some(options) = input.options().await? else { return Ok(()) };
        let limit = getrlimit(Resource::Nofile);
        // Not more than the task itself: what it starts has the limit of this process.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: options.open_files, maximum: limit.maximum });
        Box::pin(Keeper::new(path, options.launcher)?.serve(input)).await;
        Ok(())
    })
}

struct Keeper {
    /// The options of its launcher, but for its own part of the id.
    launching: LauncherOptions,
    /// The pipe that wakes the agent.
    news: PathBuf,
    /// Its name, by which it is woken.
    name: String,
    wakes: Wakes,
    launcher: Option<Launcher>,
    /// A cell that is empty, for the next run with these limits.
    cell: Option<(Limits, Cell)>,
}

/// The events that wake a keeper beside its task.
struct Wakes {
    control: Receiver,
    terminated: Signal,
    /// The machine goes down, or somebody ends this process.
    is_terminated: bool,
}

impl Keeper {
    fn new(path: &Path, launching: LauncherOptions) -> io::Result<Self> {
        let control = OpenOptions::new().read_write(true).open_receiver(path)?;
        let wakes = Wakes { control, terminated: signal(SignalKind::terminate())?, is_terminated: false };
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let news = path.with_file_name(NEWS_PIPE);
        Ok(Keeper { launching, news, name, wakes, launcher: None, cell: None })
    }

    /// Keeps one attempt after the other, until no more come or one did not end as it should.
    async fn serve(mut self, mut input: Input) {
        loop {
            let given = tokio::select! {
                given = input.order() => given,
                _ = self.wakes.terminated.recv() => Ok(None),
            };
            let kept = match given {
                Ok(Some(order)) => self.keep(order).await,
                Ok(None) => break,
                Err(error) => Err(error),
            };
            match kept {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    say(format_args!("an attempt cannot be kept: {error}"));
                    break;
                }
            }
        }
        drop(self.cell);
        if let Some(launcher) = self.launcher {
            launcher.stop().await;
        }
    }

    /// Sees an attempt through; false if this keeper should have no other one.
    async fn keep(&mut self, order: KeeperOrder) -> io::Result<bool> {
        notes::concern(&order.folder);
        let taken = Attempt::take(order, &self.news).await?;
        let Some(mut attempt) = taken else { return Ok(false) };
        let ending = self.see_through(&mut attempt).await;
        let is_well = !self.wakes.is_terminated && ending != TaskEnding::NodeLost;
        let end = End { at: now_micros(), ending, program: attempt.program.take(), used: attempt.used };
        let mut pauses = BackOff::new(FIRST_PAUSE, LONGEST_PAUSE);
        // A full disk may have room again. A folder that was removed is missed by nobody.
        while let Err(error) = attempt.write_end(&end) {
            if !attempt.folder.has("accepted.json") {
                return Ok(false);
            }
            say(format_args!("the end cannot be written yet: {error}"));
            sleep(pauses.pause()).await;
        }
        attempt.leave();
        Ok(is_well)
    }

    /// Nothing of the attempt runs when this returns.
    async fn see_through(&mut self, attempt: &mut Attempt) -> TaskEnding {
        if let Some((path, number)) = &attempt.order.lease {
            match LeaseWatch::new(path.clone(), *number) {
                Ok(watch) => attempt.lease = Some(watch),
                Err(error) => return not_started(&error),
            }
        }
        match attempt.folder.begin(&self.name) {
            Ok(Beginning::Now(record)) => attempt.record = Some(record),
            Ok(Beginning::Before(record, keeper)) => {
                attempt.record = Some(record);
                return self.clear_away(attempt, keeper).await;
            }
            Err(error) => return not_started(&error),
        }
        if attempt.lease.as_ref().is_some_and(LeaseWatch::is_over) {
            return TaskEnding::NodeLost;
        }
        if told_to_end(&attempt.folder).is_some() {
            return TaskEnding::Cancelled;
        }
        match WindowEnd::read(&attempt.folder) {
            Ok(Some(end)) if end.has_come() => return end.ending(),
            Ok(_) => {}
            Err(error) => return not_started(&error),
        }
        match attempt.order.run.take() {
            Some(TaskRun::Process(run)) => self.run(attempt, run).await,
            Some(TaskRun::Container(run)) => self.run_container(attempt, *run).await,
            None => TaskEnding::NodeLost,
        }
    }

    async fn run_container(&mut self, attempt: &mut Attempt, run: ContainerRun) -> TaskEnding {
        let timeout = run.timeout_ms.map(Duration::from_millis);
        let (container, lines) = Container::begin(run, attempt.folder.clone(), attempt.news.clone());
        let watch = Watch::new(attempt, &mut self.wakes, timeout);
        watch.see_through(Work::Container(container), Outputs::Container(lines)).await
    }

    async fn run(&mut self, attempt: &mut Attempt, run: ProcessRun) -> TaskEnding {
        let launcher = match self.launcher().await {
            Ok(launcher) => launcher,
            Err(error) => return not_started(&error),
        };
        let limits = run.limits;
        let cell = self.cell(&launcher, &limits).await;
        let ending = self.run_in(&launcher, &cell, attempt, run).await;
        // A part of the memory may stay with a cell, as what was written to a file system in memory does.
        match limits.memory {
            None => self.cell = Some((limits, cell)),
            Some(_) => launcher.close_cell(cell).await,
        }
        ending
    }

    async fn launcher(&mut self) -> Result<Launcher, LaunchError> {
        if let Some(launcher) = &self.launcher {
            return Ok(launcher.clone());
        }
        let launcher = Launcher::start(self.launcher_options(&self.name, true)).await?;
        Ok(self.launcher.insert(launcher).clone())
    }

    async fn cell(&mut self, launcher: &Launcher, limits: &Limits) -> Cell {
        match self.cell.take() {
            Some((known, cell)) if known == *limits => return cell,
            Some((_, cell)) => launcher.close_cell(cell).await,
            None => {}
        }
        launcher.open_cell("task", limits).await
    }

    async fn run_in(
        &mut self,
        launcher: &Launcher,
        cell: &Cell,
        attempt: &mut Attempt,
        run: ProcessRun,
    ) -> TaskEnding {
        for limit in cell.unenforced() {
            say(format_args!("not held here: {limit}"));
        }
        let timeout = run.timeout_ms.map(Duration::from_millis);
        // Another directory was chosen by the task.
        let is_own = run.dir == attempt.folder.work();
        let spec = RunSpec {
            program: run.program,
            file: None,
            argv: run.argv,
            env: run.env,
            dir: run.dir,
            dir_rights: if is_own { DirRights::Agent } else { DirRights::Run },
            stdin: Stdin::Null,
            cell,
            until: None,
        };
        let mut run = match launcher.run(spec).await {
            Ok(run) => run,
            Err(error) => return not_started(&error),
        };
        let outputs = Outputs::of(&mut run);
        let watch = Watch::new(attempt, &mut self.wakes, timeout);
        watch.see_through(Work::Process(Box::new(run)), outputs).await
    }

    /// Ends what a former keeper left, which this machine's process table and cgroups and the engine show.
    async fn clear_away(&self, attempt: &Attempt, keeper: Option<String>) -> TaskEnding {
        let mut pauses = BackOff::new(FIRST_PAUSE, LONGEST_PAUSE);
        // One that was killed before it had written its name had started nothing.
        while let Some(keeper) = &keeper {
            match Launcher::start(self.launcher_options(keeper, false)).await {
                Ok(launcher) => {
                    launcher.stop().await;
                    break;
                }
                Err(error) => say(format_args!("what a former keeper left cannot be ended yet: {error}")),
            }
            sleep(pauses.pause()).await;
        }
        if let Some(place) = &attempt.order.container {
            clear_container(attempt, place).await;
        }
        TaskEnding::NodeLost
    }

    /// The launcher of a keeper: its processes and groups are named for that one alone.
    fn launcher_options(&self, keeper: &str, first: bool) -> LauncherOptions {
        LauncherOptions { id: format!("{}-{keeper}", self.launching.id), first, ..self.launching.clone() }
    }
}

/// A container goes on without its keeper.
async fn clear_container(attempt: &Attempt, place: &Place) {
    let (mut pauses, mut complaints) = (BackOff::new(FIRST_PAUSE, LONGEST_PAUSE), Complaints::default());
    while let Err(error) = container::remove(place).await {
        if !attempt.folder.has("accepted.json") {
            // The agent removes what nobody has any more.
            return;
        }
        complaints.say(&error);
        sleep(pauses.pause()).await;
    }
}

/// The order to end, if there is one. An order that cannot be read counts as one that says nothing.
fn told_to_end(folder: &AttemptFolder) -> Option<StopOrder> {
    if folder.has("gone") {
        return Some(StopOrder::default());
    }
    stop_order::read(folder).unwrap_or_else(|error| {
        say(format_args!("how it is to end cannot be read: {error}"));
        Some(StopOrder::default())
    })
}

fn not_started(error: &dyn std::error::Error) -> TaskEnding {
    TaskEnding::NotStarted(error.to_string())
}

/// Microseconds since 1970.
fn now_micros() -> i64 {
    let since = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}
