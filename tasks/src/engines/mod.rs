//! The seam to a thing that runs work on nodes. Our agents are one engine; other people's schedulers may be others.
//!
//! An engine has nodes, takes all that belongs on each of them, and connects to ports. It decides nothing: the planner chose the
//! node, and the placement is stored before it is assigned. Its news (logs, how far attempts are, ends) come back by
//! [`TaskService::take_news`], late or twice as it likes; news of an attempt that is over change nothing.

pub mod agents;

use std::time::Duration;

use estimand_api::names::NodeName;
use estimand_api::node::Node;
use estimand_api::problem::Problem;
use estimand_api::task::{NodeTasks, NodesTold, TaskNews};
use estimand_client::Client;
use estimand_runtime::tunnel::Half;
use futures_util::future::BoxFuture;

use crate::TaskService;
use crate::requests::News;
use agents::Agents;

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

impl TaskService {
    /// The agents of this service, of which a manager knows.
    pub fn agents(&self, manager: Client) -> Agents {
        Agents::new(manager, self.0.tunnel_orders.clone())
    }

    /// Takes the news of an engine, which came at this instant (microseconds since 1970). News about other nodes than this one are
    /// passed over; none: about any. Returns when they are stored.
    pub async fn take_news(&self, news: TaskNews, came: i64, node: Option<&str>) -> Result<(), Problem> {
        let TaskNews { logs, reports, open } = news;
        // Unfinished lines are not stored, so news of them alone waits for no disk.
        if !logs.is_empty() || !reports.is_empty() || open.is_empty() {
            self.change(News { logs, reports, came, node: node.map(str::to_owned) }).await?;
        }
        if !open.is_empty() {
            self.shared().table.loaded(|_| ())?;
            self.shared().show_open(open, node);
        }
        Ok(())
    }
}
