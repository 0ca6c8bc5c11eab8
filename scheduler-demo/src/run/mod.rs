//! A job from its first worker to its last image, by whatever policy and dispatcher.
//!
//! [`run`] asks the policy and does what it says; [`hands`] knows what each node has, [`record`] what happened when.
//! However a run ends, by its end, an error or because it was cancelled, the dispatcher is told to stop, and leaves
//! nothing.

mod drive;
mod hands;
mod record;
#[cfg(test)]
mod tests;

use std::future::Future;

use crate::dispatch::{self, Dispatch};
use crate::job::Job;
use crate::plan;
use crate::planned::Planned;

pub use record::{Happening, Lane, Run, Span, What};

use drive::Driver;

/// How patient a run is. All in seconds.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// What the run is called in a report.
    pub title: String,
    /// Whether all begin together, so that the time it takes to start a worker is in no figure.
    pub together: bool,
    /// Until a worker is there that has been started.
    pub start_patience: f64,
    /// A worker that says nothing for so long is lost.
    pub silence: f64,
    /// How long to go on with nobody at work, or with a plane that answers nothing.
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

/// How far a run is, for whoever looks on.
#[derive(Debug, Clone, PartialEq)]
pub struct Now {
    /// Seconds since the work began; none before that.
    pub seconds: Option<f64>,
    pub done: usize,
    pub of: usize,
    pub nodes: Vec<NodeNow>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct NodeNow {
    pub name: String,
    pub standing: Standing,
    /// What it did that counts.
    pub done: usize,
    /// What it did and what it has.
    pub of: usize,
    /// As its worker says.
    pub fps: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    Starting,
    Ready,
    Working,
    Lost,
}

impl Standing {
    pub fn as_str(self) -> &'static str {
        match self {
            Standing::Starting => "starting",
            Standing::Ready => "ready",
            Standing::Working => "working",
            Standing::Lost => "lost",
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
    #[error(
        "no worker was at work for {seconds:.0} s, and {left} images are left; the last that was heard: {last}"
    )]
    NobodyLeft { seconds: f64, left: usize, last: String },
    /// The run was over, and something could not be cleared away.
    #[error("what the job left could not be cleared away: {0}")]
    Left(#[source] dispatch::Error),
    /// The same of a run that did not come to its end.
    #[error("{before}; and what the job left could not be cleared away: {left}")]
    FailedAndLeft { before: Box<Error>, left: dispatch::Error },
}

/// Runs the job as planned. `look` is told how far it is, a few times a second and at the end.
pub async fn run<D: Dispatch>(
    job: &Job,
    planned: &Planned,
    dispatch: &mut D,
    options: &Options,
    cancelled: impl Future<Output = ()>,
    look: impl FnMut(&Now),
) -> Result<Run, Error> {
    let mut driver = Driver::new(job, planned, &mut *dispatch, options, look)?;
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
        (Ok(()), Err(left)) => Err(Error::Left(left)),
        (Err(error), Ok(_)) => Err(error),
        (Err(error), Err(left)) => Err(Error::FailedAndLeft { before: Box::new(error), left }),
    }
}
