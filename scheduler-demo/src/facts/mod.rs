//! The facts about nodes and data that a plan is made from, as of one moment.
//!
//! Three data names are read in one request, so that all facts belong to one snapshot, whose revision is kept. The
//! caller chooses the names; this module does not know how their values are produced. A missing load counts as the
//! number of items that the node holds, a missing capability as 0; the plan's notes say so.

mod parse;
#[cfg(test)]
mod tests;

use estimand_api::names::DataName;
use estimand_api::value::{State, Value};
use estimand_client::{self as client, Client, Query};

use crate::plan::Item;

/// The data names of the facts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names {
    /// The items that each node holds: `["a.jpg",…]` or `{"items":[…]}`.
    pub distribution: DataName,
    /// The number of items that count as each node's own; may have no values.
    pub load: DataName,
    /// Items a second, or any other unit: a number or `{"value":…,"spread":…,"samples":…}`.
    pub capability: DataName,
}

impl Names {
    /// Parses the names; each has a default.
    pub fn new(
        distribution: Option<&str>,
        load: Option<&str>,
        capability: Option<&str>,
    ) -> Result<Names, estimand_api::names::NameError> {
        let name = |given: Option<&str>, usual| DataName::parse(given.unwrap_or(usual));
        Ok(Names {
            distribution: name(distribution, "data_distribution")?,
            load: name(load, "data_load")?,
            capability: name(capability, "node_capability")?,
        })
    }
}

/// The facts about one node.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeFacts {
    pub name: String,
    pub load: Option<f64>,
    pub capability: Option<Capability>,
    /// State of the capability's value; `NodeLost` also if only the value of its items is in that state.
    pub state: State,
}

/// An estimate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Capability {
    pub value: f64,
    /// Its standard deviation; 0 if the value has none.
    pub spread: f64,
    pub samples: Option<u64>,
}

/// One snapshot. Nodes and items are in the order of their names, each once.
#[derive(Debug, Clone, PartialEq)]
pub struct Facts {
    pub revision: u64,
    pub items: Vec<Item>,
    pub nodes: Vec<NodeFacts>,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Client(#[from] client::Error),
    #[error(
        "`{name}` has no values, so it is unknown which items each node holds; register a collector for it, \
         or bind the name to it with `estimand bind {name} …`"
    )]
    NoDistribution { name: DataName },
    #[error(
        "`{name}` has no values, so the capability of each node is unknown; \
         bind it to an estimate with `estimand bind {name} …`"
    )]
    NoCapability { name: DataName },
    #[error("`{name}` of node {node} is {given}; expected {expected}")]
    InvalidValue { name: DataName, node: String, given: String, expected: &'static str },
}

/// Reads the facts.
pub async fn read(client: &Client, names: &Names) -> Result<Facts, Error> {
    let wanted = vec![names.distribution.clone(), names.load.clone(), names.capability.clone()];
    let (values, revision) = client.values(&Query { names: wanted, ..Query::default() }).await?;
    Facts::of(&values, revision, names)
}

impl Facts {
    /// Parses values.
    pub fn of(values: &[Value], revision: u64, names: &Names) -> Result<Facts, Error> {
        parse::parse(values, revision, names)
    }

    pub fn node(&self, name: &str) -> Option<&NodeFacts> {
        self.nodes.binary_search_by(|node| node.name.as_str().cmp(name)).ok().map(|at| &self.nodes[at])
    }
}
