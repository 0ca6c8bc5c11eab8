//! The ledger as a fold of decisions that were made before: nodes, promises, and the tasks on them are counted as they are.
//! Nothing is planned anew here, so whoever has decided says what moves and what breaks.

use crate::amounts::{Amounts, Shape};
use crate::ids::{NodeId, PromiseId};
use crate::ledger::Ledger;
use crate::node::Standing;
use crate::promise::{Claim, Promise, Stage};
use crate::window::Tick;

impl Ledger {
    /// Counts a node as it is now. Promises and loans on it stay, whether there is room for them or not.
    pub fn put_node(&mut self, name: &str, class: &str, capacity: &Amounts) -> NodeId {
        let id = self.node(name).unwrap_or_else(|| self.add_node(name));
        let counted: Vec<_> =
            capacity.iter().map(|(resource, amount)| (self.number(resource), amount)).collect();
        let mut by_number = vec![0; self.resources.len()];
        for (number, amount) in counted {
            by_number[number] = amount;
        }
        let node = &mut self.nodes[id.index()];
        class.clone_into(&mut node.class);
        node.capacity = by_number;
        self.freed.insert(id);
        id
    }

    /// A node stands otherwise. Promises on it stay.
    pub fn set_standing(&mut self, id: NodeId, standing: Standing) {
        if let Some(node) = self.nodes.get_mut(id.index()) {
            node.standing = standing;
            self.freed.insert(id);
        }
    }

    /// It is that tick now. Promises that are over stay until they are released.
    pub fn set_now(&mut self, now: Tick) {
        self.now = self.now.max(now);
    }

    /// Counts a promise that was given before, whether there is room for it or not.
    pub fn adopt(&mut self, claims: Vec<Claim>, value: u64, stage: Stage) -> PromiseId {
        let id = PromiseId(self.next);
        self.next += 1;
        self.put(id, Promise { claims, value, stage });
        id
    }

    /// A task is on a node by a promise, whose claim has its capacity over time.
    pub fn occupy(&mut self, node: NodeId, shape: &Shape) {
        if let Some(place) = self.nodes.get_mut(node.index()) {
            place.change_occupied(shape, |occupied, amount| occupied + amount);
        }
    }

    /// A task has left the promise by which it was on a node.
    pub fn vacate(&mut self, node: NodeId, shape: &Shape) {
        if let Some(place) = self.nodes.get_mut(node.index()) {
            place.change_occupied(shape, u128::saturating_sub);
            self.freed.insert(node);
        }
    }
}
