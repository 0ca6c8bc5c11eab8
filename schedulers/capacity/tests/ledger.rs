//! The ledger's operations one by one, and what becomes of promises when capacity changes.

#![allow(clippy::unwrap_used)]

use estimand_capacity::{
    Amounts, Claim, Ledger, LedgerError, OPEN_END, PromiseId, Resource, Stage, Standing, Window,
};

fn amounts(of: &[(&str, u64)]) -> Amounts {
    of.iter().map(|(name, amount)| (Resource::parse(name).unwrap(), *amount)).collect()
}

fn window(start: u64, end: u64) -> Window {
    Window::new(start, end).unwrap()
}

/// Nodes of one class with 4 processors each.
fn ledger(nodes: &[&str]) -> Ledger {
    let mut ledger = Ledger::new(0);
    for node in nodes {
        ledger.set_node(node, "a", &amounts(&[("cpu", 4)]));
    }
    ledger
}

fn claim(ledger: &mut Ledger, node: &str, cpu: u64, window: Window) -> Claim {
    Claim { node: ledger.node(node).unwrap(), shape: ledger.shape(&amounts(&[("cpu", cpu)])), window }
}

fn reserve(ledger: &mut Ledger, node: &str, cpu: u64, window: Window, value: u64) -> PromiseId {
    let claim = claim(ledger, node, cpu, window);
    ledger.reserve(vec![claim], value).unwrap()
}

fn place(ledger: &Ledger, id: PromiseId) -> Option<&str> {
    let node = ledger.promise(id)?.claims[0].node;
    ledger.nodes().find(|(id, _)| *id == node).map(|(_, name)| name)
}

#[test]
fn a_bundle_is_granted_whole_or_not_at_all() {
    let mut ledger = ledger(&["n1", "n2"]);
    reserve(&mut ledger, "n2", 3, window(5, 6), 0);
    let wide = [claim(&mut ledger, "n1", 4, window(0, 10)), claim(&mut ledger, "n2", 2, window(0, 10))];
    let refused = ledger.reserve(wide.to_vec(), 1).unwrap_err();
    let expected = "node `n2` has 1 of cpu free in that window, which is less than 2";
    assert_eq!(refused.to_string(), expected);
    let n1 = ledger.node("n1").unwrap();
    assert_eq!(ledger.free(n1, window(0, 10)), amounts(&[("cpu", 4)]), "nothing of it is left behind");
    let before = [claim(&mut ledger, "n1", 4, window(0, 5)), claim(&mut ledger, "n2", 2, window(0, 5))];
    ledger.reserve(before.to_vec(), 1).unwrap();
    // Two claims on one node add up.
    let twice = vec![claim(&mut ledger, "n1", 3, window(5, 6)); 2];
    assert!(matches!(ledger.reserve(twice, 1), Err(LedgerError::NoRoom { .. })));
}

#[test]
fn a_node_is_as_full_as_its_fullest_resource() {
    let mut ledger = Ledger::new(0);
    let (node, _) = ledger.set_node("n1", "a", &amounts(&[("cpu", 4), ("gpu", 2)]));
    let shape = ledger.shape(&amounts(&[("cpu", 1), ("gpu", 1)]));
    assert_eq!(ledger.fullness(node, &shape, window(0, 5)), 500_000);
    reserve(&mut ledger, "n1", 3, window(4, 5), 0);
    assert_eq!(ledger.fullness(node, &shape, window(0, 4)), 500_000);
    assert_eq!(ledger.fullness(node, &shape, window(0, 5)), 1_000_000);
}

#[test]
fn absurd_input_is_refused() {
    let mut ledger = ledger(&["n1"]);
    assert!(Window::new(3, 3).is_err() && Window::new(4, 3).is_err() && Window::lasting(0, 0).is_err());
    assert!(Window::open(u64::MAX).is_err());
    assert_eq!(Window::lasting(7, u64::MAX).unwrap().end(), OPEN_END);
    ledger.advance(2).unwrap();
    let mut refused = |cpu, window| {
        let claim = claim(&mut ledger, "n1", cpu, window);
        ledger.reserve(vec![claim], u64::MAX).unwrap_err().to_string()
    };
    assert_eq!(refused(1, window(1, 9)), "tick 1 is over: it is 2 now");
    assert!(refused(u64::MAX, window(2, u64::MAX)).contains("has 4 of cpu free"));
    assert_eq!(ledger.reserve(Vec::new(), 0), Err(LedgerError::NoClaims));
    assert!(ledger.advance(1).is_err());
    let unknown = amounts(&[("gpu", 1)]);
    let (node, shape) = (ledger.node("n1").unwrap(), ledger.shape(&unknown));
    assert!(!ledger.fits(node, &shape, window(2, 3)), "nobody has one");
}

