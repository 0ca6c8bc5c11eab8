//! The interface between a run and the workers: starts them, writes their parts, reports their progress. Agents stand
//! behind it, a virtual cluster in tests, and perhaps a job system one day.
//!
//! A dispatcher owns the clock too, so that a run in virtual time is the same code as a real one. It decides nothing:
//! [`crate::run`] decides that a node is lost.

mod agents;

use std::future::Future;

use estimand_api::names::NameError;
use estimand_client as client;

use crate::job::{Job, Part, Progress};

pub use agents::AgentDispatcher;

/// An event of a job. Nodes are named.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A worker's line of progress; `said_at` is by its node's clock, in seconds.
    Line { node: String, said_at: f64, progress: Progress },
    /// The node, or its worker, is known not to work.
    Trouble { node: String, why: String },
}

/// A part for a node.
pub type Parts = Vec<(String, Part)>;

/// Runs a job's workers.
pub trait Dispatcher {
    /// Seconds on a clock that never goes back.
    fn now(&self) -> f64;

    /// Has workers started on all nodes that the job names. They have no part yet.
    fn start(&mut self, job: &Job) -> impl Future<Output = Result<(), Error>>;

    /// Replaces the parts of these nodes; all of them, or none if it fails.
    fn write(&mut self, parts: &Parts) -> impl Future<Output = Result<(), Error>>;

    /// The next event, or None at `until`. May be dropped without losing an event.
    fn next(&mut self, until: f64) -> impl Future<Output = Result<Option<Event>, Error>>;

    /// The latest event of the node's worker; None: it never said anything.
    fn look(&mut self, node: &str) -> impl Future<Output = Result<Option<Event>, Error>>;

    /// Ends the workers and clears everything away, however far `start` got. Returns a remark if the end of workers could
    /// not be confirmed.
    fn stop(&mut self) -> impl Future<Output = Result<Option<String>, Error>>;
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Client(#[from] client::Error),
    #[error(transparent)]
    Name(#[from] NameError),
    #[error(
        "`{name}` is registered already: a job of that name runs, or was left by a scheduler that was killed; \
         choose another name, or end it with `estimand unregister {name}`"
    )]
    NameTaken { name: String },
    #[error("values of `{name}` keep arriving although no registration produces them")]
    ValuesRemain { name: String },
    #[error("the watch of `{name}` has ended")]
    WatchEnded { name: String },
}
