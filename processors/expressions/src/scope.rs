//! The scope of an evaluation: facts of its inputs, on its own node and across the cluster, their recent past, and
//! parameters. The caller of an evaluation implements it; processors that are written in Rust read the same.

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

/// The facts that one evaluation can read. All of them are of one moment.
pub trait Scope {
    /// The node that the evaluation is for; none if it is for the whole cluster.
    fn node(&self) -> Option<&str>;
    /// The latest of an input on that node; none if there is no value.
    fn fact(&self, input: &str) -> Option<Fact<'_>>;
    /// The values within the window before now on that node, oldest first, the latest included.
    fn samples(&self, input: &str, window: Duration) -> Vec<Sample<'_>>;
    /// The latest of an input on every node that has one, in the order of the nodes' names.
    fn across(&self, input: &str) -> Vec<(&str, Fact<'_>)>;
    /// A parameter of the registration.
    fn param(&self, name: &str) -> Option<&Value>;
}