#[test]
fn the_greatest_amounts_add_up() {
    let mut ledger = Ledger::new(0);
    ledger.set_node("n1", "a", &amounts(&[("cpu", u64::MAX)]));
    ledger.set_node("n2", "a", &amounts(&[("cpu", u64::MAX)]));
    let id = reserve(&mut ledger, "n1", u64::MAX, window(0, OPEN_END), 0);
    let cpu = Resource::parse("cpu").unwrap();
    assert_eq!(ledger.usage("a", 0)[&cpu].capacity, 2 * u128::from(u64::MAX));
    assert_eq!(ledger.used_over("a", &cpu, window(0, OPEN_END)), [(0, u128::from(u64::MAX))]);
    let one = claim(&mut ledger, "n1", 1, window(9, 10));
    assert!(ledger.reserve(vec![one], 0).is_err());
    // It runs on into what another was promised.
    ledger.commit(id).unwrap();
    ledger.resize(id, 5).unwrap();
    let other = reserve(&mut ledger, "n1", u64::MAX, window(5, 9), 7);
    let passed = ledger.advance(5).unwrap();
    assert_eq!((passed.overrunning, place(&ledger, other)), (vec![id], Some("n2")));
    ledger.advance(u64::MAX).unwrap();
}

#[test]
fn a_promise_is_committed_when_it_is_due_and_given_back_early() {
    let mut ledger = ledger(&["n1"]);
    let id = reserve(&mut ledger, "n1", 4, window(3, 8), 0);
    assert!(matches!(ledger.commit(id), Err(LedgerError::NotDue { start: 3, now: 0, .. })));
    ledger.advance(3).unwrap();
    ledger.commit(id).unwrap();
    ledger.commit(id).unwrap();
    assert_eq!(ledger.promise(id).unwrap().stage, Stage::Running);
    ledger.take_freed();
    ledger.advance(5).unwrap();
    ledger.release(id).unwrap();
    assert_eq!(ledger.take_freed(), [ledger.node("n1").unwrap()]);
    assert_eq!(ledger.release(id), Err(LedgerError::UnknownPromise(id)));
    reserve(&mut ledger, "n1", 4, window(5, 6), 0);
}

#[test]
fn an_end_is_moved_where_there_is_room() {
    let mut ledger = ledger(&["n1"]);
    let (first, next) =
        (reserve(&mut ledger, "n1", 3, window(0, 5), 0), reserve(&mut ledger, "n1", 3, window(7, 9), 0));
    ledger.resize(first, 7).unwrap();
    assert!(matches!(ledger.resize(first, 8), Err(LedgerError::NoRoom { asked: 3, free: 1, .. })));
    assert_eq!(ledger.promise(first).unwrap().end(), 7, "a refused change changes nothing");
    ledger.resize(first, 1).unwrap();
    reserve(&mut ledger, "n1", 4, window(1, 7), 0);
    assert!(ledger.resize(next, 7).is_err(), "nothing would be left of it");
    assert!(ledger.resize(next, 0).is_err());
}

#[test]
fn what_never_ran_expires_and_what_runs_keeps_what_it_has() {
    let mut ledger = ledger(&["n1"]);
    let (idle, running) =
        (reserve(&mut ledger, "n1", 1, window(0, 3), 0), reserve(&mut ledger, "n1", 3, window(0, 3), 0));
    ledger.commit(running).unwrap();
    let later = reserve(&mut ledger, "n1", 2, window(3, 6), 9);
    let passed = ledger.advance(3).unwrap();
    assert_eq!((passed.expired, passed.overrunning), (vec![idle], vec![running]));
    // There is no other node: what is promised gives way to what is there.
    assert_eq!(passed.replan.broken, [later]);
    assert_eq!(ledger.promise(running).unwrap().end(), 4);
}

#[test]
fn promises_of_a_lost_node_move_and_what_ran_there_has_ended() {
    let mut ledger = ledger(&["n1", "n2"]);
    ledger.set_node("other", "b", &amounts(&[("cpu", 64)]));
    let running = reserve(&mut ledger, "n1", 1, window(0, 9), 100);
    ledger.commit(running).unwrap();
    let (dear, cheap) =
        (reserve(&mut ledger, "n1", 3, window(2, 4), 5), reserve(&mut ledger, "n1", 3, window(4, 8), 1));
    reserve(&mut ledger, "n2", 2, window(5, 6), 1);
    let replan = ledger.lose("n1").unwrap();
    assert_eq!(
        (replan.ended, replan.broken),
        (vec![running], vec![cheap]),
        "a node of another class is no place"
    );
    assert_eq!((replan.moved.len(), place(&ledger, dear)), (1, Some("n2")));
    assert_eq!((replan.moved[0].from.as_str(), replan.moved[0].to.as_str()), ("n1", "n2"));
    let closed = claim(&mut ledger, "n1", 1, window(0, 1));
    assert!(matches!(
        ledger.reserve(vec![closed.clone()], 0),
        Err(LedgerError::Closed { standing: Standing::Lost, .. })
    ));
    ledger.restore("n1").unwrap();
    ledger.reserve(vec![closed], 0).unwrap();
    assert!(ledger.forget("n1").is_err());
    ledger.lose("n1").unwrap();
    ledger.forget("n1").unwrap();
    assert_eq!(ledger.node("n1"), None);
    let (id, _) = ledger.set_node("n3", "a", &amounts(&[("cpu", 1)]));
    assert_eq!(
        ledger.free(id, window(0, OPEN_END)),
        amounts(&[("cpu", 1)]),
        "a place that was taken over is empty"
    );
}

