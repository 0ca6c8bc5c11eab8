//! Nodes that are to be removed as soon as their values are deleted, and the requests that wait for that.

use std::collections::BTreeMap;

use estimand_api::names::NodeName;
use tokio::sync::oneshot;

use crate::core::RemoveError;

/// Why a node is not removed, or not yet.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RemovalError {
    #[error(transparent)]
    Rejected(#[from] RemoveError),
    #[error("the data service has not deleted the node's values: {0}; this goes on")]
    Postponed(String),
}

type Outcome = Result<(), RemovalError>;

#[derive(Debug, Default)]
pub struct Removals(BTreeMap<NodeName, Vec<oneshot::Sender<Outcome>>>);

impl Removals {
    pub fn request(&mut self, node: &NodeName) -> oneshot::Receiver<Outcome> {
        let (reply, outcome) = oneshot::channel();
        let waiting = self.0.entry(node.clone()).or_default();
        waiting.retain(|other| !other.is_closed());
        waiting.push(reply);
        outcome
    }

    pub fn nodes(&self) -> Vec<NodeName> {
        self.0.keys().cloned().collect()
    }

    /// Answers the requests that wait for this removal, which is over.
    pub fn finish(&mut self, node: &NodeName, outcome: &Outcome) {
        for waiting in self.0.remove(node).into_iter().flatten() {
            // A request that was given up does not wait.
            let _ = waiting.send(outcome.clone());
        }
    }

    /// Answers all requests that wait; the removals go on.
    pub fn postpone(&mut self, cause: &str) {
        for waiting in self.0.values_mut().flat_map(std::mem::take) {
            let _ = waiting.send(Err(RemovalError::Postponed(cause.to_owned())));
        }
    }
}
