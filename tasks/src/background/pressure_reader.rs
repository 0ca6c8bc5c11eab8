//! Reads the pressure of nodes from the data service, by watch.
//!
//! It is the value of `node_pressure`, which is usually a binding, so that an estimator is swapped under the policies by
//! one call; where a node has none, that of `load`. A value is the runnable work for each processor: a number, or an
//! object that has it as `onePerCore`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError};

use estimand_api::names::DataName;
use estimand_api::value::Value;
use estimand_client::Event;
use serde_json::Value as Json;

use super::peers;
use crate::core::pressure::Pressure;
use crate::shared::Shared;
use crate::task::millis;

/// The first one that a node has a value of counts.
const NAMES: [&str; 2] = ["node_pressure", "load"];

pub struct PressureReader {
    shared: Arc<Shared>,
}

impl PressureReader {
    pub fn new(shared: Arc<Shared>) -> Self {
        PressureReader { shared }
    }

    pub async fn run(&self) {
        let peers = peers(&self.shared).await;
        let names: Vec<DataName> = NAMES.iter().filter_map(|name| DataName::parse(name).ok()).collect();
        let mut known = FactsByName::default();
        let take = |event| {
            let nodes = known.take(event);
            let mut pressures = self.shared.pressures.lock().unwrap_or_else(PoisonError::into_inner);
            nodes.iter().for_each(|node| pressures.set(node, known.of_node(node)));
        };
        peers.data_service.follow(&names, "the pressure of nodes", take).await;
    }
}

/// The facts of each name, by node.
#[derive(Default)]
struct FactsByName([BTreeMap<String, Pressure>; NAMES.len()]);

impl FactsByName {
    /// Takes what happened, and returns the nodes that it is about.
    fn take(&mut self, event: Event) -> BTreeSet<String> {
        match event {
            Event::Snapshot { values, .. } => {
                let before = std::mem::take(self).0.into_iter().flat_map(BTreeMap::into_keys);
                values.iter().for_each(|value| self.put(value));
                before.chain(values.iter().map(|value| value.node_name.to_string())).collect()
            }
            Event::Change(value) => {
                self.put(&value);
                BTreeSet::from([value.node_name.to_string()])
            }
            Event::Delete { data_name, node_name, .. } => {
                if let Some(of_name) = self.of(data_name.as_str()) {
                    of_name.remove(node_name.as_str());
                }
                BTreeSet::from([node_name.to_string()])
            }
        }
    }

    fn of(&mut self, name: &str) -> Option<&mut BTreeMap<String, Pressure>> {
        let place = NAMES.iter().position(|known| *known == name)?;
        self.0.get_mut(place)
    }

    fn put(&mut self, value: &Value) {
        let Some(of_name) = self.of(value.data_name.as_str()) else { return };
        match thousandths(&value.data_value) {
            Some(thousandths) => {
                let measured_at = millis(value.collected_at.timestamp_micros());
                let fact = Pressure { thousandths, measured_at, revision: value.revision };
                of_name.insert(value.node_name.to_string(), fact);
            }
            None => drop(of_name.remove(value.node_name.as_str())),
        }
    }

    fn of_node(&self, node: &str) -> Option<Pressure> {
        self.0.iter().find_map(|of_name| of_name.get(node)).copied()
    }
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
