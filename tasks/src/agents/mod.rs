//! Our agents as an engine. They ask, and are never called: assignments go by way of the manager, with the desired state of slots;
//! news, the grants of files and tunnels come to routes of this service.

pub mod files;
pub mod news;
pub mod orders;
pub mod tunnels;

use std::sync::Arc;
use std::time::Duration;

use estimand_api::names::NodeName;
use estimand_api::node::Node;
use estimand_api::task::{NodeTasks, NodesTold};
use estimand_client::{Client, PeerError, within};
use estimand_runtime::tunnel::Half;

use crate::TaskService;
use crate::engines::{Engine, EngineError, EngineReply, PlacedAttempt};
use orders::OrderBook;

/// How long a manager may take for an answer,
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// and an agent to make a tunnel.
const MADE_WITHIN: Duration = Duration::from_secs(10);

pub struct Agents {
    manager: Client,
    orders: Arc<OrderBook>,
}

impl TaskService {
    /// The agents of this service, of which a manager knows.
    pub fn agents(&self, manager: Client) -> Agents {
        Agents { manager, orders: Arc::clone(&self.0.tunnel_orders) }
    }
}

impl Engine for Agents {
    fn nodes(&self) -> EngineReply<'_, Vec<Node>> {
        Box::pin(async { Ok(within(ANSWER_WITHIN, self.manager.nodes()).await?) })
    }

    fn assigned(&self) -> EngineReply<'_, NodesTold> {
        Box::pin(async { Ok(within(ANSWER_WITHIN, self.manager.nodes_told()).await?) })
    }

    fn assign<'e>(&'e self, node: &'e NodeName, tasks: &'e NodeTasks) -> EngineReply<'e, NodesTold> {
        Box::pin(async { Ok(within(ANSWER_WITHIN, self.manager.tell_tasks(node, tasks)).await?) })
    }

    fn connect<'e>(&'e self, attempt: &'e PlacedAttempt) -> EngineReply<'e, Half> {
        Box::pin(self.orders.connect(attempt, MADE_WITHIN))
    }
}

impl From<PeerError> for EngineError {
    fn from(error: PeerError) -> Self {
        match error {
            PeerError::Client(error) if matches!(error.status(), Some(404 | 409)) => EngineError::NoNode,
            PeerError::Late(span) => EngineError::Late(span),
            error => EngineError::Failed(error.to_string()),
        }
    }
}
