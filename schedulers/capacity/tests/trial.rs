//! A trial says of claims that are tried what a copy of the ledger with these claims says.

#![allow(clippy::unwrap_used)]

use estimand_capacity::{Amounts, Claim, Ledger, NodeId, PromiseId, Resource, Shape, Stage, Window};
use proptest::prelude::*;

const TICKS: u64 = 20;
const RESOURCES: [&str; 2] = ["cpu", "memory"];

/// A node's place, amounts, and a window's start and length.
type Wanted = (usize, [u64; 2], u64, u64);

fn amounts(of: [u64; 2]) -> Amounts {
    RESOURCES.iter().zip(of).map(|(name, amount)| (Resource::parse(name).unwrap(), amount)).collect()
}

fn wanted() -> impl Strategy<Value = Wanted> {
    (0..3_usize, [0..4_u64, 1..4_u64], 0..TICKS, 1..8_u64)
}

fn claim(nodes: &[NodeId], shape: Shape, (node, _, start, length): Wanted) -> Claim {
    Claim { node: nodes[node], shape, window: Window::lasting(start, length).unwrap() }
}

proptest! {
    #[test]
    fn a_trial_is_a_copy(
        before in proptest::collection::vec(wanted(), 0..12), tried in proptest::collection::vec(wanted(), 0..6),
        released in proptest::collection::vec(0..12_usize, 0..3), asked in wanted(), units in 1..6_u64, now in 0..TICKS,
    ) {
        let mut ledger = Ledger::new(0);
        let nodes: Vec<NodeId> =
            ["a", "b", "c"].iter().map(|name| ledger.set_node(name, "x", &amounts([6, 7])).0).collect();
        let given: Vec<PromiseId> = before.iter().map(|wanted| {
            let shape = ledger.shape(&amounts(wanted.1));
            ledger.adopt(vec![claim(&nodes, shape, *wanted)], 0, Stage::Promised)
        }).collect();
        ledger.advance(now).unwrap();
        let mut copy = ledger.clone();
        let mut trial = ledger.trial();
        for place in released {
            let Some(id) = given.get(place) else { continue };
            // Given back once, or over.
            if copy.release(*id).is_ok() {
                trial.release(*id).unwrap();
            }
        }
        for wanted in tried {
            let shape = copy.shape(&amounts(wanted.1));
            let claim = claim(&nodes, shape, wanted);
            trial.claim(claim.node, &claim.shape, claim.window);
            copy.adopt(vec![claim], 0, Stage::Promised);
        }
        let (shape, window) = (copy.shape(&amounts(asked.1)), Window::lasting(asked.2, asked.3).unwrap());
        if window.start() >= now {
            prop_assert_eq!(trial.room("x", &shape, window), copy.room("x", &shape, window));
        }
        prop_assert_eq!(trial.place_units("x", &shape, window, units), copy.place_units("x", &shape, window, units));
        let first = |from| (trial.first_fit("x", &shape, units, from, asked.3), copy.first_fit("x", &shape, units, from, asked.3));
        let (of_trial, of_copy) = first(asked.2);
        prop_assert_eq!(of_trial, of_copy);
    }

    #[test]
    fn an_outline_says_the_same_of_what_is_near(
        before in proptest::collection::vec(wanted(), 0..12), now in 0..TICKS, later in 0..3_u64,
    ) {
        let mut ledger = Ledger::new(0).with_notice(3);
        let nodes: Vec<NodeId> =
            ["a", "b", "c"].iter().map(|name| ledger.set_node(name, "x", &amounts([6, 7])).0).collect();
        for wanted in &before {
            let shape = ledger.shape(&amounts(wanted.1));
            if wanted.3 % 3 == 0 {
                ledger.lend(nodes[wanted.0], shape.clone(), 0);
            }
            ledger.adopt(vec![claim(&nodes, shape, *wanted)], 0, Stage::Promised);
        }
        ledger.advance(now).unwrap();
        let outline = ledger.outline();
        for node in nodes {
            prop_assert_eq!(outline.capacity(node), ledger.capacity(node));
            prop_assert_eq!(outline.standing(node), ledger.standing(node));
            prop_assert_eq!(outline.idle(node), ledger.idle(node));
            prop_assert_eq!(outline.awaited(node, now + later), ledger.awaited(node, now + later));
        }
        prop_assert_eq!(outline.promises().count(), 0);
    }
}
