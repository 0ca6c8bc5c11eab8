//! The scope of an evaluation: facts of its inputs, on its own node and across the cluster, their recent past, and
//! parameters. The caller of an evaluation implements it; processors that are written in Rust read the same.

use std::{borrow::Cow, time::Duration};

use serde_json::Value;

use crate::reads::PastPart;

/// The latest of an input on one node.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fact<'a> {
    pub value: &'a Value,
    /// Seconds since it was collected; never negative.
    pub age: f64,
    /// `fresh`, `stale`, `failed` or `node-lost`.
    pub state: &'a str,
}

/// A part of an earlier value of an input on one node.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample<'a> {
    pub value: Cow<'a, Value>,
    /// Seconds since it was collected.
    pub age: f64,
}

/// The facts that one evaluation can read. All of them are of one moment.
pub trait Scope {
    /// The node that the evaluation is for; none if it is for the whole cluster.
    fn node(&self) -> Option<&str>;
    /// The latest of an input on that node; none if there is no value.
    fn fact(&self, input: &str) -> Option<Fact<'_>>;
    /// That part of the values within the window before now on that node, oldest first, the latest included; values
    /// without it are left out. Of a part of which only the number counts, the scope may show `true` in place of
    /// anything that is neither a number nor null. The error says why the past is not known; it is for people.
    fn samples(&self, input: &str, part: &PastPart, window: Duration) -> Result<Vec<Sample<'_>>, String>;
    /// The latest of an input on every node that has one, in the order of the nodes' names.
    fn across(&self, input: &str) -> Vec<(&str, Fact<'_>)>;
    /// A parameter of the registration.
    fn param(&self, name: &str) -> Option<&Value>;
}
