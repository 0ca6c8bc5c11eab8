//! Nodes and instances, as readers see them.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::DateTime;
use estimand_api::names::{DataName, NodeName};
use estimand_api::node::{Node, NodeState};
use estimand_api::registration::{RegistrationRecord, Replicas};
use estimand_api::slot::{Instance, InstanceSummary, SlotActivity, Status};
use estimand_api::value::{Place, Producers};

use super::Cluster;
use super::model::RemainingNodes;
use super::node::NodeEntry;
use super::node_labels::LabelMatch;
use super::place::Suitability;
use super::placements::PlacementPhase;
use super::reconcile::epoch;
use super::run_counts::RunCount;

/// Of how many nodes the reasons are told.
const MAX_REASONS: usize = 16;

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

    /// How the instances of each registration are, by its name.
    pub fn instance_summaries(&self) -> BTreeMap<DataName, InstanceSummary> {
        let (mut summaries, mut views) = (BTreeMap::new(), Vec::new());
        for (node, entry) in &self.nodes {
            self.instances_on(node, entry, None, &mut views);
            for instance in views.drain(..) {
                let name = &instance.status.data_name;
                let summary =
                    summaries.entry(name.clone()).or_insert_with(|| InstanceSummary::new(name.clone()));
                summary.count(&instance);
            }
        }
        summaries
    }

    /// How often each registration has run and failed, and on how many nodes it fails now.
    pub fn run_counts(&self) -> BTreeMap<DataName, (RunCount, u64)> {
        let names = self.registered.iter().flat_map(|registered| registered.keys());
        let mut counts: BTreeMap<_, _> =
            names.map(|name| (name.clone(), (self.run_counts.of(name), 0))).collect();
        for entry in self.nodes.values() {
            for status in entry.statuses.values().filter(|status| status.failing > 0) {
                if let Some((_, failing)) = counts.get_mut(&status.data_name) {
                    *failing += 1;
                }
            }
        }
        counts
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

    /// The nodes on which each name is produced; none before the registry was read. A node that is about to end an
    /// instance still runs it.
    pub fn producers(&self, time_to_live: u64) -> Option<Producers> {
        let registered = self.registered.as_ref()?;
        let place = |(name, of): (&DataName, &Arc<RegistrationRecord>)| {
            let nodes =
                || self.nodes.iter().filter(|(_, entry)| entry.runs(name)).map(|(node, _)| node.clone());
            let place = match &of.registration {
                registration if registration.answers_for_others() => Place::Anywhere,
                _ if nodes().count() == self.nodes.len() => Place::All,
                _ => Place::Nodes(nodes().collect()),
            };
            (name.clone(), place)
        };
        let nodes = self.nodes.keys().cloned().collect();
        Some(Producers { time_to_live, nodes, names: registered.iter().map(place).collect() })
    }

    /// The highest epoch that was given for each name; none before the registry was read.
    pub fn epochs(&self) -> Option<BTreeMap<DataName, u64>> {
        let given = |(name, of): (&DataName, &Arc<RegistrationRecord>)| {
            (name.clone(), epoch(of, self.placements.stored_moves(name)))
        };
        Some(self.registered.as_ref()?.iter().map(given).collect())
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

    /// The reasons of the other nodes that cannot run a counted instance, if its own node cannot either. While there was
    /// one that may, the instance would be there. Where all of them only lack what it measures nothing is amiss.
    fn passed_over(&self, name: &DataName, own: &NodeName) -> BTreeMap<NodeName, String> {
        let reports = &self.run_reports;
        if reports.suitability(name, own) != Suitability::Unsuitable {
            return BTreeMap::new();
        }
        let heard = |node: &NodeName| self.nodes.get(node).is_some_and(|entry| !entry.lost);
        let others = || reports.unsuitable(name).filter(|(node, _)| *node != own && heard(node));
        if reports.is_absent(name, own) && others().all(|(node, _)| reports.is_absent(name, node)) {
            return BTreeMap::new();
        }
        others().take(MAX_REASONS).map(|(node, reason)| (node.clone(), reason.to_owned())).collect()
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
        let view = |registered, status, passed_over| Instance {
            node_name: node.clone(),
            node_state: entry.state(),
            registered,
            passed_over,
            status,
        };
        for slot in &entry.slots {
            let name = &slot.registered.registration.data_name;
            if wanted(name) {
                let status = entry.statuses.get(name).cloned();
                let status = status.unwrap_or_else(|| Status::new(name.clone(), slot.registered.version));
                let passed_over = if slot.leased { self.passed_over(name, node) } else { BTreeMap::new() };
                views.push(view(Some(slot.registered.version), status, passed_over));
            }
        }
        for (name, status) in &entry.statuses {
            if wanted(name) && entry.slot(name).is_none() {
                let registered = self.registered(name).map(|registered| registered.version);
                views.push(view(registered, status.clone(), BTreeMap::new()));
            }
        }
        for registered in self.refused_matches(entry, only) {
            let name = registered.registration.data_name.clone();
            let refusal = entry.labels.refusal(&registered.registration, node.as_str());
            let mut status = Status::new(name, registered.version);
            (status.doing, status.last_error) = (SlotActivity::Refused, Some(refusal));
            views.push(view(Some(registered.version), status, BTreeMap::new()));
        }
        views[first..].sort_by(|a, b| a.status.data_name.cmp(&b.status.data_name));
    }

    /// The registrations that are not for the node because its labels are only claimed. One that runs on a number of
    /// nodes is not missed here if there are enough others.
    fn refused_matches<'a>(
        &'a self,
        entry: &'a NodeEntry,
        only: Option<&'a DataName>,
    ) -> impl Iterator<Item = &'a Arc<RegistrationRecord>> {
        let registered =
            self.registered.iter().flatten().filter(move |(name, _)| only.is_none_or(|only| only == *name));
        let refused = registered.filter(|(name, one)| {
            entry.labels.matches(&one.registration) == LabelMatch::OnlyClaimed
                && !entry.statuses.contains_key(*name)
                && self.is_short_of(name, one)
        });
        refused.map(|(_, one)| one)
    }

    /// True if the registration runs on fewer nodes than it should.
    fn is_short_of(&self, name: &DataName, one: &RegistrationRecord) -> bool {
        match one.registration.replicas {
            Replicas::All => true,
            Replicas::Count(count) => {
                let placed = self.placements.of(name).filter(|(_, row)| row.phase != PlacementPhase::Vacant);
                placed.count() < count as usize
            }
        }
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
            agent: Some(self.agent.clone()),
            left: self.lost && self.left,
            cordoned: self.cordoned,
            labels: self.labels.all().clone(),
            label_sources: self.labels.sources(),
            facts: self.facts.clone(),
            last_heartbeat: DateTime::from_timestamp_micros(self.seen_us).unwrap_or_default(),
            known_since: DateTime::from_timestamp_micros(self.created_us).unwrap_or_default(),
            instances: self.slots.len() as u64,
            delivery: self.delivery.clone(),
            clock_ahead_ms: self.clock_ahead_ms,
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
