//! The ledger beside a model that counts each tick, under any operations in any order.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use estimand_capacity::{
    Amounts, Claim, Ledger, Promise, PromiseId, Replan, Resource, Stage, Standing, Window,
};
use proptest::prelude::*;

const TICKS: u64 = 24;
const NODES: [(&str, &str); 4] = [("a1", "a"), ("a2", "a"), ("a3", "a"), ("b1", "b")];
const RESOURCES: [&str; 2] = ["cpu", "memory"];

#[derive(Debug, Clone)]
enum Operation {
    Reserve { claims: Vec<(usize, [u64; 2], u64, u64)>, value: u64 },
    Commit(usize),
    Release(usize),
    Resize(usize, u64),
    Advance(u64),
    Capacity(usize, [u64; 2]),
    Lose(usize),
    Cordon(usize),
    Restore(usize),
}

fn operation() -> impl Strategy<Value = Operation> {
    let amounts = || [0..6_u64, 0..6_u64];
    let claim = (0..NODES.len(), amounts(), 0..TICKS, 1..8_u64);
    let node = || 0..NODES.len();
    prop_oneof![
        8 => (proptest::collection::vec(claim, 1..3), 0..5_u64)
            .prop_map(|(claims, value)| Operation::Reserve { claims, value }),
        3 => (0..20_usize).prop_map(Operation::Commit),
        2 => (0..20_usize).prop_map(Operation::Release),
        2 => (0..20_usize, 0..TICKS).prop_map(|(which, end)| Operation::Resize(which, end)),
        2 => (0..3_u64).prop_map(Operation::Advance),
        1 => (node(), [0..8_u64, 0..8_u64]).prop_map(|(node, amounts)| Operation::Capacity(node, amounts)),
        1 => node().prop_map(Operation::Lose),
        1 => node().prop_map(Operation::Cordon),
        2 => node().prop_map(Operation::Restore),
    ]
}

fn amounts(of: [u64; 2]) -> Amounts {
    RESOURCES.iter().zip(of).map(|(name, amount)| (Resource::parse(name).unwrap(), amount)).collect()
}

/// The use of each node and resource at each tick, counted one by one.
fn counted(ledger: &Ledger) -> BTreeMap<(usize, usize, u64), u64> {
    let mut used = BTreeMap::new();
    for (_, promise) in ledger.promises() {
        for claim in &promise.claims {
            for (place, name) in RESOURCES.iter().enumerate() {
                let amount = ledger.amounts(&claim.shape).get(&Resource::parse(name).unwrap());
                for tick in claim.window.start()..claim.window.end() {
                    *used.entry((claim.node.index(), place, tick)).or_default() += amount;
                }
            }
        }
    }
    used
}

fn check(ledger: &Ledger) -> Result<(), TestCaseError> {
    let used = counted(ledger);
    for (id, name) in ledger.nodes() {
        let lost = ledger.standing(id) == Standing::Lost;
        for tick in ledger.now()..2 * TICKS {
            let free = ledger.free(id, Window::new(tick, tick + 1).unwrap());
            for (place, resource) in RESOURCES.iter().enumerate() {
                let resource = Resource::parse(resource).unwrap();
                let capacity = if lost { 0 } else { ledger.capacity(id).get(&resource) };
                let used = used.get(&(id.index(), place, tick)).copied().unwrap_or(0);
                prop_assert!(used <= capacity, "{name} {resource} at {tick}: {used} of {capacity}");
                prop_assert_eq!(free.get(&resource), capacity - used, "{} {} at {}", name, resource, tick);
            }
        }
    }
    for class in ["a", "b"] {
        let sum: BTreeMap<String, u128> = ledger
            .usage(class, ledger.now())
            .into_iter()
            .map(|(r, u)| (r.to_string(), u.running + u.promised))
            .collect();
        for resource in RESOURCES {
            let named = Resource::parse(resource).unwrap();
            let over = ledger.used_over(class, &named, Window::new(ledger.now(), 2 * TICKS).unwrap());
            prop_assert_eq!(over[0].1, sum.get(resource).copied().unwrap_or(0));
        }
    }
    Ok(())
}

