//! A virtual cluster: runs a policy over nodes whose speeds change, that start late, fetch, join and die.
//!
//! Time is a number; nothing waits and nothing is random, so a run is a function of its arguments. It does to a policy
//! what a real driver does: reports are late, orders are late, a loss is noticed later than it happens.

mod cluster;
mod run;

pub use cluster::{Speed, VirtualNode, ideal};
pub use run::run;

use super::ItemId;

/// How nodes and policy hear of each other, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Conditions {
    /// A node tells of what it did when it has an item done and so long has passed, or when it has no more to do.
    pub report_every: f64,
    /// Until a report is heard, and until an order is.
    pub delay: f64,
    /// Until a death is noticed.
    pub detection: f64,
}

/// Items done one after the other.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Span {
    pub from: f64,
    pub to: f64,
    pub items: u64,
}

/// What became of one node.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Lane {
    pub name: String,
    /// When it was ready to work.
    pub ready: f64,
    pub died: Option<f64>,
    pub spans: Vec<Span>,
    /// Items that it did and told of, in order.
    pub told: Vec<ItemId>,
    /// Items that it did, whether they counted or not.
    pub items: u64,
    /// Of those, items that it did not hold.
    pub fetched: u64,
}

/// A run as it went.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// When the policy knew that every item was done; None if that never came.
    pub makespan: Option<f64>,
    /// The shortest time in which nodes of these speeds could do as many items; None if they never could.
    pub ideal: Option<f64>,
    pub lanes: Vec<Lane>,
    /// By item: the lane whose result counts.
    pub done_by: Vec<Option<usize>>,
}

impl Run {
    /// The makespan over the ideal.
    pub fn over_ideal(&self) -> Option<f64> {
        Some(self.makespan? / self.ideal?)
    }

    /// Items done beyond the first time.
    pub fn wasted(&self) -> u64 {
        let counted = self.done_by.iter().flatten().count() as u64;
        self.lanes.iter().map(|lane| lane.items).sum::<u64>() - counted
    }
}
