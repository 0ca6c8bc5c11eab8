//! Utilization, of a node and of a cluster, on figures that were worked out by hand.

// Tables read best with their values in place.
#![allow(clippy::unwrap_used, clippy::needless_pass_by_value)]

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use estimand_expressions::{Budget, ErrorKind, Expression, Fact, PastPart, Sample, Scope};
use serde_json::{Value, json};

#[path = "../src/facts.rs"]
mod facts;
use facts::Facts;

/// The expression that ships, with the inputs and parameters that it names.
fn shipped() -> Expression {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("cel/utilization.cel");
    let expression = Expression::parse(&std::fs::read_to_string(path).unwrap()).unwrap();
    let names = |all: &[&str]| all.iter().map(|name| (*name).to_owned()).collect();
    let params = names(&["cpu_ratio", "gpu_ratio", "memory_ratio"]);
    expression.check(&names(&["cpu", "memory", "gpu"]), &params).unwrap();
    expression
}

fn weighted(mut facts: Facts, cpu: f64, gpu: f64, memory: f64) -> Facts {
    let ratio = |name: &str, weight: f64| (format!("{name}_ratio"), json!(weight));
    facts.params = [ratio("cpu", cpu), ratio("gpu", gpu), ratio("memory", memory)].into();
    facts
}

#[track_caller]
fn is(facts: &Facts, expected: f64) {
    let answer = shipped().evaluate(facts, Budget::default()).unwrap().to_json().unwrap();
    let found = answer.as_f64().unwrap();
    assert!((found - expected).abs() < 1e-12, "{found} and not {expected}");
}

fn cpu(usage: f64) -> Value {
    json!({ "usageFraction": usage, "count": 8 })
}

fn memory(used: f64) -> Value {
    json!({ "usedFraction": used })
}

fn gpus(used: &[Value]) -> Value {
    let device = |(at, used): (usize, &Value)| (at.to_string(), json!({ "utilizationFraction": used }));
    json!({ "count": used.len(), "devices": used.iter().enumerate().map(device).collect::<BTreeMap<_, _>>() })
}

fn gpu(used: f64) -> Value {
    json!({ "gpu": used, "memory": 0.9 })
}

/// Processors: 0.3 in the mean, since what is older than five minutes does not count; memory: 0.5.
fn node() -> Facts {
    Facts::default()
        .with("cpu", &[(301.0, cpu(1.0)), (200.0, cpu(0.2)), (0.0, cpu(0.4))])
        .with("memory", &[(100.0, memory(0.4)), (0.0, memory(0.6))])
}

#[test]
fn a_node_is_as_used_as_its_parts_by_their_weights() {
    // Its GPUs: (0.8 + 0.6) / 2 = 0.7 and (0.1 + 0.3) / 2 = 0.2, so 0.45.
    let past = [(60.0, gpus(&[gpu(0.8), gpu(0.1)])), (0.0, gpus(&[gpu(0.6), gpu(0.3)]))];
    let node = node().with("gpu", &past);
    // 0.4 · 0.3 + 0.4 · 0.45 + 0.2 · 0.5
    is(&weighted(node.clone(), 0.4, 0.4, 0.2), 0.4);
    // Weights need not add up to 1: (1 · 0.3 + 2 · 0.45 + 1 · 0.5) / 4
    is(&weighted(node.clone(), 1.0, 2.0, 1.0), 0.425);
    is(&weighted(node, 0.0, 1.0, 0.0), 0.45);
}

#[test]
fn without_gpus_the_other_weights_count_for_all() {
    // (0.4 · 0.3 + 0.2 · 0.5) / 0.6
    let expected = 0.22 / 0.6;
    is(&weighted(node(), 0.4, 0.4, 0.2), expected);
    for none in [gpus(&[]), json!({ "count": 0 }), json!({ "count": 1, "devices": null })] {
        is(&weighted(node().with("gpu", &[(0.0, none)]), 0.4, 0.4, 0.2), expected);
    }
    // One that tells nothing counts as little as one that is not there.
    let silent = [json!({ "gpu": null }), Value::Null];
    is(&weighted(node().with("gpu", &[(0.0, gpus(&silent))]), 0.4, 0.4, 0.2), expected);
    let one = gpus(&[gpu(0.7), Value::Null]);
    // 0.4 · 0.3 + 0.4 · 0.7 + 0.2 · 0.5
    is(&weighted(node().with("gpu", &[(0.0, one)]), 0.4, 0.4, 0.2), 0.5);
}

#[test]
fn a_node_of_which_something_is_not_known_yet_waits() {
    let half = Facts::now(&json!({ "cpu": cpu(0.5) }));
    let error = shipped().evaluate(&weighted(half, 1.0, 1.0, 1.0), Budget::default()).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Missing { input: "memory".to_owned() }, "{error}");
}

/// The utilization of nodes, seen from nowhere in particular.
struct Cluster(Vec<(&'static str, Value, &'static str)>);

impl Scope for Cluster {
    fn node(&self) -> Option<&str> {
        None
    }

    fn fact(&self, _: &str) -> Option<Fact<'_>> {
        None
    }

    fn samples(&self, _: &str, _: &PastPart, _: Duration) -> Result<Vec<Sample<'_>>, String> {
        Ok(Vec::new())
    }

    fn across(&self, _: &str) -> Vec<(&str, Fact<'_>)> {
        self.0.iter().map(|(node, value, state)| (*node, Fact { value, age: 0.0, state })).collect()
    }

    fn param(&self, _: &str) -> Option<&Value> {
        None
    }
}

#[test]
fn a_cluster_is_as_used_as_its_nodes_are_in_the_mean() {
    // As the page has it.
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
    let text = r#"{"cluster": average(node_utilization)}"#;
    assert!(std::fs::read_to_string(page).unwrap().contains(text));
    // With and without GPUs; a node that is lost is not part of it. (0.4 + 0.2 + 0.9) / 3
    let cluster = Cluster(vec![
        ("a", json!(0.4), "fresh"),
        ("b", json!(0.2), "fresh"),
        ("c", json!(0.9), "stale"),
        ("d", json!(1.0), "node-lost"),
    ]);
    let answer = Expression::parse(text).unwrap().evaluate(&cluster, Budget::default()).unwrap().to_json();
    let used = answer.unwrap()["cluster"].as_f64().unwrap();
    assert!((used - 0.5).abs() < 1e-12, "{used}");
}
