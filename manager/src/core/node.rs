//! One node: its agent, its desired state, and the instances that may still run there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use estimand_api::labels::LabelMap;
use estimand_api::names::{DataName, NodeName};
use estimand_api::node::{Delivery, Facts};
use estimand_api::registration::RegistrationRecord;
use estimand_api::slot::Status;

use super::model::{AssignmentRef, Millis, StoredNode};
use super::node_labels::{GivenLabels, NodeLabels};

/// An instance that was dropped from the node's desired state, and may run there still.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DroppedInstance {
    /// It is gone once the agent follows this revision and does not name it as stopping.
    pub revision: u64,
    /// True if everything of it that may run does so by a lease.
    pub leased: bool,
}

#[derive(Debug)]
pub(super) struct NodeEntry {
    pub labels: NodeLabels,
    pub facts: Facts,
    pub agent: String,
    pub boot: u64,
    /// True if this start of its agent has spoken to no former leader.
    pub began_here: bool,
    pub cordoned: bool,
    pub lost: bool,
    /// Its agent has said goodbye; that start of it is over.
    pub left: bool,
    pub seen_us: i64,
    pub created_us: i64,
    /// By then every lease given to it is over.
    pub leased_until: Millis,
    /// The revision that its agent follows.
    pub applied: u64,
    /// Its instances are known once its agent follows this revision.
    pub known_from: u64,
    /// A lease is given once its agent follows this revision: instances of older ones may run elsewhere.
    pub lease_from: u64,
    pub stopping: Vec<DataName>,
    pub delivery: Delivery,
    pub clock_ahead_ms: Option<i64>,
    /// True once all of its statuses have come.
    pub has_all_statuses: bool,
    pub statuses: BTreeMap<DataName, Status>,
    /// The registrations that it should run, by name.
    pub slots: Vec<AssignmentRef>,
    pub revision: u64,
    pub ending: BTreeMap<DataName, DroppedInstance>,
    /// The names of its placements that are not vacant.
    pub placed: BTreeSet<DataName>,
    /// True once it was stored.
    pub stored: bool,
    /// The mark that the data service gave its values last: true for lost, false for back.
    pub marked: Option<bool>,
    /// True if its desired state has changed since the changed nodes were asked for last.
    pub changed: bool,
}

impl NodeEntry {
    /// A node of which nothing is known but that its agent speaks.
    pub fn new(node: &NodeName, agent: String, boot: u64, wall_us: i64) -> Self {
        NodeEntry {
            labels: NodeLabels::new(node.clone(), LabelMap::new(), GivenLabels::default()),
            facts: Facts::default(),
            agent,
            boot,
            began_here: true,
            cordoned: false,
            lost: false,
            left: false,
            seen_us: wall_us,
            created_us: wall_us,
            leased_until: 0,
            applied: 0,
            known_from: 0,
            lease_from: 0,
            stopping: Vec::new(),
            delivery: Delivery::default(),
            clock_ahead_ms: None,
            has_all_statuses: false,
            statuses: BTreeMap::new(),
            slots: Vec::new(),
            revision: 0,
            ending: BTreeMap::new(),
            placed: BTreeSet::new(),
            stored: false,
            marked: Some(false),
            changed: false,
        }
    }

    pub fn from_stored(stored: StoredNode) -> Self {
        let StoredNode { node_name, labels, facts, agent, boot, cordoned, lost, seen_us, created_us } =
            stored;
        let known = NodeEntry::new(&node_name, agent, boot, seen_us);
        let (stored, marked, began_here) = (true, None, false);
        NodeEntry { began_here, labels, facts, cordoned, lost, created_us, stored, marked, ..known }
    }

    pub fn to_stored(&self, node_name: &NodeName) -> StoredNode {
        StoredNode {
            node_name: node_name.clone(),
            labels: self.labels.clone(),
            facts: self.facts.clone(),
            agent: self.agent.clone(),
            boot: self.boot,
            cordoned: self.cordoned,
            lost: self.lost,
            seen_us: self.seen_us,
            created_us: self.created_us,
        }
    }

