//! Where and when something would fit among the nodes of a class.
//!
//! A *unit* is one shape on one node, all through a window. Wide work asks for several units with one window, which may
//! share a node. Cost: a look at each node of the class for each instant at which one of them has more free than before.

use std::collections::BTreeSet;

use crate::amounts::Shape;
use crate::ids::NodeId;
use crate::ledger::Ledger;
use crate::node::{Node, Standing};
use crate::window::{Tick, Window};

/// How many instants are looked at for the first at which something fits.
const MAX_INSTANTS: usize = 1_000;

impl Ledger {
    /// The node of each unit, if there are places for all of them: first on the nodes that have room for the fewest, so that
    /// what is wide finds room elsewhere.
    pub fn place_units(&self, class: &str, shape: &Shape, window: Window, units: u64) -> Option<Vec<NodeId>> {
        if window.start() < self.now {
            return None;
        }
        let mut rooms: Vec<(u64, NodeId)> =
            self.of(class).map(|(id, node)| (node.units(shape, window), id)).collect();
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
        self.of(class).fold(0, |sum, (_, node)| sum.saturating_add(node.units(shape, window)))
    }

    /// How many units there would be room for if nothing were promised.
    pub fn most_room(&self, class: &str, shape: &Shape) -> u64 {
        self.of(class).fold(0, |sum, (_, node)| sum.saturating_add(node.units_when_empty(shape)))
    }

    /// The first start from `from` on at which so many units fit for so long; none if they never do, or if that is not
    /// found among the first instants at which something ends.
    pub fn first_fit(&self, class: &str, shape: &Shape, units: u64, from: Tick, ticks: u64) -> Option<Tick> {
        let from = from.max(self.now);
        let mut instants = BTreeSet::from([from]);
        for (_, node) in self.of(class) {
            for (resource, _) in shape.parts() {
                let ends = node.used.get(resource).map(|steps| steps.falls_after(from));
                instants.extend(ends.into_iter().flatten());
            }
        }
        instants.into_iter().take(MAX_INSTANTS).find(|start| {
            let window = Window::lasting(*start, ticks).ok();
            window.is_some_and(|window| self.room(class, shape, window) >= units)
        })
    }

    /// The nodes of a class that take claims.
    fn of<'l>(&'l self, class: &'l str) -> impl Iterator<Item = (NodeId, &'l Node)> {
        let nodes = self.names.values().map(|id| (*id, &self.nodes[id.index()]));
        nodes.filter(move |(_, node)| node.standing == Standing::Up && node.class == class)
    }
}

impl Node {
    /// How often a shape fits all through a window.
    fn units(&self, shape: &Shape, window: Window) -> u64 {
        shape.parts().map(|(resource, amount)| self.free(resource, window) / amount).min().unwrap_or(0)
    }

    fn units_when_empty(&self, shape: &Shape) -> u64 {
        shape.parts().map(|(resource, amount)| self.capacity(resource) / amount).min().unwrap_or(0)
    }
}
