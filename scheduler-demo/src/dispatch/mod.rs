//! What carries a job's work to nodes and brings back how far they are: the seam behind which agents, a virtual
//! cluster or, one day, a job system stand.
//!
//! It has the clock, too, so that a run in virtual time is the same code as a real one. It decides nothing: whether a
//! node counts as lost is [`crate::run`]'s business.

mod agents;

use std::future::Future;

use estimand_api::names::NameError;
use estimand_client as client;

use crate::job::{Job, Part, Progress};

pub use agents::ThroughAgents;

/// Something that happened to a job. Nodes by their names.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A worker said how far it is; `said_at` is by its node's clock, in seconds.
    Line { node: String, said_at: f64, progress: Progress },
    /// The node, or its worker, is known not to work.
    Trouble { node: String, why: String },
}

/// A part for a node.
pub type Parts = Vec<(String, Part)>;

/// Runs a job's workers.
pub trait Dispatch {
    /// Seconds on a clock that never goes back.
    fn now(&self) -> f64;

    /// Has workers started on all nodes that the job names. They have no part yet.
    fn start(&mut self, job: &Job) -> impl Future<Output = Result<(), Error>>;

    /// Replaces the parts of these nodes; all of them, or none if it fails.
    fn write(&mut self, parts: &Parts) -> impl Future<Output = Result<(), Error>>;

    /// The next that happens, or None when it is `until`. May be dropped without losing anything.
    fn next(&mut self, until: f64) -> impl Future<Output = Result<Option<Event>, Error>>;

    /// What is to be seen of the node's worker now; None: nothing was ever said.
    fn look(&mut self, node: &str) -> impl Future<Output = Result<Option<Event>, Error>>;

    /// Ends the workers and leaves nothing behind, however far `start` got. What it answers could not be confirmed.
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
    Taken { name: String },
    #[error("values of `{name}` come again although nothing is registered that gives any")]
    Left { name: String },
    #[error("the values of `{name}` are watched no more")]
    Deaf { name: String },
}
