//! The amounts that a class of nodes has and uses. Sums are as wide as they have to be.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::amounts::Resource;
use crate::ledger::Ledger;
use crate::node::{Node, Standing};
use crate::promise::Stage;
use crate::window::{Tick, Window};

/// One resource of a class at one tick.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Usage {
    /// That of nodes that are not lost.
    pub capacity: u128,
    pub running: u128,
    pub promised: u128,
}

impl Ledger {
    /// The classes that nodes have.
    pub fn classes(&self) -> impl Iterator<Item = &str> {
        let mut classes: Vec<&str> = self.of_names().map(|node| node.class.as_str()).collect();
        classes.sort_unstable();
        classes.dedup();
        classes.into_iter()
    }

    /// The amounts that the nodes of a class have and use at a tick, which is not over.
    pub fn usage(&self, class: &str, at: Tick) -> BTreeMap<Resource, Usage> {
        let mut usage: BTreeMap<Resource, Usage> = BTreeMap::new();
        for node in self.of_names().filter(|node| node.class == class && node.standing != Standing::Lost) {
            for (resource, capacity) in self.resources.iter().zip(&node.capacity).filter(|(_, c)| **c > 0) {
                usage.entry(resource.clone()).or_default().capacity += u128::from(*capacity);
            }
        }
        for promise in self.promises.values() {
            let of_class = |node: usize| self.nodes[node].class == class;
            let claims =
                promise.claims.iter().filter(|claim| claim.window.has(at) && of_class(claim.node.index()));
            for (number, amount) in claims.flat_map(|claim| claim.shape.parts()) {
                let entry = usage.entry(self.resources[number].clone()).or_default();
                match promise.stage {
                    Stage::Running => entry.running += u128::from(amount),
                    Stage::Promised => entry.promised += u128::from(amount),
                }
            }
        }
        usage
    }

    /// How much of a resource the nodes of a class have in use over a window, running and promised together: its level at
    /// the start, and each tick at which it changes with the level from there on.
    pub fn used_over(&self, class: &str, resource: &Resource, window: Window) -> Vec<(Tick, u128)> {
        self.levels(resource, window, |node| node.class == class)
    }

    /// The same of the nodes that take claims.
    pub fn used_over_up(&self, class: &str, resource: &Resource, window: Window) -> Vec<(Tick, u128)> {
        self.levels(resource, window, |node| node.class == class && node.standing == Standing::Up)
    }

    fn levels(
        &self,
        resource: &Resource,
        window: Window,
        counts: impl Fn(&&Node) -> bool,
    ) -> Vec<(Tick, u128)> {
        let mut changes: BTreeMap<Tick, i128> = BTreeMap::from([(window.start(), 0)]);
        let number = self.known(resource).unwrap_or(usize::MAX);
        for steps in self.of_names().filter(counts).filter_map(|node| node.used.get(number)) {
            let mut level = steps.level(window.start());
            *changes.entry(window.start()).or_default() += wide(level);
            for (at, next) in steps.changes().filter(|(at, _)| window.start() < *at && *at < window.end()) {
                *changes.entry(at).or_default() += wide(next) - wide(level);
                level = next;
            }
        }
        let mut sum = 0;
        let mut levels: Vec<(Tick, u128)> = Vec::with_capacity(changes.len());
        for (at, change) in changes {
            sum += change;
            let level = u128::try_from(sum).unwrap_or(0);
            if levels.last().is_none_or(|(_, last)| *last != level) {
                levels.push((at, level));
            }
        }
        levels
    }

    fn of_names(&self) -> impl Iterator<Item = &Node> {
        self.names.values().map(|id| &self.nodes[id.index()])
    }
}

/// Sums of fewer than 2^63 amounts fit.
fn wide(level: u128) -> i128 {
    i128::try_from(level).unwrap_or(i128::MAX)
}
