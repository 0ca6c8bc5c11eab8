//! Properties of the plans and policies, each against a slower or a written-out way to the same answer.
#![allow(clippy::unwrap_used)]

mod dynamic;
mod holdings;
mod optimal;
mod partition;
mod policies;
mod remainder;
mod simulation;

use proptest::prelude::*;

use super::{Error, ItemId, Node, Plan, Problem, Trust, TrustRules};

fn problem(nodes: Vec<Node>) -> Problem {
    Problem::new(nodes, &TrustRules::default()).unwrap()
}

/// Nodes a, b, c, … with loads and capabilities.
fn nodes(known: &[(u64, f64)]) -> Vec<Node> {
    known.iter().enumerate().map(|(i, (load, capability))| Node::new(name(i), *load, *capability)).collect()
}

/// Names in the order of numbers.
fn name(i: usize) -> String {
    format!("node-{i:04}")
}

fn targets(plan: &Plan) -> Vec<u64> {
    plan.parts.iter().map(|part| part.target).collect()
}

/// Items numbered from 0 on, in parts of these sizes.
fn in_order(sizes: &[u64]) -> Vec<Vec<ItemId>> {
    let mut next = 0;
    let mut part = |size: &u64| {
        let items = (next..next + *size as ItemId).collect();
        next += *size as ItemId;
        items
    };
    sizes.iter().map(&mut part).collect()
}

/// Capabilities of every kind: nothing, equals, tiny ones and huge ones.
fn capability() -> impl Strategy<Value = f64> {
    prop_oneof![Just(0.0), Just(1.0), 0.0..4.0f64, Just(1e-300), Just(1e15), (1u8..9).prop_map(f64::from)]
}
