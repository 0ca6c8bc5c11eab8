//! Where and when something would fit among the nodes of a class.
//!
//! A *unit* is one shape on one node, all through a window. Wide work asks for several units with one window, which may
//! share a node. Cost: a look at each node of the class for each instant at which one of them has more free than before.

use std::collections::BTreeSet;

use crate::amounts::Shape;
use crate::ids::NodeId;
use crate::ledger::Ledger;
use crate::node::{Node, Standing};
use crate::trial::Trial;
use crate::window::{Tick, Window};

/// How many instants are looked at for the first at which something fits.
const MAX_INSTANTS: usize = 1_000;

impl Trial<'_> {
    /// The node of each unit, if there are places for all of them: first on the nodes that have room for the fewest, so that
    /// what is wide finds room elsewhere.
    pub fn place_units(&self, class: &str, shape: &Shape, window: Window, units: u64) -> Option<Vec<NodeId>> {
        if window.start() < self.ledger.now {
            return None;
        }
        let mut rooms: Vec<(u64, NodeId)> =
            self.ledger.of(class).map(|(id, _)| (self.units(id, shape, window), id)).collect();
        rooms.retain(|(room, _)| *room > 0);
        rooms.sort_unstable();
        let mut places = Vec::new();
        for (room, id) in rooms {
            let missing = units - places.len() as u64;
            let here = usize::try_from(room.min(missing)).unwrap_or(usize::MAX);
            places.extend(std::iter::repeat_n(id, here));
        }
        (places.len() as u64 == units).then_some(places)
    }

    /// How many units there is room for, all through a window.
    pub fn room(&self, class: &str, shape: &Shape, window: Window) -> u64 {
        let units = self.ledger.of(class).map(|(id, _)| self.units(id, shape, window));
        units.fold(0, u64::saturating_add)
    }

    /// The first start from `from` on at which so many units fit for so long; none if they never do, or if that is not
    /// found among the first instants at which something ends.
    pub fn first_fit(&self, class: &str, shape: &Shape, units: u64, from: Tick, ticks: u64) -> Option<Tick> {
        let from = from.max(self.ledger.now);
        let mut instants = BTreeSet::from([from]);
        for (id, _) in self.ledger.of(class) {
            for (resource, _) in shape.parts() {
                instants.extend(self.falls_after(id, resource, from));
            }
        }
        instants.into_iter().take(MAX_INSTANTS).find(|start| {
            let window = Window::lasting(*start, ticks).ok();
            window.is_some_and(|window| self.room(class, shape, window) >= units)
        })
    }

    /// How often a shape fits on a node all through a window.
    fn units(&self, node: NodeId, shape: &Shape, window: Window) -> u64 {
        let units = shape.parts().map(|(resource, amount)| self.free(node, resource, window) / amount);
        units.min().unwrap_or(0)
    }
}

impl Ledger {
    /// The node of each unit, see [`Trial::place_units`].
    pub fn place_units(&self, class: &str, shape: &Shape, window: Window, units: u64) -> Option<Vec<NodeId>> {
        self.trial().place_units(class, shape, window, units)
    }

    /// How many units there is room for, all through a window.
    pub fn room(&self, class: &str, shape: &Shape, window: Window) -> u64 {
        self.trial().room(class, shape, window)
    }

    /// How many units there would be room for if nothing were promised.
    pub fn most_room(&self, class: &str, shape: &Shape) -> u64 {
        self.of(class).fold(0, |sum, (_, node)| sum.saturating_add(node.units_when_empty(shape)))
    }

    /// The first start at which so many units fit for so long, see [`Trial::first_fit`].
    pub fn first_fit(&self, class: &str, shape: &Shape, units: u64, from: Tick, ticks: u64) -> Option<Tick> {
        self.trial().first_fit(class, shape, units, from, ticks)
    }

    /// The nodes of a class that take claims.
    fn of<'l>(&'l self, class: &'l str) -> impl Iterator<Item = (NodeId, &'l Node)> {
        let nodes = self.names.values().map(|id| (*id, &self.nodes[id.index()]));
        nodes.filter(move |(_, node)| node.standing == Standing::Up && node.class == class)
    }
}

impl Node {
    fn units_when_empty(&self, shape: &Shape) -> u64 {
        shape.parts().map(|(resource, amount)| self.capacity(resource) / amount).min().unwrap_or(0)
    }
}
