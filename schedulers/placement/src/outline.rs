//! The plan for those who look on: the cluster after a pass, and as much of the queue as says why a task waits.

use std::collections::BTreeSet;

use super::cluster::Cluster;
use super::kept::KeptNode;
use super::queue::{Head, Queue, TaskNumber};

#[derive(Debug, Clone, Default)]
pub struct PlanOutline {
    pub cluster: Cluster,
    /// The first task of each line, in the order of the queue.
    pub heads: Vec<Head>,
    pub kept: Option<KeptNode>,
    /// The tasks that the pass gave a node; it may not be stored yet.
    pub placing: BTreeSet<TaskNumber>,
}

impl PlanOutline {
    pub fn new(cluster: &Cluster, queue: &Queue, placing: BTreeSet<TaskNumber>) -> PlanOutline {
        PlanOutline { cluster: cluster.outline(), heads: queue.heads(), kept: queue.kept.clone(), placing }
    }
}
