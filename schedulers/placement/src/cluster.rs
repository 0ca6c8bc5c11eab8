//! The cluster as placement sees it: the ledger, and beside each of its nodes what is known of it.

use std::sync::Arc;

use estimand_api::labels::{LabelMap, NODE_LABEL};
use estimand_capacity::{Amounts, Ledger, NodeId, Replan, Resource};

use super::Millis;
use super::pressure::NodePressure;

/// The resource whose unit is a thousandth of a processor.
pub const CPU: &str = "cpu";
/// The processors of a node that declares no number of them.
const ONE_PROCESSOR: u64 = 1000;

#[derive(Debug, Clone)]
pub struct NodeView {
    pub id: NodeId,
    pub name: Arc<str>,
    pub labels: LabelMap,
    /// Those of them that the node cannot say otherwise.
    pub bound_labels: LabelMap,
    /// It runs no processes of users' tasks.
    pub refuses_users: bool,
    /// Processor time in thousandths.
    pub cpu: u64,
    pub pressure: NodePressure,
    /// How many tasks are placed there.
    pub tasks: u32,
    /// The processor time in thousandths that they are expected to take.
    pub expected: u64,
}

impl NodeView {
    /// A task that is expected to take so many thousandths of a processor is placed here.
    pub fn place(&mut self, cpu: u64) {
        self.tasks += 1;
        self.expected = self.expected.saturating_add(cpu);
        self.pressure.placed(self.thousandths(cpu));
    }

    /// It starts.
    pub fn start(&mut self, at: Millis, cpu: u64) {
        self.pressure.started(at, self.thousandths(cpu));
    }

    /// It is here no more, whether it has started or not.
    pub fn leave(&mut self, at: Millis, cpu: u64, had_started: bool) {
        self.tasks = self.tasks.saturating_sub(1);
        self.expected = self.expected.saturating_sub(cpu);
        match had_started {
            true => self.pressure.ended(at, self.thousandths(cpu)),
            false => self.pressure.withdrawn(self.thousandths(cpu)),
        }
    }

    /// Nothing that is expected to run here would have to share a processor with such a task.
    pub fn is_free_for(&self, cpu: u64) -> bool {
        self.tasks == 0 || self.expected.saturating_add(cpu) <= self.cpu
    }

    /// How full its processors are with such a task, in millionths of what they can do.
    pub fn fullness(&self, cpu: u64) -> u64 {
        let millionths = (u128::from(self.expected) + u128::from(cpu)) * 1_000_000 / u128::from(self.cpu);
        u64::try_from(millionths).unwrap_or(u64::MAX)
    }

    /// The pressure of work that takes so many thousandths of a processor.
    pub fn thousandths(&self, weight: u64) -> u64 {
        u64::try_from(u128::from(weight) * 1000 / u128::from(self.cpu)).unwrap_or(u64::MAX)
    }
}

#[derive(Debug, Clone, Default)]
pub struct Cluster {
    pub ledger: Ledger,
    /// By the ledger's numbers of nodes.
    nodes: Vec<Option<NodeView>>,
}

impl Cluster {
    pub fn new(ledger: Ledger) -> Cluster {
        Cluster { ledger, nodes: Vec::new() }
    }

    /// The same for those who look on, with as much of the ledger as is near.
    pub fn outline(&self) -> Cluster {
        Cluster { ledger: self.ledger.outline(), nodes: self.nodes.clone() }
    }

    /// Adds a node, or changes what it has. Nodes with the same labels and capacity count as alike, whatever their names.
    pub fn set_node(&mut self, name: &str, labels: LabelMap, capacity: &Amounts) -> (NodeId, Replan) {
        let kind: Vec<_> = labels.iter().filter(|(key, _)| *key != NODE_LABEL).collect();
        let class = serde_json::to_string(&(kind, capacity)).unwrap_or_default();
        let (id, replan) = self.ledger.set_node(name, &class, capacity);
        let declared = Resource::parse(CPU).map_or(0, |cpu| capacity.get(&cpu));
        let cpu = if declared == 0 { ONE_PROCESSOR } else { declared };
        if self.nodes.len() <= id.index() {
            self.nodes.resize_with(id.index() + 1, || None);
        }
        let known = self.nodes[id.index()].take().filter(|node| &*node.name == name);
        let view = match known {
            Some(node) => NodeView { labels, cpu, ..node },
            None => NodeView {
                id,
                name: name.into(),
                labels,
                bound_labels: LabelMap::new(),
                refuses_users: false,
                cpu,
                pressure: NodePressure::default(),
                tasks: 0,
                expected: 0,
            },
        };
        self.nodes[id.index()] = Some(view);
        (id, replan)
    }

    /// Takes a node out on which nothing is placed; false if something is.
    pub fn forget(&mut self, name: &str) -> bool {
        let Some(id) = self.ledger.node(name) else { return true };
        if self.node(id).is_some_and(|node| node.tasks > 0) || self.ledger.lose(name).is_err() {
            return false;
        }
        let forgotten = self.ledger.forget(name).is_ok();
        if forgotten && let Some(place) = self.nodes.get_mut(id.index()) {
            *place = None;
        }
        forgotten
    }

    pub fn node(&self, id: NodeId) -> Option<&NodeView> {
        self.nodes.get(id.index())?.as_ref()
    }

    pub fn node_mut(&mut self, id: NodeId) -> Option<&mut NodeView> {
        self.nodes.get_mut(id.index())?.as_mut()
    }

    pub fn nodes(&self) -> impl Iterator<Item = &NodeView> {
        self.nodes.iter().flatten()
    }
}
