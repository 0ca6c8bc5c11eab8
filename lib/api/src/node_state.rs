//! The state of a node.

use serde::{Deserialize, Serialize};

/// The state of a node by its heartbeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum NodeState {
    Ready,
    /// It missed its heartbeats, or its agent said that it leaves.
    Lost,
}

impl NodeState {
    pub fn as_str(self) -> &'static str {
        match self {
            NodeState::Ready => "ready",
            NodeState::Lost => "lost",
        }
    }
}
