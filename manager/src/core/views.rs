//! Nodes and instances, as readers see them.

use std::collections::BTreeMap;

use chrono::DateTime;
use estimand_api::names::{DataName, NodeName};
use estimand_api::node::{Node, NodeState};
use estimand_api::slot::{Instance, Status};

use super::Cluster;
use super::model::RemainingNodes;
use super::node::NodeEntry;

impl Cluster {
    pub fn node_views(&self) -> Vec<Node> {
        self.nodes.iter().map(|(node, entry)| entry.view(node)).collect()
    }

    pub fn node_view(&self, node: &NodeName) -> Option<Node> {
        self.nodes.get(node).map(|entry| entry.view(node))
    }

    /// The instances that belong somewhere, and those that still end where they belong no more; of all names or
    /// one, on all nodes or one; by node, then name.
    pub fn instance_views(&self, name: Option<&DataName>, node: Option<&NodeName>) -> Vec<Instance> {
        let mut views = Vec::new();
        match node {
            Some(node) => {
                if let Some((node, entry)) = self.nodes.get_key_value(node) {
                    self.instances_on(node, entry, name, &mut views);
                }
            }
            None => {
                for (node, entry) in &self.nodes {
                    self.instances_on(node, entry, name, &mut views);
                }
            }
        }
        views
    }

    /// The nodes that answer for others, by the name that they run; also those that are about to end it.
    pub fn speakers(&self) -> BTreeMap<DataName, Vec<NodeName>> {
        let registered = self.registered.iter().flatten();
        let many = registered.filter(|(_, of)| of.registration.answers_for_others());
        let nodes_of = |name: &DataName| {
            let running = self.nodes.iter().filter(|(_, entry)| entry.runs(name));
            running.map(|(node, _)| node.clone()).collect()
        };
        many.map(|(name, _)| (name.clone(), nodes_of(name))).collect()
    }

    /// The nodes that may still run an unregistered name or an older version.
    pub fn remaining_nodes(&self, name: &DataName) -> RemainingNodes {
        let mut gone = RemainingNodes::default();
        for (node, entry) in self.nodes.iter().filter(|(_, entry)| entry.may_run_old(name)) {
            let to = if entry.lost { &mut gone.unreachable } else { &mut gone.waiting };
            to.push(node.clone());
        }
        gone
    }

    fn instances_on(
        &self,
        node: &NodeName,
        entry: &NodeEntry,
        only: Option<&DataName>,
        views: &mut Vec<Instance>,
    ) {
        let wanted = |name: &DataName| only.is_none_or(|only| only == name);
        let first = views.len();
        let view = |registered, status| Instance {
            node_name: node.clone(),
            node_state: entry.state(),
            registered,
            status,
        };
        for slot in &entry.slots {
            let name = &slot.registered.registration.data_name;
            if wanted(name) {
                let status = entry.statuses.get(name).cloned();
                let status = status.unwrap_or_else(|| Status::new(name.clone(), slot.registered.version));
                views.push(view(Some(slot.registered.version), status));
            }
        }
        for (name, status) in &entry.statuses {
            if wanted(name) && entry.slot(name).is_none() {
                let registered = self.registered(name).map(|registered| registered.version);
                views.push(view(registered, status.clone()));
            }
        }
        views[first..].sort_by(|a, b| a.status.data_name.cmp(&b.status.data_name));
    }
}

impl NodeEntry {
    fn state(&self) -> NodeState {
        if self.lost { NodeState::Lost } else { NodeState::Ready }
    }

    fn view(&self, node: &NodeName) -> Node {
        Node {
            node_name: node.clone(),
            state: self.state(),
            cordoned: self.cordoned,
            labels: self.labels.clone(),
            facts: self.facts.clone(),
            last_heartbeat: DateTime::from_timestamp_micros(self.seen_us).unwrap_or_default(),
            known_since: DateTime::from_timestamp_micros(self.created_us).unwrap_or_default(),
            instances: self.slots.len() as u64,
            delivery: self.delivery.clone(),
        }
    }

    fn may_run_old(&self, name: &DataName) -> bool {
        if self.left {
            return false;
        }
        let slot = self.slot(name);
        let stopping = slot.is_none() && self.stopping.contains(name);
        let overtaken = slot.is_some_and(|slot| slot.since > self.applied);
        self.ending.contains_key(name) || self.is_unknown() || stopping || overtaken
    }
}
