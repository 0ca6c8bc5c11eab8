//! Loans: what is lent makes room for what is promised, in time, and no more than has to.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use estimand_capacity::{Amounts, Claim, Ledger, LoanId, NodeId, PromiseId, Resource, Shape, Window};
use proptest::prelude::*;

const NOTICE: u64 = 3;
const CAPACITY: u64 = 8;
const RESOURCES: [&str; 2] = ["cpu", "memory"];

fn amounts(of: [u64; 2]) -> Amounts {
    RESOURCES.iter().zip(of).map(|(name, amount)| (Resource::parse(name).unwrap(), amount)).collect()
}

fn ledger() -> (Ledger, NodeId) {
    let mut ledger = Ledger::new(0).with_notice(NOTICE);
    let (node, _) = ledger.set_node("n", "a", &amounts([CAPACITY; 2]));
    (ledger, node)
}

fn promise(ledger: &mut Ledger, node: NodeId, of: [u64; 2], start: u64, end: u64) -> Option<PromiseId> {
    let shape = ledger.shape(&amounts(of));
    ledger.reserve(vec![Claim { node, shape, window: Window::new(start, end).unwrap() }], 0).ok()
}

fn lend(ledger: &mut Ledger, node: NodeId, of: [u64; 2], value: u64) -> Option<LoanId> {
    let shape: Shape = ledger.shape(&amounts(of));
    ledger.can_lend(node, &shape).then(|| ledger.lend(node, shape, value))
}

#[test]
fn what_is_promised_for_later_is_lent_until_then() {
    let (mut ledger, node) = ledger();
    promise(&mut ledger, node, [8, 0], 10, 20).unwrap();
    let loan = lend(&mut ledger, node, [5, 1], 1).unwrap();
    assert_eq!(ledger.idle(node), amounts([3, 7]));
    ledger.advance(6).unwrap();
    assert_eq!(ledger.recall(node), []);
    ledger.advance(7).unwrap();
    assert_eq!(lend(&mut ledger, node, [1, 0], 9), None, "it would have to leave at once");
    assert!(lend(&mut ledger, node, [0, 1], 9).is_some(), "nobody was promised any memory");
    assert_eq!((ledger.recall(node), ledger.recall(node)), (vec![loan], vec![]), "it is asked once");
    ledger.set_recalled(loan, false);
    assert_eq!(ledger.recall(node), [loan], "it did not hear of it");
    ledger.advance(10).unwrap();
    let shape = ledger.shape(&amounts([8, 0]));
    assert_eq!(ledger.awaited(node, 9), Amounts::default());
    assert_eq!(ledger.awaited(node, 10), amounts([5, 0]));
    assert!(!ledger.has_room_now(node, &shape, std::iter::empty()), "it has not left");
    assert!(ledger.take_back(loan) && !ledger.take_back(loan));
    assert_eq!(ledger.awaited(node, 10), Amounts::default());
    assert!(ledger.has_room_now(node, &shape, std::iter::empty()));
    ledger.advance(20).unwrap();
    assert!(lend(&mut ledger, node, [8, 0], 0).is_some(), "the promise is over");
}

#[test]
fn a_loan_keeps_nothing_from_being_promised() {
    let (mut ledger, node) = ledger();
    let loan = lend(&mut ledger, node, [8, 8], 9).unwrap();
    promise(&mut ledger, node, [8, 8], 0, 5).unwrap();
    assert_eq!(ledger.recall(node), [loan]);
}

#[test]
fn the_least_value_makes_room_and_as_little_as_will_do() {
    let (mut ledger, node) = ledger();
    let loans: Vec<LoanId> = [(1, 5), (2, 1), (3, 4), (2, 9)]
        .map(|(cpu, value)| lend(&mut ledger, node, [cpu, 0], value).unwrap())
        .to_vec();
    promise(&mut ledger, node, [3, 0], 1, 2).unwrap();
    assert_eq!(ledger.recall(node), [loans[2]], "with the three of value 4 those of value 1 may stay");
    promise(&mut ledger, node, [1, 0], 2, 3).unwrap();
    assert_eq!(ledger.recall(node), [], "what was recalled for one is enough for the other");
    promise(&mut ledger, node, [2, 0], 1, 3).unwrap();
    assert_eq!(ledger.recall(node), [loans[1]]);
}

