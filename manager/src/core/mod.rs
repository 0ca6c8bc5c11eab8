//! The cluster as a value: its nodes, its registrations, and the instances on each node that follow from
//! them.
//!
//! It does no I/O, has no clock and waits for nothing: its caller passes on heartbeats with the time, stores
//! the changes of [`Cluster::reconcile`], and gives the agents the desired states of [`Cluster::desired`].
//! Calls in any order are right; the desired state follows only from registrations, heartbeats and the stored
//! state.
//!
//! Invariant: a registration that runs on a number of nodes never may run on more. Its instance is delivered
//! only after its placement was stored; it counts until its agent said that it is gone or its lease is over;
//! and a lease is given only to an agent that follows a state without instances that were given away since.
//! This rests on the agents: each counts a lease from when it sent the heartbeat, has its leased processes
//! gone by the end of the lease, follows no revision lower than one it has followed, and says that it follows
//! one only when that is on its disk.
//!
//! How the shell uses it: one lock around it. After each call that changes something, and at `next_wake`:
//! `while wants_reconcile() { step = reconcile(now, wall); if !step.store.is_empty() { store it;
//! committed(step) or failed(step) (a step of unknown outcome has failed; then pause) } }`, then wake the
//! polls of `changed_nodes()`, and send the marks of `marks()` to the data service, then `marked(…)`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use estimand_api::labels::MAX_LABELS;
use estimand_api::labels::{LabelChanges, LabelMap};
use estimand_api::names::{DataName, NodeName};
use estimand_api::registration::RegistrationRecord;

mod error;
mod heartbeat;
mod model;
mod node;
mod node_labels;
mod place;
mod placements;
mod reconcile;
mod run_counts;
mod run_reports;
mod views;

pub use error::{AgentError, LabelError, RemoveError};
pub use model::{
    AssignmentRef, AuditedChange, ClusterChanges, Millis, RemainingNodes, Settings, Step, StoredNode,
    StoredPlacement,
};

pub use node_labels::{GivenLabels, NodeLabels};

use node::{DroppedInstance, NodeEntry};
use placements::{PlacementPhase, Placements};
pub use run_counts::RunCount;
use run_counts::RunCounts;
use run_reports::RunReports;

#[derive(Debug)]
pub struct Cluster {
    settings: Settings,
    nodes: BTreeMap<NodeName, NodeEntry>,
    /// How many nodes are stored, which decides how often they are heard of: a new leader counts the same.
    stored_nodes: u64,
    /// None until the registry was read.
    registered: Option<BTreeMap<DataName, Arc<RegistrationRecord>>>,
    /// From then on no former leader answers any agent.
    alone_from: Millis,
    placements: Placements,
    /// The nodes on which a counted registration was refused or failed.
    run_reports: RunReports,
    run_counts: RunCounts,
    /// The nodes where an instance was told to end and has not yet: the `ending` of all nodes, by name.
    endings: BTreeMap<DataName, BTreeSet<NodeName>>,
    /// The latest revision of any node's desired state; those of a later leader are higher.
    revision: u64,
    /// True once this call has drawn a revision; all changes of a call share it.
    drawn: bool,
    wall_us: i64,
    /// To be looked at again: names that are registered otherwise, names whose placements may have to change, and
    /// nodes for all names.
    anew: BTreeSet<DataName>,
    dirty_names: BTreeSet<DataName>,
    dirty_nodes: BTreeSet<NodeName>,
    /// True if nodes have come or gone, so that any counted registration may have to move.
    shifted: bool,
    /// Nodes to delete from the store.
    removed: BTreeSet<NodeName>,
    /// Nodes to write to the store.
    unwritten: BTreeSet<NodeName>,
    in_flight: bool,
    wanted: bool,
    /// The nodes whose desired state has changed; their entries say so too.
    changed: Vec<NodeName>,
    to_mark: BTreeSet<NodeName>,
    /// The nodes that were lost since they were asked for last.
    newly_lost: Vec<NodeName>,
    /// True if labels may be others since they were asked for last.
    relabelled: bool,
    /// Lines of the audit trail that are not stored yet.
    audit: Vec<AuditedChange>,
}

