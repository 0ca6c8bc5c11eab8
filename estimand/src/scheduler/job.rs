//! `job`: a plan carried out through the agents, looked on at until every image has an answer.
//!
//! The plan and the report are the result and go to standard output; the bars are remarks. However it ends, nothing of
//! the job is left on the plane, or it is said what is.

use std::io::{self, IsTerminal as _, Write as _};
use std::iter;
use std::path::Path;

use estimand_api::command::{Command, CommandError};
use estimand_scheduler_demo::dispatch::{self, ThroughAgents};
use estimand_scheduler_demo::job::Job;
use estimand_scheduler_demo::plan::Settings;
use estimand_scheduler_demo::planned::Planned;
use estimand_scheduler_demo::report::{self, Live};
use estimand_scheduler_demo::results::merge_folder;
use estimand_scheduler_demo::run::{self, Options, Run};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

use super::{Session, partition};
use crate::cli::job::JobArgs;
use estimand_cli::output::failure::{Exit, Failure};
use estimand_cli::output::{remark, words};

/// An agent hears of a new part in milliseconds, and reports every second: smaller chunks would be waited for.
const SETTINGS: Settings = Settings { min_chunk: 4, ahead_seconds: 1.0, smoothing: 0.4 };
/// Of a terminal that does not say it.
const WIDTH: usize = 80;
/// Of images that have no answer so many are named.
const NAMED: usize = 10;

pub async fn job(session: &mut Session, args: &JobArgs) -> Result<(), Failure> {
    let job =
        of_args(args).map_err(|error| Failure::Usage(format!("this is no worker's command: {error}")))?;
    if let Some(folder) = &args.report {
        // Better said now than when all is done.
        std::fs::create_dir_all(folder).map_err(|error| unwritable(folder, &error))?;
    }
    let planned = partition::plan(&session.client, &args.plan, SETTINGS).await?;
    if !session.out.json {
        session.out.line(planned.to_string().trim_end())?;
        session.out.line("")?;
        session.out.flush()?;
    }
    let mut done = carry_out(session, &job, &planned).await?;
    let answered = take_results(&mut done, &planned, args.param("out").map(Path::new));
    let runs = [done];
    if let Some(folder) = &args.report {
        write(&folder.join("report.json"), &report::to_json(&runs).to_string())?;
        write(&folder.join("report.html"), &report::page(&runs))?;
    }
    match session.out.json {
        true => session.out.pretty(&report::to_json(&runs))?,
        // Workers have had a say in it.
        false => (iter::once("").chain(report::text(&runs).lines()))
            .try_for_each(|line| session.out.line(&words::visible(line)))?,
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

async fn carry_out(session: &Session, job: &Job, planned: &Planned) -> Result<Run, Failure> {
    let name = job.names.job();
    // Another one for every run, wherever it is from.
    let mark = format!("{name}-{}-{}", std::process::id(), chrono::Utc::now().timestamp_micros());
    let mut agents = ThroughAgents::new(session.client.clone(), mark);
    let mut live = live();
    let mut signals = Signals::listen()?;
    let (cancel, cancelled) = oneshot::channel::<()>();
    let outcome = {
        let look = |now: &run::Now| show(&live.show(now));
        let options = Options::new(name);
        let running = run::run(job, planned, &mut agents, &options, async { drop(cancelled.await) }, look);
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
            let why = "it was not waited until the job had ended".to_owned();
            Err(failed(why).hint(ends(name)))
        }
    }
}

/// The first signal cancels the job, which ends in order; this is over at the second one.
async fn twice(signals: &mut Signals, cancel: oneshot::Sender<()>) {
    signals.next().await;
    remark("ending the job; once more, and it is left as it is");
    drop(cancel);
    signals.next().await;
}

fn ends(job: &str) -> String {
    format!("`estimand unregister {job}.work` ends its workers")
}

fn not_run(error: run::Error, name: &str) -> Failure {
    let exit = match &error {
        run::Error::Dispatch(dispatch::Error::Taken { .. }) => Exit::Conflict,
        _ => Exit::Failed,
    };
    match error {
        run::Error::Dispatch(dispatch::Error::Client(error)) => Failure::Client(error),
        run::Error::Cancelled => {
            let why =
                "the job was cancelled; nothing of it is left but the results that there are".to_owned();
            Failure::NotRun { why, exit }
        }
        error @ (run::Error::Left(_) | run::Error::FailedAndLeft { .. }) => {
            Failure::NotRun { why: error.to_string(), exit }.hint(ends(name))
        }
        error => Failure::NotRun { why: error.to_string(), exit },
    }
}

/// Merges what the workers wrote, if it is to be seen from here, and notes what comes of that in the run. Fails if
/// an image has no answer.
fn take_results(run: &mut Run, planned: &Planned, out: Option<&Path>) -> Result<(), Failure> {
    let images = planned.holdings.items();
    if images.is_empty() {
        return Ok(());
    }
    let Some(out) = out else {
        run.notes.push("results were not merged: no parameter `out` says where they are".to_owned());
        return Ok(());
    };
    let folder = out.join(&run.job);
    if !folder.is_dir() {
        run.notes.push(format!("results were not merged: {} is no folder here", folder.display()));
        return Ok(());
    }
    let merged = merge_folder(out, &run.job).map_err(|error| failed(error.to_string()))?;
    run.take_merged(&merged);
    let errors = merged.answers.values().filter(|answer| answer.error.is_some()).count();
    if errors > 0 {
        run.notes.push(format!("{} an error for an answer", have(errors)));
    }
    let missing = merged.missing(images.iter().map(String::as_str));
    if missing.is_empty() {
        return Ok(());
    }
    let why = format!("{} no answer: {}", have(missing.len()), words::some_of(&missing, NAMED));
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
fn live() -> Live {
    let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
    let width = terminal_size::terminal_size_of(io::stderr()).map(|(width, _)| usize::from(width.0));
    Live::new(io::stderr().is_terminal() && !is_dumb, width.unwrap_or(WIDTH))
}

/// Nobody looking on is no reason to end a job.
fn show(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}

/// What asks this process to end.
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
