//! An engine in memory, which does what a test has it do.

use std::future::ready;

use estimand_api::names::NodeName;
use estimand_api::node::Node;
use estimand_api::task::{NodeTasks, NodesTold};
use estimand_runtime::tunnel::Half;
use estimand_tasks::{Engine, EngineError, EngineReply, PlacedAttempt};
use serde_json::json;

use crate::support::{Shared, State};

pub struct FakeEngine(pub Shared);

impl FakeEngine {
    /// Answers at once, unless it is away.
    fn reply<T: Send + 'static>(
        &self,
        answer: impl FnOnce(&mut State) -> Result<T, EngineError>,
    ) -> EngineReply<'_, T> {
        let mut state = self.0.lock().unwrap();
        let away = EngineError::Failed("away".to_owned());
        Box::pin(ready(if state.away { Err(away) } else { answer(&mut state) }))
    }
}

impl Engine for FakeEngine {
    fn nodes(&self) -> EngineReply<'_, Vec<Node>> {
        self.reply(|state| Ok(serde_json::from_value(json!(state.nodes)).unwrap()))
    }

    fn assigned(&self) -> EngineReply<'_, NodesTold> {
        self.reply(|state| {
            let nodes = state.told.keys().map(|node| NodeName::parse(node).unwrap()).collect();
            Ok(NodesTold { epoch: state.epoch, nodes })
        })
    }

    fn assign<'e>(&'e self, node: &'e NodeName, tasks: &'e NodeTasks) -> EngineReply<'e, NodesTold> {
        self.reply(|state| {
            let is_there = state.tell(node.as_str(), json!(tasks));
            is_there
                .then(|| NodesTold { epoch: state.epoch, nodes: vec![node.clone()] })
                .ok_or(EngineError::NoNode)
        })
    }

    fn connect<'e>(&'e self, attempt: &'e PlacedAttempt) -> EngineReply<'e, Half> {
        self.reply(|_| Err(EngineError::Failed(format!("nothing listens at {}", attempt.id))))
    }
}
