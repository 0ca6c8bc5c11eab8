//! A virtual cluster: runs a policy over nodes whose speeds change, that start late, fetch, join and die.
//!
//! Time is a number; nothing waits and nothing is random, so a run is a function of its arguments. It does to a policy
//! what a real driver does: reports are late, orders are late, a loss is noticed later than it happens.

mod cluster;
mod run;

pub use cluster::{Speed, VirtualNode, ideal};
pub use run::run;

use super::ItemId;

/// Delays between nodes and policy, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Conditions {
    /// A node reports after this time if it has done an item, and when it has no more items.
    pub report_every: f64,
    /// Of a report and of an order.
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

/// One node's part in a run.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct NodeTrace {
    pub name: String,
    /// When it was ready to work.
    pub ready: f64,
    pub died: Option<f64>,
    pub spans: Vec<Span>,
    /// Items that it did and reported, in order.
    pub told: Vec<ItemId>,
    /// Items that it did, whether they counted or not.
    pub items: u64,
    /// Of those, items that it did not hold.
    pub fetched: u64,
}

/// A run as it went.
#[derive(Debug, Clone, PartialEq)]
pub struct SimulatedRun {
    /// When the policy knew that every item was done; None if that never came.
    pub makespan: Option<f64>,
    /// The shortest time in which nodes of these speeds could do as many items; None if they never could.
    pub ideal: Option<f64>,
    pub traces: Vec<NodeTrace>,
    /// By item: the lane whose result counts.
    pub done_by: Vec<Option<usize>>,
}

impl SimulatedRun {
    /// The makespan over the ideal.
    pub fn over_ideal(&self) -> Option<f64> {
        Some(self.makespan? / self.ideal?)
    }

    /// Items done beyond the first time.
    pub fn wasted(&self) -> u64 {
        let counted = self.done_by.iter().flatten().count() as u64;
        self.traces.iter().map(|trace| trace.items).sum::<u64>() - counted
    }
}
