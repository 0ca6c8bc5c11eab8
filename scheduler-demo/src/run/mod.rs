//! Runs a job from its first worker to its last image, with any policy and dispatcher.
//!
//! [`run`] carries out the orders of the policy; [`assignment`] tracks the items of each node, [`record`] the events.
//! However a run ends (complete, failed or cancelled), the dispatcher is stopped and clears everything away.

mod assignment;
mod drive;
mod record;
#[cfg(test)]
mod tests;

use std::future::Future;

use crate::dispatch::{self, Dispatcher};
use crate::job::Job;
use crate::job_plan::JobPlan;
use crate::plan;

pub use record::{NodeRecord, Run, RunEvent, RunEventKind, Span};

use drive::Driver;

/// Options of a run. Times are in seconds.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Title of the run in a report.
    pub title: String,
    /// True: all workers begin together, so that no figure includes the start of a worker.
    pub together: bool,
    /// The longest wait for the first line of a worker.
    pub start_patience: f64,
    /// A worker that is silent for this long is lost.
    pub silence: f64,
    /// The longest time without any worker, or without an answer of the plane.
    pub last_patience: f64,
}

impl Options {
    pub fn new(title: impl Into<String>) -> Self {
        Options {
            title: title.into(),
            together: true,
            start_patience: 120.0,
            silence: 10.0,
            last_patience: 60.0,
        }
    }
}

/// Progress of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunProgress {
    /// Seconds since the work began; none before that.
    pub seconds: Option<f64>,
    pub done: usize,
    pub of: usize,
    pub nodes: Vec<NodeProgress>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct NodeProgress {
    pub name: String,
    pub state: WorkerState,
    /// Items that count as its work.
    pub done: usize,
    /// Items that it did or has.
    pub of: usize,
    /// Images a second, as its worker reports them.
    pub fps: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkerState {
    Starting,
    Ready,
    Working,
    Lost,
}

impl WorkerState {
    pub fn as_str(self) -> &'static str {
        match self {
            WorkerState::Starting => "starting",
            WorkerState::Ready => "ready",
            WorkerState::Working => "working",
            WorkerState::Lost => "lost",
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Plan(#[from] plan::Error),
    #[error(transparent)]
    Dispatch(#[from] dispatch::Error),
    #[error("it was cancelled")]
    Cancelled,
    #[error("no worker was at work for {seconds:.0} s, and {left} images are left; the last problem: {last}")]
    NoWorkers { seconds: f64, left: usize, last: String },
    /// The run was complete, but not cleared away.
    #[error("the job's registration and values could not be removed: {0}")]
    CleanupFailed(#[source] dispatch::Error),
    /// The same for a run that failed.
    #[error("{before}; and the job's registration and values could not be removed: {left}")]
    FailedCleanup { before: Box<Error>, left: dispatch::Error },
}

/// Runs the job by its plan. `on_progress` is called a few times a second and at the end.
pub async fn run<D: Dispatcher>(
    job: &Job,
    job_plan: &JobPlan,
    dispatch: &mut D,
    options: &Options,
    cancelled: impl Future<Output = ()>,
    on_progress: impl FnMut(&RunProgress),
) -> Result<Run, Error> {
    let mut driver = Driver::new(job, job_plan, &mut *dispatch, options, on_progress)?;
    let outcome = tokio::select! {
        outcome = driver.drive() => outcome,
        () = cancelled => Err(Error::Cancelled),
    };
    let mut run = driver.finish();
    match (outcome, dispatch.stop().await) {
        (Ok(()), Ok(unconfirmed)) => {
            run.notes.extend(unconfirmed);
            Ok(run)
        }
        (Ok(()), Err(left)) => Err(Error::CleanupFailed(left)),
        (Err(error), Ok(_)) => Err(error),
        (Err(error), Err(left)) => Err(Error::FailedCleanup { before: Box::new(error), left }),
    }
}
