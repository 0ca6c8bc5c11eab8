//! What an evaluation can see: facts of its inputs, on its own node and across the cluster, their recent past, and
//! parameters. Whoever evaluates implements it; processors that are written in Rust see the same.

use std::time::Duration;

use serde_json::Value;

/// The latest of an input on one node.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fact<'a> {
    pub value: &'a Value,
    /// Seconds since it was collected; never negative.
    pub age: f64,
    /// `fresh`, `stale`, `failed` or `node-lost`.
    pub state: &'a str,
}

/// An earlier value of an input on one node.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample<'a> {
    pub value: &'a Value,
    /// Seconds since it was collected.
    pub age: f64,
}

/// What one evaluation sees. All of it is of one moment.
pub trait Scope {
    /// The node that the evaluation is for; none if it is for the whole cluster.
    fn node(&self) -> Option<&str>;
    /// The latest of an input on that node; none if there is no value.
    fn fact(&self, input: &str) -> Option<Fact<'_>>;
    /// What came within the window before now on that node, oldest first, the latest included.
    fn samples(&self, input: &str, window: Duration) -> Vec<Sample<'_>>;
    /// The latest of an input on every node that has one, in the order of the nodes' names.
    fn across(&self, input: &str) -> Vec<(&str, Fact<'_>)>;
    /// A parameter of the registration.
    fn param(&self, name: &str) -> Option<&Value>;
}
