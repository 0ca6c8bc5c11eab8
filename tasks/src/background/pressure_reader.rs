//! Reads the pressure of nodes from the data service, by watch.
//!
//! It is the value of `node_pressure`, which is usually a binding, so that an estimator is swapped under the policies by
//! one call; where a node has none, that of `load`. A value is the runnable work for each processor: a number, or an
//! object that has it as `onePerCore`.

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError};

use estimand_api::names::{DataName, NodeName};
use estimand_api::value::Value;
use estimand_client::Facts;
use serde_json::Value as Json;

use crate::core::pressure::Pressure;
use crate::shared::Shared;
use crate::task::millis;

/// The first one that a node has a value of counts.
const NAMES: [&str; 2] = ["node_pressure", "load"];

pub async fn run(shared: Arc<Shared>) {
    let data_service = &shared.peers.wait().await.data_service;
    let names: Vec<DataName> = NAMES.iter().filter_map(|name| DataName::parse(name).ok()).collect();
    let told = |facts: &Facts, nodes: BTreeSet<NodeName>| {
        let mut pressures = shared.pressures.lock().unwrap_or_else(PoisonError::into_inner);
        for node in &nodes {
            let pressure = NAMES.iter().find_map(|name| pressure(facts.get(name, node.as_str())?));
            pressures.set(node.as_str(), pressure);
        }
    };
    data_service.follow(&names, "the pressure of nodes", told).await;
}

fn pressure(value: &Value) -> Option<Pressure> {
    let measured_at = millis(value.collected_at.timestamp_micros());
    Some(Pressure { thousandths: thousandths(&value.data_value)?, measured_at, revision: value.revision })
}

fn thousandths(value: &Json) -> Option<u64> {
    let number = value.as_f64().or_else(|| value.get("onePerCore")?.as_f64())?;
    // Far below what a float counts exactly.
    (0.0..=1e9).contains(&number).then(|| (number * 1000.0).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_pressure_is_a_number_or_a_load() {
        assert_eq!(thousandths(&json!(0.25)), Some(250));
        assert_eq!(thousandths(&json!({ "one": 8.0, "onePerCore": 2.0 })), Some(2000));
        assert_eq!(thousandths(&json!({ "one": 8.0, "onePerCore": null })), None);
        assert_eq!(thousandths(&json!(-1)), None);
        assert_eq!(thousandths(&json!("1")), None);
    }
}
