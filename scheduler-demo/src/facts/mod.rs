//! What is known of the nodes and of the data, as of one moment.
//!
//! Three data names are read in one request, so that everything is of one snapshot, whose revision is kept. The names
//! are the caller's, and how their values come about is nobody's business here. Nothing is assumed in the place of
//! what is missing but a load of what a node holds and a capability of nothing; both are said.

mod parse;
#[cfg(test)]
mod tests;

use estimand_api::names::DataName;
use estimand_api::value::Value;
use estimand_client::{self as client, Client, Query};

use crate::plan::{Item, State};

/// Under which names the facts are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names {
    /// Which items each node holds: `["a.jpg",…]` or `{"items":[…]}`.
    pub distribution: DataName,
    /// How many items count as each node's own; may have no values.
    pub load: DataName,
    /// Items a second, or any other unit: a number or `{"value":…,"spread":…,"samples":…}`.
    pub capability: DataName,
}

impl Names {
    /// Reads the names; the usual ones stand for those that are not given.
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

/// What is known of one node.
#[derive(Debug, Clone, PartialEq)]
pub struct Known {
    pub name: String,
    pub load: Option<f64>,
    pub capability: Option<Capability>,
    /// Of the capability; `NodeLost` also if only what it holds says so.
    pub state: State,
}

/// An estimate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Capability {
    pub value: f64,
    /// Its standard deviation; 0 if nothing is said of it.
    pub spread: f64,
    pub samples: Option<u64>,
}

/// One snapshot. Nodes and items are in the order of their names, each once.
#[derive(Debug, Clone, PartialEq)]
pub struct Facts {
    pub revision: u64,
    pub items: Vec<Item>,
    pub nodes: Vec<Known>,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Client(#[from] client::Error),
    #[error(
        "no values of `{name}`: nobody says which items each node holds; register something that does, \
         or bind the name to it with `estimand bind {name} …`"
    )]
    NoDistribution { name: DataName },
    #[error(
        "no values of `{name}`: nobody says what each node is capable of; \
         bind it with `estimand bind {name} …` to an estimate of that"
    )]
    NoCapability { name: DataName },
    #[error("`{name}` of node {node} is {given}; expected {expected}")]
    Wrong { name: DataName, node: String, given: String, expected: &'static str },
}

/// Reads the facts.
pub async fn read(client: &Client, names: &Names) -> Result<Facts, Error> {
    let wanted = vec![names.distribution.clone(), names.load.clone(), names.capability.clone()];
    let (values, revision) = client.values(&Query { names: wanted, ..Query::default() }).await?;
    Facts::of(&values, revision, names)
}

impl Facts {
    /// Makes sense of what was read.
    pub fn of(values: &[Value], revision: u64, names: &Names) -> Result<Facts, Error> {
        parse::parse(values, revision, names)
    }

    pub fn node(&self, name: &str) -> Option<&Known> {
        self.nodes.binary_search_by(|node| node.name.as_str().cmp(name)).ok().map(|at| &self.nodes[at])
    }
}