#[test]
fn a_node_with_less_than_is_lent_asks_nobody_to_leave() {
    let (mut ledger, node) = ledger();
    lend(&mut ledger, node, [8, 8], 0).unwrap();
    ledger.set_node("n", "a", &amounts([2, 2]));
    assert_eq!(ledger.recall(node), []);
    ledger.lose("n").unwrap();
    promise(&mut ledger, node, [1, 1], 0, 1);
    assert_eq!(ledger.recall(node), [], "nobody is there to be asked");
    assert!(ledger.forget("n").is_err(), "something may be there");
}

#[test]
fn places_and_instants_are_found_for_what_is_wide() {
    let mut ledger = Ledger::new(0);
    for (name, cpu) in [("n1", 8), ("n2", 4)] {
        ledger.set_node(name, "a", &amounts([cpu, 9]));
    }
    ledger.set_node("other", "b", &amounts([99, 99]));
    let (n1, n2) = (ledger.node("n1").unwrap(), ledger.node("n2").unwrap());
    let shape = ledger.shape(&amounts([3, 1]));
    let at = |start, end| Window::new(start, end).unwrap();
    assert_eq!(ledger.place_units("a", &shape, at(0, 5), 2), Some(vec![n2, n1]), "the smaller room first");
    assert_eq!(ledger.place_units("a", &shape, at(0, 5), 3), Some(vec![n2, n1, n1]));
    assert_eq!((ledger.place_units("a", &shape, at(0, 5), 4), ledger.most_room("a", &shape)), (None, 3));
    promise(&mut ledger, n1, [4, 0], 2, 10).unwrap();
    promise(&mut ledger, n2, [2, 0], 4, 7).unwrap();
    assert_eq!(ledger.room("a", &shape, at(3, 5)), 1);
    assert_eq!(ledger.first_fit("a", &shape, 1, 0, 100), Some(0));
    assert_eq!(ledger.first_fit("a", &shape, 2, 0, 4), Some(0));
    assert_eq!(ledger.first_fit("a", &shape, 2, 1, 4), Some(7));
    assert_eq!(ledger.first_fit("a", &shape, 3, 0, 4), Some(10));
    assert_eq!(ledger.first_fit("a", &shape, 4, 0, 1), None);
    ledger.cordon("n1").unwrap();
    assert_eq!(ledger.first_fit("a", &shape, 1, 5, 1), Some(7));
}

