//! The keeper of one attempt: the process that outlives the agent, and starts, watches and ends the task in its stead.
//!
//! It has a launcher of its own, as an agent has, so everything that is true of a run is true of a task: its processes are
//! in a cell, have the privileges that the operator left them, and nothing of it is there when its end is written. If the
//! keeper is killed, its launcher kills the rest and ends. The next keeper of the attempt, which the agent starts, clears
//! away what may be left, and says that the attempt is lost: none is begun twice.
//!
//! A container ([`container`]) is run by the engine of the node instead, and goes on without its keeper; the next keeper
//! removes it by its name. All else is the same for both.

mod container;
mod ender;
mod output;
mod step;
mod watch;
mod work;

use std::fmt;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use estimand_api::task::TaskEnding;
use estimand_exec::{Launcher, LauncherOptions, Precedence, RunSpec, Stdin};
use estimand_runtime::BackOff;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::time::sleep;

use super::folder::{Accepted, AttemptFolder, End, poke};
use super::lease::{LeaseWatch, boot_id};
use super::log::LogWriter;
use super::order::{Order, ProcessOrder, RunOrder};
use crate::containers::{ContainerOrder, Place};
use container::Container;
use output::Outputs;
use watch::Watch;
use work::Work;

/// The agent looks at the lock now and then, for a moment.
const LOCK_ATTEMPTS: u32 = 100;
const LOCK_PAUSE: Duration = Duration::from_millis(10);
/// Between attempts to write the end, and to clear away what a former keeper left.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// The keeper process: call this first in `main`, when the hidden argument says so, with the folder of the attempt.
pub fn keep_task(folder: PathBuf) -> ExitCode {
    match keep(AttemptFolder::at(folder)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(format_args!("the keeper ends: {error}"));
            ExitCode::from(2)
        }
    }
}

fn keep(folder: AttemptFolder) -> io::Result<()> {
    estimand_exec::detach()?;
    let mut lock = None;
    for _ in 0..LOCK_ATTEMPTS {
        lock = folder.lock()?;
        if lock.is_some() {
            break;
        }
        std::thread::sleep(LOCK_PAUSE);
    }
    // Without it another keeper has the attempt, or had it to its end.
    let (Some(_lock), None, Some(accepted)) = (lock, folder.end()?, folder.accepted()?) else {
        return Ok(());
    };
    let Some::<Order>(order) = folder.order()? else { return Ok(()) };
    let limit = getrlimit(Resource::Nofile);
    // Not more than the task itself: what it starts has the limit of this process.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: order.open_files, maximum: limit.maximum });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(Box::pin(Keeper::new(folder, accepted, order).keep()));
    Ok(())
}

struct Keeper {
    folder: AttemptFolder,
    accepted: Accepted,
    order: Order,
    log: LogWriter,
    lease: Option<LeaseWatch>,
}

impl Keeper {
    fn new(folder: AttemptFolder, accepted: Accepted, order: Order) -> Self {
        let log = LogWriter::new(folder.path().to_owned(), order.log_bytes);
        Keeper { folder, accepted, order, log, lease: None }
    }

    async fn keep(mut self) {
        let ending = self.see_through().await;
        let end = End { at: now_micros(), ending };
        let mut pauses = BackOff::new(FIRST_PAUSE, LONGEST_PAUSE);
        // A full disk may have room again. A folder that was removed is missed by nobody.
        while let Err(error) = self.log.finish().and_then(|()| self.folder.write_end(&end)) {
            if !self.folder.has("accepted.json") {
                return;
            }
            say(format_args!("the end cannot be written yet: {error}"));
            sleep(pauses.pause()).await;
        }
        poke(&self.order.news, NEWS_OF_STAGE);
    }

    /// Nothing of the attempt runs when this returns.
    async fn see_through(&mut self) -> TaskEnding {
        if let Some((path, number)) = &self.order.lease {
            match LeaseWatch::new(path.clone(), *number) {
                Ok(watch) => self.lease = Some(watch),
                Err(error) => return not_started(&error),
            }
        }
        match self.folder.begin() {
            Ok(true) => {}
            Ok(false) => return self.clear_away().await,
            Err(error) => return not_started(&error),
        }
        if self.accepted.boot != boot_id() || self.lease.as_ref().is_some_and(LeaseWatch::is_over) {
            return TaskEnding::NodeLost;
        }
        if self.is_told_to_end() {
            return TaskEnding::Cancelled;
        }
        match self.order.run.take() {
            Some(RunOrder::Process(order)) => self.run(order).await,
            Some(RunOrder::Container(order)) => self.run_container(*order).await,
            None => TaskEnding::NodeLost,
        }
    }

