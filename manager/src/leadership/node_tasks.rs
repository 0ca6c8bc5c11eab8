//! The tasks of each node, as the task service told them: passed on to the node's agent, and not looked into.
//!
//! They live in memory. A later leadership knows none, and leaves them out until it is told. So it is with those of a node
//! that is lost, because they may be placed elsewhere before the node is heard of again.

use std::collections::BTreeMap;
use std::time::Instant;

use bytes::Bytes;
use estimand_api::names::NodeName;

use crate::desired::ToldTasks;

#[derive(Debug, Default)]
pub struct NodeTaskLists(BTreeMap<NodeName, ToldTasks>);

impl NodeTaskLists {
    /// Keeps a node's tasks, an array as JSON; false if they are what was told before.
    pub fn set(&mut self, node: &NodeName, tasks: Bytes) -> bool {
        let told = ToldTasks { tasks, at: Instant::now() };
        let before = self.0.insert(node.clone(), told.clone());
        before.is_none_or(|before| before.tasks != told.tasks)
    }

    pub fn of(&self, node: &NodeName) -> Option<&ToldTasks> {
        self.0.get(node)
    }

    pub fn nodes(&self) -> Vec<NodeName> {
        self.0.keys().cloned().collect()
    }

    pub fn forget(&mut self, node: &NodeName) {
        self.0.remove(node);
    }
}
