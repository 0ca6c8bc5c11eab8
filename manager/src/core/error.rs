//! Why the cluster rejects a call.

use estimand_api::labels::MAX_LABELS;
use estimand_api::names::NodeName;

/// Why an agent is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AgentError {
    /// Only a heartbeat makes a node known.
    #[error("node {0} has not been heard of; its agent says first how it is")]
    UnknownNode(NodeName),
    /// A later start of the same agent was heard of.
    #[error(
        "the agent of node {node} was started again since: this is start {given}, start {known} was heard of"
    )]
    Superseded { node: NodeName, given: u64, known: u64 },
    #[error("another agent is node {0}, and was heard of a moment ago")]
    NodeTaken(NodeName),
}

/// Why the labels of a node are not changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LabelError {
    #[error("there is no node `{0}`")]
    UnknownNode(NodeName),
    #[error("node `{node}` would have {count} labels set by operators; expected at most {MAX_LABELS}")]
    TooMany { node: NodeName, count: usize },
}

/// Why a node is not removed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RemoveError {
    #[error("there is no node `{0}`")]
    UnknownNode(NodeName),
    #[error("node `{0}` is heard of: end its agent first, and remove the node when it is lost")]
    NotLost(NodeName),
}