#[derive(Debug, Clone)]
enum Step {
    Lend([u64; 2], u64, u64),
    Promise([u64; 2], u64, u64),
    Release(usize),
    Return(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let amounts = || [0..6_u64, 0..6_u64];
    prop_oneof![
        4 => (amounts(), 0..4_u64, 0..=NOTICE).prop_map(|(of, value, slow)| Step::Lend(of, value, slow)),
        3 => (amounts(), 0..8_u64, 1..6_u64).prop_map(|(of, after, long)| Step::Promise(of, after, long)),
        1 => (0..9_usize).prop_map(Step::Release),
        1 => (0..9_usize).prop_map(Step::Return),
    ]
}

proptest! {
    /// Each tick some steps, then what is due is recalled; each recalled loan leaves within the notice.
    #[test]
    fn lent_and_promised_never_exceed_the_capacity(ticks in proptest::collection::vec(proptest::collection::vec(step(), 0..4), 1..40)) {
        let (mut ledger, node) = ledger();
        let mut loans: BTreeMap<LoanId, ([u64; 2], u64, u64)> = BTreeMap::new();
        let mut leaving: BTreeMap<LoanId, u64> = BTreeMap::new();
        let mut promises: BTreeMap<PromiseId, ([u64; 2], u64, u64)> = BTreeMap::new();
        for (now, steps) in (0_u64..).zip(&ticks) {
            ledger.advance(now).unwrap();
            for id in leaving.iter().filter(|(_, at)| **at <= now).map(|(id, _)| *id).collect::<Vec<_>>() {
                leaving.remove(&id);
                loans.remove(&id);
                prop_assert!(ledger.take_back(id));
            }
            for step in steps {
                match step {
                    Step::Lend(of, value, slow) => {
                        loans.extend(lend(&mut ledger, node, *of, *value).map(|id| (id, (*of, *value, *slow))));
                    }
                    Step::Promise(of, after, long) => {
                        let start = now + NOTICE + after;
                        let given = promise(&mut ledger, node, *of, start, start + long);
                        promises.extend(given.map(|id| (id, (*of, start, start + long))));
                    }
                    Step::Release(which) => {
                        if let Some(id) = promises.keys().nth(*which).copied() {
                            promises.remove(&id);
                            let _ = ledger.release(id);
                        }
                    }
                    Step::Return(which) => {
                        if let Some(id) = loans.keys().nth(*which).copied() {
                            loans.remove(&id);
                            leaving.remove(&id);
                            ledger.take_back(id);
                        }
                    }
                }
            }
            let near = |resource: usize| {
                (now..=now + NOTICE).map(|at| {
                    promises.values().filter(|(_, start, end)| *start <= at && at < *end).map(|(of, ..)| of[resource]).sum::<u64>()
                }).max().unwrap()
            };
            let staying = |loans: &BTreeMap<LoanId, ([u64; 2], u64, u64)>, gone: &BTreeMap<LoanId, u64>, resource: usize| {
                loans.iter().filter(|(id, _)| !gone.contains_key(id)).map(|(_, (of, ..))| of[resource]).sum::<u64>()
            };
            let recalled = ledger.recall(node);
            for id in &recalled {
                prop_assert_eq!(leaving.insert(*id, now + loans[id].2), None, "asked once");
            }
            for (resource, name) in RESOURCES.iter().enumerate() {
                let promised = near(resource);
                prop_assert!(promised + staying(&loans, &leaving, resource) <= CAPACITY, "{} is not free in time", name);
                let present: u64 = loans.values().map(|(of, ..)| of[resource]).sum();
                let active: u64 = promises.values().filter(|(_, start, end)| *start <= now && now < *end).map(|(of, ..)| of[resource]).sum();
                // A loan that leaves in this tick is gone when a promise starts in it.
                let late: u64 = leaving.iter().filter(|(_, at)| **at <= now).map(|(id, _)| loans[id].0[resource]).sum();
                prop_assert!(present - late + active <= CAPACITY, "{} at {}: {} lent, {} promised", name, now, present, active);
            }
            // None of those that were asked could have stayed.
            for id in &recalled {
                let mut others = leaving.clone();
                others.remove(id);
                let fits = (0..RESOURCES.len()).all(|resource| near(resource) == 0 || near(resource) + staying(&loans, &others, resource) <= CAPACITY);
                prop_assert!(!fits, "{:?} need not leave", id);
            }
        }
    }
}

#[test]
fn a_node_that_is_lost_lends_nothing_and_has_what_is_not_lent() {
    let (mut ledger, node) = ledger();
    let loan = lend(&mut ledger, node, [5, 1], 1).unwrap();
    ledger.lose("n").unwrap();
    assert_eq!(lend(&mut ledger, node, [1, 0], 1), None);
    assert_eq!(ledger.idle(node), amounts([3, 7]));
    assert!(ledger.take_back(loan));
    assert_eq!(ledger.idle(node), amounts([CAPACITY; 2]));
}
