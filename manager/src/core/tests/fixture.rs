//! A cluster whose store always answers, and agents that follow their desired state unless a test says
//! otherwise.

use std::sync::Arc;

use estimand_api::names::NodeName;
use estimand_api::node::{Heartbeat, HeartbeatAnswer};

use super::{name, node, registered};
use crate::core::{AgentError, Cluster, Millis, Settings, Step, StoredNode, StoredPlacement};

/// With the defaults a lease is 3 s, and a node is lost a second later.
pub const LEASE_MS: Millis = 3000;
pub const LOST_MS: Millis = LEASE_MS + 1000;

pub struct Fixture {
    pub cluster: Cluster,
    pub now: Millis,
    pub placements: Vec<StoredPlacement>,
    pub nodes: Vec<StoredNode>,
}

impl Fixture {
    pub fn new() -> Self {
        Self::led_by(1, Vec::new(), Vec::new())
    }

    pub fn led_by(epoch: u64, nodes: Vec<StoredNode>, placements: Vec<StoredPlacement>) -> Self {
        let settings = Settings { takeover_ms: 500, ..Settings::default() };
        let cluster = Cluster::new(settings, epoch, nodes.clone(), placements.clone(), 0);
        Fixture { cluster, now: 0, placements, nodes }
    }

    /// Names with how many nodes they are for; 0 is all.
    pub fn register(&mut self, all: &[(usize, u32, u64)]) -> &mut Self {
        let all = all.iter().map(|(index, replicas, version)| {
            Arc::new(registered(name(*index).as_str(), *replicas, "", *version))
        });
        self.cluster.set_registrations(all.collect());
        self.settle()
    }

    pub fn settle(&mut self) -> &mut Self {
        for _ in 0..10 {
            let step = self.cluster.reconcile(self.now, 0);
            if step.store.is_empty() {
                return self;
            }
            self.store(&step);
            self.cluster.committed(step);
        }
        panic!("it never settles");
    }

    pub fn store(&mut self, step: &Step) {
        let store = &step.store;
        self.nodes.retain(|node| !store.delete_nodes.contains(&node.node_name));
        self.placements.retain(|placement| {
            let key = (placement.data_name.clone(), placement.node_name.clone());
            !store.delete_placements.contains(&key) && !store.delete_nodes.contains(&key.1)
        });
        for put in &store.put_nodes {
            self.nodes.retain(|node| node.node_name != put.node_name);
            self.nodes.push(put.clone());
        }
        for put in &store.put_placements {
            self.placements
                .retain(|old| (&old.data_name, &old.node_name) != (&put.data_name, &put.node_name));
            self.placements.push(put.clone());
        }
    }

    pub fn beat(
        &mut self,
        index: usize,
        change: impl FnOnce(&mut Heartbeat),
    ) -> Result<HeartbeatAnswer, AgentError> {
        let applied = self.cluster.desired(&node(index)).map_or(0, |(revision, _)| revision);
        let mut beat =
            Heartbeat { agent: format!("agent-{index}"), boot: 1, applied, ..Heartbeat::default() };
        change(&mut beat);
        let answer = self.cluster.heartbeat(&node(index), beat, 0, self.now);
        self.settle();
        answer
    }

    /// A heartbeat of each of the nodes' agents, which follow their desired states.
    pub fn beats(&mut self, nodes: &[usize]) -> &mut Self {
        for index in nodes {
            self.beat(*index, |_| {}).unwrap();
        }
        self
    }

    pub fn at(&mut self, now: Millis) -> &mut Self {
        self.now = now;
        self.settle()
    }

    /// The names desired on a node, with their epochs, and true for those that are leased.
    pub fn desired(&self, index: usize) -> Vec<(String, u64, bool)> {
        let (_, slots) = self.cluster.desired(&node(index)).unwrap();
        let text = |name: &str| name.to_owned();
        let shown = slots
            .iter()
            .map(|slot| (text(slot.registered.registration.data_name.as_str()), slot.epoch, slot.leased));
        shown.collect()
    }

    pub fn revision(&self, index: usize) -> u64 {
        self.cluster.desired(&node(index)).unwrap().0
    }

    /// Where the one name runs that is registered.
    pub fn where_is(&self, index: usize) -> Vec<NodeName> {
        let views = self.cluster.instance_views(Some(&name(index)), None);
        views.into_iter().filter(|view| view.registered.is_some()).map(|view| view.node_name).collect()
    }

    pub fn takeover(&self, epoch: u64) -> Fixture {
        Fixture::led_by(epoch, self.nodes.clone(), self.placements.clone())
    }
}
