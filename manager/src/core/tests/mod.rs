//! The cluster under test: rules one by one, and all of them at once in a world of faults.

use std::collections::{BTreeMap, BTreeSet};

use estimand_api::names::{DataName, NodeName};
use estimand_api::registration::{Registration, RegistrationRecord};
use serde_json::json;

use super::Cluster;

mod agent;
mod convergence;
mod fixture;
mod leases;
mod rules;
mod run_counts;
mod scale;
mod world;

fn name(index: usize) -> DataName {
    DataName::parse(&format!("name_{index}")).unwrap()
}

fn node(index: usize) -> NodeName {
    NodeName::parse(&format!("node-{index}")).unwrap()
}

/// The other one of two.
fn other(of: &NodeName) -> usize {
    usize::from(*of == node(0))
}

fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// On so many nodes; 0 is all of them.
fn registered(name: &str, replicas: u32, selector: &str, version: u64) -> RegistrationRecord {
    let mut body = json!({"dataName": name, "cmd": "/bin/true", "max-Time": 1, "kind": "processor"});
    body["replicas"] = if replicas == 0 { json!("all") } else { json!(replicas) };
    if !selector.is_empty() {
        body["nodes"] = json!(selector);
    }
    let submitted = Registration::parse(body.to_string().as_bytes()).unwrap();
    let (created_at, updated_at) = Default::default();
    RegistrationRecord { registration: submitted.registration, version, created_at, updated_at }
}

impl Cluster {
    /// The nodes on which the name may run by a lease.
    fn holders(&self, name: &DataName) -> BTreeSet<NodeName> {
        let rows = self.placements.of(name).filter(|(_, row)| row.phase.standing(true).is_some());
        rows.map(|(node, _)| node.clone()).collect()
    }
}