    async fn run_container(&mut self, order: ContainerOrder) -> TaskEnding {
        let timeout = order.timeout_ms.map(Duration::from_millis);
        let (folder, news) = (self.folder.clone(), self.order.news.clone());
        match Watch::new(self, timeout) {
            Ok(watch) => {
                let (container, lines) = Container::begin(order, folder, news);
                watch.see_through(Work::Container(container), Outputs::Container(lines)).await
            }
            Err(error) => not_started(&error),
        }
    }

    async fn run(&mut self, order: ProcessOrder) -> TaskEnding {
        let launcher = match Launcher::start(self.launcher(true)).await {
            Ok(launcher) => launcher,
            Err(error) => return not_started(&error),
        };
        let ending = self.run_in(&launcher, order).await;
        launcher.stop().await;
        ending
    }

    async fn run_in(&mut self, launcher: &Launcher, order: ProcessOrder) -> TaskEnding {
        let cell = launcher.open_cell("task", &order.limits).await;
        for limit in cell.unenforced() {
            say(format_args!("not held here: {limit}"));
        }
        let timeout = order.timeout_ms.map(Duration::from_millis);
        let spec = RunSpec {
            program: order.program,
            file: None,
            argv: order.argv,
            env: order.env,
            dir: order.dir,
            stdin: Stdin::Null,
            cell: &cell,
            until: None,
        };
        let watch = match Watch::new(self, timeout) {
            Ok(watch) => watch,
            Err(error) => return not_started(&error),
        };
        let mut run = match launcher.run(spec).await {
            Ok(run) => run,
            Err(error) => return not_started(&error),
        };
        let outputs = Outputs::of(&mut run);
        watch.see_through(Work::Process(Box::new(run)), outputs).await
    }

    /// Ends what a former keeper left, which this machine's process table and cgroups and the engine show.
    async fn clear_away(&self) -> TaskEnding {
        let mut pauses = BackOff::new(FIRST_PAUSE, LONGEST_PAUSE);
        loop {
            match Launcher::start(self.launcher(false)).await {
                Ok(launcher) => {
                    launcher.stop().await;
                    break;
                }
                Err(error) => say(format_args!("what a former keeper left cannot be ended yet: {error}")),
            }
            sleep(pauses.pause()).await;
        }
        if let Some(place) = &self.order.container {
            self.clear_container(place).await;
        }
        TaskEnding::NodeLost
    }

    /// A container goes on without its keeper.
    async fn clear_container(&self, place: &Place) {
        let (mut pauses, mut complaints) = (BackOff::new(FIRST_PAUSE, LONGEST_PAUSE), Complaints::default());
        while let Err(error) = container::remove(place).await {
            if !self.folder.has("accepted.json") {
                // The agent removes what nobody has any more.
                return;
            }
            complaints.say(&error);
            sleep(pauses.pause()).await;
        }
    }

    fn launcher(&self, first: bool) -> LauncherOptions {
        let order = &self.order.launcher;
        LauncherOptions {
            program: order.program.clone(),
            args: order.args.iter().map(Into::into).collect(),
            id: order.id.clone(),
            first,
            cgroups: order.cgroups,
            // Collectors keep their cadence while tasks take all that is left.
            precedence: Precedence::Background,
            privileges: order.privileges.clone(),
        }
    }

    fn is_told_to_end(&self) -> bool {
        is_told_to_end(&self.folder)
    }
}

/// The complaints of a keeper about one thing, each once in a row: it may try for days.
#[derive(Default)]
struct Complaints {
    last: String,
}

impl Complaints {
    fn say(&mut self, error: &dyn std::fmt::Display) {
        let text = error.to_string();
        if text != self.last {
            say(format_args!("{text}; it is tried again"));
            self.last = text;
        }
    }
}

/// Words in the pipe that wakes the agent: a stage has changed, or there are only lines.
pub const NEWS_OF_STAGE: &[u8] = b"s";
pub const NEWS_OF_LINES: &[u8] = b"l";

/// Says something for the operator, in `keeper.log`. A full disk does not take it, which `eprintln` would end this process for.
fn say(text: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{text}");
}

fn is_told_to_end(folder: &AttemptFolder) -> bool {
    folder.has("stop") || folder.has("gone")
}

fn not_started(error: &dyn std::error::Error) -> TaskEnding {
    TaskEnding::NotStarted(error.to_string())
}

/// Microseconds since 1970.
fn now_micros() -> i64 {
    let since = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}