/// The bounds of a re-planning, whatever it does.
fn check_replan(
    before: &BTreeMap<PromiseId, Promise>,
    ledger: &Ledger,
    replan: &Replan,
) -> Result<(), TestCaseError> {
    for (id, was) in before {
        let gone = replan.broken.contains(id) || replan.ended.contains(id);
        prop_assert_eq!(ledger.promise(*id).is_none(), gone, "{}", id);
        prop_assert!(!replan.broken.contains(id) || was.stage == Stage::Promised);
        prop_assert!(!replan.ended.contains(id) || was.stage == Stage::Running);
        let Some(is) = ledger.promise(*id) else { continue };
        for (place, (was_claim, claim)) in was.claims.iter().zip(&is.claims).enumerate() {
            prop_assert_eq!((&was_claim.shape, was_claim.window), (&claim.shape, claim.window));
            let moved = replan.moved.iter().any(|step| step.promise == *id && step.claim == place);
            prop_assert_eq!(was_claim.node != claim.node, moved);
            prop_assert!(!moved || was.stage == Stage::Promised, "what runs does not move");
            let class = |node: usize| NODES[node].1;
            prop_assert_eq!(class(was_claim.node.index()), class(claim.node.index()));
        }
    }
    // A broken promise has no free place left, nor one that less valuable promises could make.
    for id in &replan.broken {
        let [claim] = before[id].claims.as_slice() else { continue };
        for (node, _) in
            ledger.nodes().filter(|(node, _)| NODES[node.index()].1 == NODES[claim.node.index()].1)
        {
            let mut poorer = ledger.clone();
            let less = |(_, promise): &(PromiseId, &Promise)| {
                promise.stage == Stage::Promised && promise.value < before[id].value
            };
            let less: Vec<PromiseId> = ledger.promises().filter(less).map(|(id, _)| id).collect();
            for promise in less {
                poorer.release(promise).unwrap();
            }
            prop_assert!(!poorer.fits(node, &claim.shape, claim.window), "{} could be at {:?}", id, node);
        }
    }
    Ok(())
}

fn apply(
    ledger: &mut Ledger,
    given: &mut Vec<PromiseId>,
    operation: &Operation,
) -> Result<(), TestCaseError> {
    let before: BTreeMap<PromiseId, Promise> =
        ledger.promises().map(|(id, promise)| (id, promise.clone())).collect();
    let pick = |which: usize| given.get(which % given.len().max(1)).copied();
    let replan = match operation {
        Operation::Reserve { claims, value } => {
            let claims: Vec<Claim> = claims
                .iter()
                .map(|(node, of, start, length)| Claim {
                    node: ledger.node(NODES[*node].0).unwrap(),
                    shape: ledger.shape(&amounts(*of)),
                    window: Window::lasting(*start, *length).unwrap(),
                })
                .collect();
            let alone = claims.len() == 1 && ledger.fits(claims[0].node, &claims[0].shape, claims[0].window);
            let reserved = ledger.reserve(claims, *value);
            prop_assert!(reserved.is_ok() || !alone);
            given.extend(reserved.ok());
            return Ok(());
        }
        Operation::Commit(which) => {
            let _ = pick(*which).map(|id| ledger.commit(id));
            return Ok(());
        }
        Operation::Release(which) => {
            let Some(id) = pick(*which) else { return Ok(()) };
            prop_assert_eq!(ledger.release(id).is_ok(), before.contains_key(&id));
            return Ok(());
        }
        Operation::Resize(which, end) => {
            let _ = pick(*which).map(|id| ledger.resize(id, *end));
            return Ok(());
        }
        Operation::Advance(by) => {
            let passed = ledger.advance(ledger.now() + by).unwrap();
            prop_assert!(passed.expired.iter().all(|id| before[id].stage == Stage::Promised));
            return Ok(());
        }
        Operation::Capacity(node, of) => ledger.set_node(NODES[*node].0, NODES[*node].1, &amounts(*of)).1,
        Operation::Lose(node) => ledger.lose(NODES[*node].0).unwrap(),
        Operation::Cordon(node) => {
            let replan = ledger.cordon(NODES[*node].0).unwrap();
            prop_assert!(replan.broken.is_empty() && replan.ended.is_empty());
            // One that was lost before has nothing to give, cordoned it has its capacity again: nothing was on it.
            replan
        }
        Operation::Restore(node) => {
            ledger.restore(NODES[*node].0).unwrap();
            return Ok(());
        }
    };
    check_replan(&before, ledger, &replan)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]
    #[test]
    fn running_and_promised_never_exceed_the_capacity(operations in proptest::collection::vec(operation(), 1..50)) {
        let mut ledger = Ledger::new(0);
        for (name, class) in NODES {
            ledger.set_node(name, class, &amounts([6, 6]));
        }
        let mut given = Vec::new();
        for operation in &operations {
            apply(&mut ledger, &mut given, operation)?;
            check(&ledger)?;
        }
        let text = serde_json::to_string(&ledger).unwrap();
        let again: Ledger = serde_json::from_str(&text).unwrap();
        check(&again)?;
        prop_assert_eq!(serde_json::to_string(&again).unwrap(), text);
    }
}
