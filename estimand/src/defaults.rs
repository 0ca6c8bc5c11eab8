//! The default registrations of a new cluster: the collectors that ship in the box, and how much of each node is used.
//!
//! The registry makes them when it starts, before it answers anybody. A name that was ever registered is left alone: a
//! changed registration stays changed, and a deleted one stays deleted, over any number of starts.

use estimand_api::registration::Registration;
use estimand_collectors::{self as collectors, CollectorKind};
use serde_json::{Map, Value, json};

/// The part of a node that is used, by what its collectors say.
const UTILIZATION: &str = include_str!("../../processors/cel/utilization.cel");

/// All of them.
pub fn registrations() -> anyhow::Result<Vec<Registration>> {
    let collectors = collectors::ALL.iter().filter_map(|kind| body(kind));
    let mut bodies: Vec<Map<String, Value>> = collectors.collect();
    bodies.extend(utilization().as_object().cloned());
    bodies.into_iter().map(|body| Ok(Registration::from_map(body)?.registration)).collect()
}

fn utilization() -> Value {
    // In one line and without its comments, as lists show it.
    let lines = UTILIZATION.lines().map(str::trim).filter(|line| !line.starts_with("//"));
    let expression = lines.collect::<Vec<_>>().join(" ");
    json!({
        "dataName": "node_utilization", "kind": "processor", "mode": "expr", "inputs": ["cpu", "memory", "gpu"],
        "params": { "cpu_ratio": 0.4, "gpu_ratio": 0.4, "memory_ratio": 0.2 }, "max-Time": 5, "cmd": expression,
    })
}

/// The default registration of a collector; none if it has none.
fn body(kind: &CollectorKind) -> Option<Map<String, Value>> {
    let default = kind.default?;
    let mut body = Map::new();
    let mut put = |name: &str, value: Value| drop(body.insert(name.to_owned(), value));
    put("dataName", json!(kind.name));
    put("mode", json!("builtin"));
    put("cmd", json!(kind.name));
    put("max-Time", json!(default.every));
    if default.once {
        put("format", json!("nodes"));
        put("replicas", json!(1));
    }
    Some(body)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn every_default_is_a_registration_that_an_agent_would_run() {
        for registration in registrations().unwrap() {
            assert_eq!(estimand_slot_agent::check(&registration), Ok(()), "{}", registration.data_name);
        }
    }
}