impl Cluster {
    /// The cluster of a new leader. Nodes count as just heard of, unless they are stored as lost; placements as
    /// running, unless their node is lost or gone.
    pub fn new(
        settings: Settings,
        lead_epoch: u64,
        nodes: Vec<StoredNode>,
        placements: Vec<StoredPlacement>,
        now: Millis,
    ) -> Self {
        let revision = (lead_epoch << 32) | 1;
        let mut cluster = Cluster {
            nodes: BTreeMap::new(),
            stored_nodes: nodes.len() as u64,
            registered: None,
            alone_from: now + settings.takeover_ms,
            settings,
            placements: Placements::default(),
            run_reports: RunReports::default(),
            run_counts: RunCounts::default(),
            endings: BTreeMap::new(),
            revision,
            drawn: false,
            wall_us: 0,
            anew: BTreeSet::new(),
            dirty_names: BTreeSet::new(),
            dirty_nodes: BTreeSet::new(),
            shifted: false,
            removed: BTreeSet::new(),
            unwritten: BTreeSet::new(),
            in_flight: false,
            wanted: true,
            changed: Vec::new(),
            to_mark: BTreeSet::new(),
            newly_lost: Vec::new(),
            relabelled: false,
            audit: Vec::new(),
        };
        // Until it is silent the former leader gives leases.
        let leased_until = cluster.alone_from + cluster.lease_ms();
        for stored in nodes {
            let name = stored.node_name.clone();
            let mut entry = NodeEntry::from_stored(stored);
            entry.start_over(revision);
            entry.leased_until = leased_until;
            if entry.lost {
                cluster.to_mark.insert(name.clone());
            }
            cluster.nodes.insert(name, entry);
        }
        for placement in placements {
            let (name, node) = (placement.data_name.clone(), placement.node_name.clone());
            let entry = cluster.nodes.get_mut(&node).filter(|entry| !entry.lost);
            let phase = if entry.is_some() { PlacementPhase::Stored } else { PlacementPhase::Vacant };
            cluster.placements.load(placement, phase);
            if let Some(entry) = entry {
                entry.placed.insert(name.clone());
                // As if it had just been taken away: it is kept, if it still belongs there.
                entry.ending.insert(name.clone(), DroppedInstance { revision, leased: true });
                cluster.endings.entry(name).or_default().insert(node);
            }
        }
        cluster
    }

    /// The whole registry; cheap when nothing changed. Before its first call nothing is desired.
    pub fn set_registrations(&mut self, all: Vec<Arc<RegistrationRecord>>) {
        let first = self.registered.is_none();
        let mut before = self.registered.take().unwrap_or_default();
        let mut registered = BTreeMap::new();
        for new in all {
            let name = new.registration.data_name.clone();
            match before.remove(&name) {
                Some(old) if Arc::ptr_eq(&old, &new) || *old == *new => drop(registered.insert(name, old)),
                _ => {
                    self.anew.insert(name.clone());
                    registered.insert(name, new);
                }
            }
        }
        before.keys().for_each(|name| self.run_counts.forget(name));
        self.anew.extend(before.into_keys());
        // Another version may run where the one before it did not.
        self.anew.iter().for_each(|name| self.run_reports.forget_name(name));
        if first {
            self.anew.extend(self.placements.names().cloned());
            for (node, entry) in &mut self.nodes {
                entry.change(node, &mut self.changed);
            }
        }
        self.registered = Some(registered);
        self.wanted |= !self.anew.is_empty();
    }

    pub fn registered(&self, name: &DataName) -> Option<&Arc<RegistrationRecord>> {
        self.registered.as_ref()?.get(name)
    }

    /// Adds a line to the audit trail; it is stored with the next step.
    pub fn audit(&mut self, change: AuditedChange) {
        self.audit.push(change);
        self.wanted = true;
    }

    /// Keeps further counted instances away from a node, or lets them come. None if there is no such node.
    pub fn cordon(&mut self, node: &NodeName, cordoned: bool) -> Option<()> {
        let entry = self.nodes.get_mut(node)?;
        if entry.cordoned != cordoned {
            entry.cordoned = cordoned;
            self.touch(node);
        }
        Some(())
    }

    /// Changes the labels that operators have set on a node.
    pub fn label(&mut self, node: &NodeName, changes: &LabelChanges) -> Result<(), LabelError> {
        let entry = self.nodes.get_mut(node).ok_or_else(|| LabelError::UnknownNode(node.clone()))?;
        let mut labels = entry.labels.clone();
        if !labels.change(changes) {
            return Ok(());
        }
        let count = labels.given().operator.len();
        if count > MAX_LABELS {
            return Err(LabelError::TooMany { node: node.clone(), count });
        }
        entry.labels = labels;
        self.rematch(node);
        Ok(())
    }

    /// The labels that the credential of the node's agent binds to it.
    pub fn bind_labels(&mut self, node: &NodeName, bound: &LabelMap) {
        if self.nodes.get_mut(node).is_some_and(|entry| entry.labels.set_credential(bound)) {
            self.rematch(node);
        }
    }

    /// The labels of nodes that follow from values; a node that is not named has none.
    pub fn set_labels_of_values(&mut self, of_values: &BTreeMap<NodeName, LabelMap>) {
        let none = LabelMap::new();
        let changed: Vec<NodeName> = self
            .nodes
            .iter_mut()
            .filter_map(|(node, entry)| {
                entry.labels.set_of_values(of_values.get(node).unwrap_or(&none)).then(|| node.clone())
            })
            .collect();
        changed.iter().for_each(|node| self.rematch(node));
    }