    /// Makes its instances unknown; its agent has to follow this revision to be trusted again.
    pub fn start_over(&mut self, revision: u64) {
        self.revision = revision;
        self.known_from = revision;
        self.lease_from = revision;
        self.applied = 0;
        self.has_all_statuses = false;
        self.left = false;
        self.stopping.clear();
    }

    /// Its desired state is another; it is listed as changed once.
    pub fn change(&mut self, node: &NodeName, changed: &mut Vec<NodeName>) {
        if !self.changed {
            self.changed = true;
            changed.push(node.clone());
        }
    }

    /// True if nothing more is to come of that start of its agent.
    pub fn is_over(&self, boot: u64) -> bool {
        boot < self.boot || (self.left && boot == self.boot)
    }

    /// True if its agent may follow a state that this leader does not know.
    pub fn is_unknown(&self) -> bool {
        !self.left && self.applied < self.known_from
    }

    /// True if statuses may be kept of instances that do not belong there.
    pub fn is_loose(&self) -> bool {
        self.is_unknown() || !self.stopping.is_empty() || !self.ending.is_empty()
    }

    pub fn slot(&self, name: &DataName) -> Option<&AssignmentRef> {
        self.find(name).ok().and_then(|index| self.slots.get(index))
    }

    /// Makes the name run there; true if that is a change.
    pub fn assign(
        &mut self,
        registered: &Arc<RegistrationRecord>,
        epoch: u64,
        leased: bool,
        revision: u64,
    ) -> bool {
        let found = self.find(&registered.registration.data_name);
        if let Ok(index) = found {
            let slot = &mut self.slots[index];
            let same = slot.registered.version == registered.version && slot.leased == leased;
            if same && slot.epoch == epoch && Arc::ptr_eq(&slot.registered, registered) {
                return false;
            }
            // Another epoch alone ends nothing.
            let since = if same { slot.since } else { revision };
            *slot = AssignmentRef { registered: registered.clone(), epoch, leased, since };
        } else if let Err(index) = found {
            let slot = AssignmentRef { registered: registered.clone(), epoch, leased, since: revision };
            self.slots.insert(index, slot);
        }
        self.revision = revision;
        true
    }

    /// Makes the name run there no more; returns its former assignment.
    pub fn unassign(&mut self, name: &DataName, revision: u64) -> Option<AssignmentRef> {
        let index = self.find(name).ok()?;
        self.revision = revision;
        Some(self.slots.remove(index))
    }

    /// True if a status of that name is worth keeping.
    pub fn concerns(&self, name: &DataName) -> bool {
        self.is_unknown() || self.runs(name)
    }

    /// True if the status is of a counted instance in the version that belongs there.
    pub fn has_placed(&self, status: &Status) -> bool {
        let slot = self.slot(&status.data_name);
        slot.is_some_and(|slot| slot.leased && slot.registered.version == status.version)
    }

    /// True if the name should run there, or may not have ended yet.
    pub fn runs(&self, name: &DataName) -> bool {
        self.slot(name).is_some() || self.ending.contains_key(name) || self.stopping.contains(name)
    }

    /// Another start of its agent counts from 0.
    pub fn forget_counts(&mut self) {
        for status in self.statuses.values_mut() {
            (status.runs, status.failures, status.timeouts) = (0, 0, 0);
            (status.quarantined, status.superseded) = (0, 0);
        }
    }

    pub fn forget_statuses(&mut self) {
        let mut statuses = std::mem::take(&mut self.statuses);
        statuses.retain(|name, _| self.concerns(name));
        self.statuses = statuses;
    }

    fn find(&self, name: &DataName) -> Result<usize, usize> {
        self.slots.binary_search_by(|slot| slot.registered.registration.data_name.cmp(name))
    }
}