#[test]
fn the_least_valuable_promise_breaks_wherever_it_is() {
    let mut ledger = ledger(&["n1", "n2", "n3"]);
    let dear = reserve(&mut ledger, "n1", 4, window(1, 5), 9);
    let middle = reserve(&mut ledger, "n2", 4, window(1, 5), 5);
    let (cheap, small) =
        (reserve(&mut ledger, "n3", 3, window(1, 5), 2), reserve(&mut ledger, "n3", 1, window(7, 8), 1));
    let replan = ledger.lose("n1").unwrap();
    assert_eq!(replan.broken, [cheap], "{replan:?}");
    assert_eq!((place(&ledger, dear), place(&ledger, middle)), (Some("n3"), Some("n2")));
    assert_eq!(place(&ledger, small), Some("n3"), "it was not in the way");
}

#[test]
fn a_cordon_breaks_nothing() {
    let mut ledger = ledger(&["n1", "n2"]);
    let running = reserve(&mut ledger, "n1", 1, window(0, 9), 0);
    ledger.commit(running).unwrap();
    let (moves, stays) =
        (reserve(&mut ledger, "n1", 3, window(1, 3), 4), reserve(&mut ledger, "n1", 3, window(3, 6), 4));
    reserve(&mut ledger, "n2", 4, window(4, 5), 0);
    let replan = ledger.cordon("n1").unwrap();
    assert_eq!((replan.stranded, replan.moved.len()), (vec![stays], 1));
    assert_eq!((place(&ledger, moves), place(&ledger, stays)), (Some("n2"), Some("n1")));
    assert!(replan.broken.is_empty() && replan.ended.is_empty());
    ledger.resize(running, 20).unwrap();
}

#[test]
fn a_node_with_less_keeps_what_is_worth_most() {
    let mut ledger = ledger(&["n1"]);
    let values = [3, 9, 1, 7].map(|value| (value, reserve(&mut ledger, "n1", 1, window(0, 9), value)));
    let (_, replan) = ledger.set_node("n1", "a", &amounts(&[("cpu", 2)]));
    let broken: Vec<u64> =
        values.iter().filter(|(_, id)| replan.broken.contains(id)).map(|(value, _)| *value).collect();
    assert_eq!(broken, [3, 1]);
}

#[test]
fn a_stored_ledger_is_the_same_again() {
    let mut ledger = ledger(&["n1", "n2"]);
    let id = reserve(&mut ledger, "n1", 3, window(0, 9), 8);
    ledger.commit(id).unwrap();
    ledger.cordon("n2").unwrap();
    ledger.advance(4).unwrap();
    let text = serde_json::to_string(&ledger).unwrap();
    let again: Ledger = serde_json::from_str(&text).unwrap();
    assert_eq!(serde_json::to_string(&again).unwrap(), text);
    let (n1, n2) = (again.node("n1").unwrap(), again.node("n2").unwrap());
    assert_eq!(again.free(n1, window(4, 9)), amounts(&[("cpu", 1)]));
    assert_eq!(again.standing(n2), Standing::Cordoned);
    let too_much = text.replace(r#""amounts":{"cpu":3}"#, r#""amounts":{"cpu":5}"#);
    let refused = serde_json::from_str::<Ledger>(&too_much).unwrap_err().to_string();
    assert!(refused.contains("node `n1` has less than is promised on it"), "{refused}");
}

/// Steps, not ticks: what a hundred thousand ticks cost is what their changes cost.
#[test]
fn a_long_horizon_costs_what_changes_in_it() {
    let mut ledger = ledger(&["n1"]);
    let far = 100_000_000_000;
    for start in 0..2_000 {
        reserve(&mut ledger, "n1", 1, window(start * 50_000_000, start * 50_000_000 + far / 4_000), 0);
    }
    let node = ledger.node("n1").unwrap();
    assert_eq!(ledger.free(node, window(0, far)), amounts(&[("cpu", 3)]));
    let cpu = Resource::parse("cpu").unwrap();
    assert_eq!(ledger.used_over("a", &cpu, window(0, far)).len(), 4_000);
}
