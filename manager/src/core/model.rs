//! Values that go into the cluster and come out of it.

use std::sync::Arc;

use estimand_api::names::{DataName, NodeName};
use estimand_api::node::Facts;
use estimand_api::registration::RegistrationRecord;

use super::node_labels::NodeLabels;

/// Milliseconds of a clock that only grows, since any moment.
pub type Millis = u64;

/// How nodes are watched.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The shortest interval of heartbeats.
    pub min_heartbeat_ms: u64,
    /// How many heartbeats a second are taken from the whole cluster.
    pub heartbeats_per_second: u64,
    /// After how many missed heartbeats a lease ends.
    pub missed: u64,
    /// How much later than its lease's end a node is lost.
    pub margin_ms: u64,
    /// How long after [`Cluster::new`] a former leader may still answer agents.
    pub takeover_ms: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            min_heartbeat_ms: 1000,
            heartbeats_per_second: 1000,
            missed: 3,
            margin_ms: 1000,
            takeover_ms: 0,
        }
    }
}

/// A node as it is stored.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredNode {
    pub node_name: NodeName,
    pub labels: NodeLabels,
    pub facts: Facts,
    pub agent: String,
    pub boot: u64,
    pub cordoned: bool,
    pub lost: bool,
    /// Microseconds since 1970, like all `…_us`.
    pub seen_us: i64,
    pub created_us: i64,
}

/// A placement as it is stored. Its node need not exist any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredPlacement {
    pub data_name: DataName,
    pub node_name: NodeName,
    pub moves: u32,
    pub placed_us: i64,
}

/// A line of the audit trail: an operator's change to a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditedChange {
    pub at_us: i64,
    /// Distinguishes it from others of the same instant.
    pub id: String,
    pub node: NodeName,
    pub action: &'static str,
    /// The operator's name.
    pub actor: String,
    /// JSON.
    pub detail: Option<String>,
}

/// Changes to be stored, all or nothing: deletes first, the placements of a deleted node go with it, and rows that
/// are put are added or replaced. Nothing is put twice.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ClusterChanges {
    pub delete_nodes: Vec<NodeName>,
    pub delete_placements: Vec<(DataName, NodeName)>,
    pub put_nodes: Vec<StoredNode>,
    pub put_placements: Vec<StoredPlacement>,
    pub audit: Vec<AuditedChange>,
}

/// The outcome of a look at the cluster.
#[derive(Debug, Clone, Default, PartialEq)]
#[must_use]
pub struct Step {
    /// Empty while an earlier step is neither committed nor failed.
    pub store: ClusterChanges,
    /// When to look again if nothing happens before.
    pub next_wake: Option<Millis>,
}

/// One registration that belongs on a node.
#[derive(Debug, Clone, PartialEq)]
pub struct AssignmentRef {
    pub registered: Arc<RegistrationRecord>,
    pub epoch: u64,
    pub leased: bool,
    /// The revision in which it came to be as it is.
    pub(super) since: u64,
}

/// The nodes that may still run an instance of a name that is not registered, or an older version of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RemainingNodes {
    pub waiting: Vec<NodeName>,
    /// Lost nodes: their agents cannot say.
    pub unreachable: Vec<NodeName>,
}

impl ClusterChanges {
    pub fn is_empty(&self) -> bool {
        self.delete_nodes.is_empty()
            && self.delete_placements.is_empty()
            && self.put_nodes.is_empty()
            && self.put_placements.is_empty()
            && self.audit.is_empty()
    }
}