    /// True if labels may be others than at the last call.
    pub fn take_relabelled(&mut self) -> bool {
        std::mem::take(&mut self.relabelled)
    }

    /// All labels of all nodes.
    pub fn labels(&self) -> BTreeMap<NodeName, LabelMap> {
        self.nodes.iter().map(|(node, entry)| (node.clone(), entry.labels.all().clone())).collect()
    }

    /// Checks that a node may be removed as it is now.
    pub fn check_removable(&self, node: &NodeName) -> Result<(), RemoveError> {
        self.lost_node(node).map(drop)
    }

    /// Forgets a lost node. If it is heard of again, it is a new one.
    pub fn remove(&mut self, node: &NodeName) -> Result<(), RemoveError> {
        let names: Vec<_> = self.lost_node(node)?.ending.keys().cloned().collect();
        for name in names {
            forget(&mut self.endings, &name, node);
        }
        self.nodes.remove(node);
        self.placements.node_removed(node);
        self.run_reports.forget_node(node);
        self.unwritten.remove(node);
        self.dirty_nodes.remove(node);
        self.to_mark.remove(node);
        self.removed.insert(node.clone());
        (self.wanted, self.relabelled) = (true, true);
        Ok(())
    }

    /// The revision of the node's desired state, and its assignments by name. None if the node is unknown or
    /// the registrations are.
    pub fn desired(&self, node: &NodeName) -> Option<(u64, &[AssignmentRef])> {
        let entry = self.nodes.get(node).filter(|_| self.registered.is_some())?;
        Some((entry.revision, &entry.slots))
    }

    /// Gives the node's desired state another revision, because a part of it changed that is none of the cluster's. None
    /// if there is no such node.
    pub fn renew(&mut self, node: &NodeName) -> Option<()> {
        let entry = self.nodes.get_mut(node)?;
        self.revision += 1;
        entry.revision = self.revision;
        self.drawn = false;
        Some(())
    }

    /// The nodes that were lost since the last call, whether or not they are back.
    pub fn take_newly_lost(&mut self) -> Vec<NodeName> {
        std::mem::take(&mut self.newly_lost)
    }

    /// The nodes whose desired state has changed since the last call.
    pub fn changed_nodes(&mut self) -> Vec<NodeName> {
        let changed = std::mem::take(&mut self.changed);
        for node in &changed {
            if let Some(entry) = self.nodes.get_mut(node) {
                entry.changed = false;
            }
        }
        changed
    }

    /// The nodes whose values are to be marked: true for a lost node, false for one that is back.
    pub fn marks(&self) -> Vec<(NodeName, bool)> {
        let lost = |node| self.nodes.get(node).is_some_and(|entry: &NodeEntry| entry.lost);
        self.to_mark.iter().map(|node| (node.clone(), lost(node))).collect()
    }

    /// The data service has marked the node's values so.
    pub fn marked(&mut self, node: &NodeName, lost: bool) {
        let Some(entry) = self.nodes.get_mut(node) else { return };
        entry.marked = Some(lost);
        if entry.lost == lost {
            self.to_mark.remove(node);
        }
    }

    fn lost_node(&self, node: &NodeName) -> Result<&NodeEntry, RemoveError> {
        match self.nodes.get(node) {
            None => Err(RemoveError::UnknownNode(node.clone())),
            Some(entry) if !entry.lost => Err(RemoveError::NotLost(node.clone())),
            Some(entry) => Ok(entry),
        }
    }

    fn interval_ms(&self) -> Millis {
        let shared = self.stored_nodes * 1000 / self.settings.heartbeats_per_second.max(1);
        shared.max(self.settings.min_heartbeat_ms)
    }

    fn lease_ms(&self) -> Millis {
        self.interval_ms() * self.settings.missed
    }

    /// The revision of all changes of this call.
    fn draw(&mut self) -> u64 {
        if !self.drawn {
            self.drawn = true;
            self.revision += 1;
        }
        self.revision
    }

    /// The revision that [`draw`](Self::draw) would give.
    fn next(&self) -> u64 {
        self.revision + u64::from(!self.drawn)
    }

    /// The node is to be written, and counted instances may come or go.
    fn touch(&mut self, node: &NodeName) {
        self.unwritten.insert(node.clone());
        (self.shifted, self.wanted) = (true, true);
    }

    /// Other registrations may match the node than before.
    fn rematch(&mut self, node: &NodeName) {
        self.dirty_nodes.insert(node.clone());
        self.relabelled = true;
        self.touch(node);
    }
}

fn forget(endings: &mut BTreeMap<DataName, BTreeSet<NodeName>>, name: &DataName, node: &NodeName) {
    if let Some(nodes) = endings.get_mut(name) {
        nodes.remove(node);
        if nodes.is_empty() {
            endings.remove(name);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
