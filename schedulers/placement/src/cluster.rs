//! The cluster as placement sees it: the ledger, and beside each of its nodes what is known of it.

use std::sync::Arc;

use estimand_api::labels::LabelMap;
use estimand_api::resources::PLACES;
use estimand_api::task::CONTAINERS_LABEL;
use estimand_capacity::{Holder, Ledger, NodeId, Resource, Shape, Shares, Standing};

use super::Millis;
use super::nodes::Offer;
use super::pressure::NodePressure;
use super::user_places::UserPlaces;

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
    /// How many tasks it takes at once, and the part of that which it keeps for users who have less.
    pub places: u64,
    pub kept: u64,
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
            places: 0,
            kept: 0,
            pressure: NodePressure::default(),
            tasks: 0,
            expected: 0,
        }
    }

    /// The node runs containers.
    pub fn runs_containers(&self) -> bool {
        self.labels.contains_key(CONTAINERS_LABEL)
    }

    /// The node runs tasks of users, in containers at least.
    pub fn runs_users(&self) -> bool {
        !self.refuses_users || self.runs_containers()
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
    pub(super) nodes: Vec<Option<NodeView>>,
    pub places: UserPlaces,
    /// The shares of users and frameworks, if the queue is in the order of these.
    pub shares: Option<Shares>,
}

impl Cluster {
    pub fn new(ledger: Ledger) -> Cluster {
        Cluster { ledger, ..Cluster::default() }
    }

    /// The same for those who look on, with as much of the ledger as is near.
    pub fn outline(&self) -> Cluster {
        let nodes = self.nodes.clone();
        Cluster { ledger: self.ledger.outline(), nodes, places: self.places.clone(), shares: None }
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
        let declared = |name: &str| Resource::parse(name).map_or(0, |resource| offer.capacity.get(&resource));
        let view = self.nodes[id.index()].get_or_insert_with(|| NodeView::new(id, &offer.name));
        let known = (&view.labels, &view.bound_labels, view.refuses_users);
        if known != (&offer.labels, &offer.bound_labels, offer.refuses_users) {
            view.labels.clone_from(&offer.labels);
            view.bound_labels.clone_from(&offer.bound_labels);
            view.refuses_users = offer.refuses_users;
            // Tasks that found no room are told that it is another node now.
            self.ledger.set_standing(id, offer.standing);
        }
        view.cpu = if declared(CPU) == 0 { ONE_PROCESSOR } else { declared(CPU) };
        view.places = declared(PLACES);
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

    /// Shares are parts of the nodes as they are now.
    pub(super) fn follow_shares(&mut self) {
        if let Some(shares) = &mut self.shares {
            shares.follow_nodes(&self.ledger);
        }
    }

    /// Counts a loan with the shares of whoever has it; on a promise that is nobody.
    pub(super) fn count_loan(&mut self, holder: Option<&Holder>, shape: &Shape) {
        if let (Some(shares), Some(holder)) = (&mut self.shares, holder) {
            shares.lend(holder, shape);
        }
    }

    /// Counts a loan no more.
    pub(super) fn uncount_loan(&mut self, holder: Option<&Holder>, shape: &Shape) {
        if let (Some(shares), Some(holder)) = (&mut self.shares, holder) {
            shares.take_back(holder, shape);
        }
    }

    /// Counts a task on a node that is expected to take so many thousandths of a processor, and a place of the user's if it is
    /// one's.
    pub fn count(&mut self, node: NodeId, cpu: u64, user: Option<&Arc<str>>) {
        self.places.add(user);
        if let Some(view) = self.node_mut(node) {
            view.tasks += 1;
            view.expected = view.expected.saturating_add(cpu);
        }
    }

    /// The opposite of counting.
    pub fn uncount(&mut self, node: NodeId, cpu: u64, user: Option<&Arc<str>>) {
        self.places.subtract(user);
        if let Some(view) = self.node_mut(node) {
            view.tasks = view.tasks.saturating_sub(1);
            view.expected = view.expected.saturating_sub(cpu);
        }
    }
}
