//! The cluster as placement sees it: the ledger, and beside each of its nodes what is known of it.

use std::sync::Arc;

use estimand_api::labels::LabelMap;
use estimand_capacity::{Ledger, NodeId, Resource, Standing};

use super::Millis;
use super::nodes::Offer;
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
    fn new(id: NodeId, name: &str) -> NodeView {
        NodeView {
            id,
            name: name.into(),
            labels: LabelMap::new(),
            bound_labels: LabelMap::new(),
            refuses_users: false,
            cpu: ONE_PROCESSOR,
            pressure: NodePressure::default(),
            tasks: 0,
            expected: 0,
        }
    }

    /// A task that is expected to take so many thousandths of a processor is placed here.
    pub fn place(&mut self, cpu: u64) {
        self.count(cpu);
        self.load(cpu);
    }

    /// The same without its pressure.
    pub fn count(&mut self, cpu: u64) {
        self.tasks += 1;
        self.expected = self.expected.saturating_add(cpu);
    }

    /// The opposite of counting.
    pub fn uncount(&mut self, cpu: u64) {
        self.tasks = self.tasks.saturating_sub(1);
        self.expected = self.expected.saturating_sub(cpu);
    }

    /// The pressure of a task that is placed here and has not started.
    pub fn load(&mut self, cpu: u64) {
        self.pressure.placed(self.thousandths(cpu));
    }

    /// It starts.
    pub fn start(&mut self, at: Millis, cpu: u64) {
        self.pressure.started(at, self.thousandths(cpu));
    }

    /// The pressure of a task that is here no more, whether it has started or not.
    pub fn relieve(&mut self, at: Millis, cpu: u64, had_started: bool) {
        if had_started {
            self.pressure.ended(at, self.thousandths(cpu));
        } else {
            self.pressure.withdrawn(self.thousandths(cpu));
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

    /// Adds a node, or changes what it has. What is there stays.
    pub fn put_node(&mut self, offer: &Offer) {
        let known = self.ledger.node(&offer.name);
        let id = match known.filter(|id| self.ledger.capacity(*id) == offer.capacity) {
            Some(id) if self.ledger.class(id) == offer.class() => id,
            _ => self.ledger.put_node(&offer.name, offer.class(), &offer.capacity),
        };
        if self.ledger.standing(id) != offer.standing {
            self.ledger.set_standing(id, offer.standing);
        }
        if self.nodes.len() <= id.index() {
            self.nodes.resize_with(id.index() + 1, || None);
        }
        let declared = Resource::parse(CPU).map_or(0, |cpu| offer.capacity.get(&cpu));
        let view = self.nodes[id.index()].get_or_insert_with(|| NodeView::new(id, &offer.name));
        let known = (&view.labels, &view.bound_labels, view.refuses_users);
        if known != (&offer.labels, &offer.bound_labels, offer.refuses_users) {
            view.labels.clone_from(&offer.labels);
            view.bound_labels.clone_from(&offer.bound_labels);
            view.refuses_users = offer.refuses_users;
            // Tasks that found no room are told that it is another node now.
            self.ledger.set_standing(id, offer.standing);
        }
        view.cpu = if declared == 0 { ONE_PROCESSOR } else { declared };
    }

    /// Takes a node out on which nothing is counted.
    pub fn forget(&mut self, name: &str) {
        let Some(id) = self.ledger.node(name) else { return };
        self.ledger.set_standing(id, Standing::Lost);
        if self.ledger.forget(name).is_ok() {
            self.nodes[id.index()] = None;
        }
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
