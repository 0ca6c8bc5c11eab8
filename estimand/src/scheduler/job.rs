//! `job`: carries a plan out through the agents until every image has a result.
//!
//! The plan and the report are the result and go to standard output; the bars are remarks. At every end the job is
//! removed from the plane, or a message names the rest.

use std::io::{self, IsTerminal as _, Write as _};
use std::iter;
use std::path::Path;

use estimand_api::command::{Command, CommandError};
use estimand_scheduler_demo::dispatch::{self, AgentDispatcher};
use estimand_scheduler_demo::job::Job;
use estimand_scheduler_demo::job_plan::JobPlan;
use estimand_scheduler_demo::plan::DynamicSettings;
use estimand_scheduler_demo::report::{self, LiveBars};
use estimand_scheduler_demo::results::merge_folder;
use estimand_scheduler_demo::run::{self, Options, Run};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

use super::{Session, partition};
use crate::cli::job::JobArgs;
use estimand_cli::output::failure::{Exit, Failure};
use estimand_cli::output::{harmless, remark, words};

/// An agent gets a new part in milliseconds, and reports every second: a worker would wait for smaller chunks.
const SETTINGS: DynamicSettings = DynamicSettings { min_chunk: 4, ahead_seconds: 1.0, smoothing: 0.4 };
/// Width of a terminal that does not report its own.
const WIDTH: usize = 80;
/// So many of the images without a result are named.
const NAMED: usize = 10;

pub async fn job(session: &mut Session, args: &JobArgs) -> Result<(), Failure> {
    let job =
        of_args(args).map_err(|error| Failure::Usage(format!("the worker's command is invalid: {error}")))?;
    if let Some(folder) = &args.report {
        // A bad folder fails now, not after the work.
        std::fs::create_dir_all(folder).map_err(|error| unwritable(folder, &error))?;
    }
    let job_plan = partition::plan(&session.client, &args.plan, SETTINGS).await?;
    if !session.out.json {
        session.out.line(job_plan.to_string().trim_end())?;
        session.out.line("")?;
        session.out.flush()?;
    }
    let mut done = carry_out(session, &job, &job_plan).await?;
    let answered = take_results(&mut done, &job_plan, args.param("out").map(Path::new));
    let runs = [done];
    if let Some(folder) = &args.report {
        write(&folder.join("report.json"), &report::to_json(&runs).to_string())?;
        write(&folder.join("report.html"), &report::page(&runs))?;
    }
    match session.out.json {
        true => session.out.pretty(&report::to_json(&runs))?,
        // Workers wrote some of this text.
        false => (iter::once("").chain(report::text(&runs).lines()))
            .try_for_each(|line| session.out.line(&harmless::visible(line)))?,
    }
    answered
}

fn of_args(args: &JobArgs) -> Result<Job, CommandError> {
    let command = match args.worker.as_slice() {
        [line] => Command::line(line)?,
        words => Command::words(words.to_vec())?,
    };
    let mut job = Job::new(args.name.clone(), command);
    job.params = args.params.iter().map(|(key, value)| (key.clone(), value.as_str().into())).collect();
    Ok(job)
}

async fn carry_out(session: &Session, job: &Job, job_plan: &JobPlan) -> Result<Run, Failure> {
    let name = job.names.job();
    // Different for every run on any machine.
    let mark = format!("{name}-{}-{}", std::process::id(), chrono::Utc::now().timestamp_micros());
    let mut agents = AgentDispatcher::new(session.client.clone(), mark);
    let mut live = live();
    let mut signals = Signals::listen()?;
    let (cancel, cancelled) = oneshot::channel::<()>();
    let outcome = {
        let look = |now: &run::RunProgress| show(&live.show(now));
        let options = Options::new(name);
        let running = run::run(job, job_plan, &mut agents, &options, async { drop(cancelled.await) }, look);
        tokio::select! {
            outcome = running => Some(outcome),
            () = twice(&mut signals, cancel) => None,
        }
    };
    show(&live.end());
    match outcome {
        Some(Ok(run)) => Ok(run),
        Some(Err(error)) => Err(not_run(error, name)),
        None => {
            let why = "the command ended before the job".to_owned();
            Err(failed(why).hint(ends(name)))
        }
    }
}

/// The first signal cancels the job, which ends in order; the second one ends this function.
async fn twice(signals: &mut Signals, cancel: oneshot::Sender<()>) {
    signals.next().await;
    remark("ending the job; a second interrupt leaves it as it is");
    drop(cancel);
    signals.next().await;
}

fn ends(job: &str) -> String {
    format!("`estimand unregister {job}.work` ends its workers")
}

fn not_run(error: run::Error, name: &str) -> Failure {
    let exit = match &error {
        run::Error::Dispatch(dispatch::Error::NameTaken { .. }) => Exit::Conflict,
        _ => Exit::Failed,
    };
    match error {
        run::Error::Dispatch(dispatch::Error::Client(error)) => Failure::Client(error),
        run::Error::Cancelled => {
            let why = "the job was cancelled; only its results so far are left".to_owned();
            Failure::NotRun { why, exit }
        }
        error @ (run::Error::CleanupFailed(_) | run::Error::FailedCleanup { .. }) => {
            Failure::NotRun { why: error.to_string(), exit }.hint(ends(name))
        }
        error => Failure::NotRun { why: error.to_string(), exit },
    }
}

/// Merges the workers' results if their folder is visible here, and adds remarks to the run. Fails if an image has no
/// result.
fn take_results(run: &mut Run, job_plan: &JobPlan, out: Option<&Path>) -> Result<(), Failure> {
    let images = job_plan.holdings.items();
    if images.is_empty() {
        return Ok(());
    }
    let Some(out) = out else {
        run.notes.push("results were not merged: no parameter `out` says where they are".to_owned());
        return Ok(());
    };
    let folder = out.join(&run.job);
    if !folder.is_dir() {
        run.notes.push(format!("results were not merged: {} is not a folder here", folder.display()));
        return Ok(());
    }
    let merged = merge_folder(out, &run.job).map_err(|error| failed(error.to_string()))?;
    run.add_results(&merged);
    let errors = merged.results.values().filter(|answer| answer.error.is_some()).count();
    if errors > 0 {
        run.notes.push(format!("{} an error instead of a label", have(errors)));
    }
    let missing = merged.missing(images.iter().map(String::as_str));
    if missing.is_empty() {
        return Ok(());
    }
    let why = format!("{} no result: {}", have(missing.len()), words::some_of(&missing, NAMED));
    run.notes.push(why.clone());
    Err(failed(why))
}

fn failed(why: String) -> Failure {
    Failure::NotRun { why, exit: Exit::Failed }
}

fn have(images: usize) -> String {
    format!("{} {}", words::count(images, "image"), if images == 1 { "has" } else { "have" })
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text).map_err(|error| unwritable(path, &error))
}

fn unwritable(path: &Path, error: &io::Error) -> Failure {
    failed(format!("cannot write {}: {error}", path.display()))
}

/// Bars on standard error.
fn live() -> LiveBars {
    let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
    let width = terminal_size::terminal_size_of(io::stderr()).map(|(width, _)| usize::from(width.0));
    LiveBars::new(io::stderr().is_terminal() && !is_dumb, width.unwrap_or(WIDTH))
}

/// A failed write of progress is no reason to end a job.
fn show(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}

/// Signals that end this process.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn listen() -> io::Result<Signals> {
        let [interrupt, terminate] = [SignalKind::interrupt(), SignalKind::terminate()].map(signal);
        Ok(Signals { interrupt: interrupt?, terminate: terminate? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
