//! The seam to a thing that runs work on nodes. Our agents are one engine; other people's schedulers may be others.
//!
//! An engine has nodes, takes all that belongs on each of them, and connects to ports. It decides nothing: the planner chose the
//! node, and the placement is stored before it is assigned. Its news (logs, how far attempts are, ends) come back by
//! [`TaskService::take_news`](crate::TaskService::take_news), late or twice as it likes; news of an attempt that is over change nothing.

use std::time::Duration;

use estimand_api::names::NodeName;
use estimand_api::node::Node;
use estimand_api::task::{NodeTasks, NodesTold};
use estimand_runtime::tunnel::Half;
use futures_util::future::BoxFuture;

/// Each method is repeated when it fails, and answers within a time that the engine knows best.
pub trait Engine: Send + Sync {
    /// The nodes: what each has, and whether it is heard of. A node is lost only when slots of it that have a lease are over.
    fn nodes(&self) -> EngineReply<'_, Vec<Node>>;

    /// The nodes that have assignments, and the epoch of the engine's memory. Another epoch has no assignments, and has
    /// heard of nodes by itself.
    fn assigned(&self) -> EngineReply<'_, NodesTold>;

    /// Everything that belongs on a node from now on. What is missing there is started, what is to stop is ended, and what is not
    /// in the list is over: the engine reconciles, and is told again when it has forgotten.
    fn assign<'e>(&'e self, node: &'e NodeName, tasks: &'e NodeTasks) -> EngineReply<'e, NodesTold>;

    /// A connection to the port of an attempt.
    fn connect<'e>(&'e self, attempt: &'e PlacedAttempt) -> EngineReply<'e, Half>;
}

pub type EngineReply<'e, T> = BoxFuture<'e, Result<T, EngineError>>;

/// An attempt at a task, and its node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacedAttempt {
    pub node: String,
    pub id: String,
    pub attempt: u32,
}

#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The next look at the nodes shows it.
    #[error("the node is not there any more, or is lost")]
    NoNode,
    #[error("no answer within {0:?}")]
    Late(Duration),
    #[error("{0}")]
    Failed(String),
}
