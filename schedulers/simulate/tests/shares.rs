//! The order by shares in simulations: that of one user is as before, and one user's crowd does not keep others waiting.

#![allow(clippy::unwrap_used)]

use estimand_capacity::{Amounts, Resource, Shares, Weight};
use estimand_placement::Millis;
use estimand_placement::policy::Policy;
use estimand_simulate::trace::{Loss, Trace, TraceTask};
use estimand_simulate::{Entry, Outcome, Setup, nodes_of, simulate, simulate_by_shares};
use proptest::prelude::*;

fn setup(nodes: usize, processors: u64, policy: Policy) -> Setup {
    Setup { nodes: nodes_of(nodes, processors, None), policy, facts_every: Millis(5_000), seed: 3 }
}

fn task(at: u64, service: u64, cpu: u64, user: Option<&str>) -> TraceTask {
    let resources: Amounts = [(Resource::parse("cpu").unwrap(), cpu)].into_iter().collect();
    let user = user.map(str::to_owned);
    TraceTask { at: Millis(at), service: Millis(service), resources, user, ..TraceTask::default() }
}

/// An hour of bob's work at once, and a task of alice's each minute.
fn crowd() -> Trace {
    let of_bob = (0..960).map(|_| task(0, 60_000, 1_000, Some("bob")));
    let of_alice = (1..=30).map(|minute| task(minute * 60_000 - 30_000, 60_000, 1_000, Some("alice")));
    let mut tasks: Vec<TraceTask> = of_bob.chain(of_alice).collect();
    tasks.sort_by_key(|task| task.at);
    Trace { tasks, ..Trace::default() }
}

fn mean_wait(outcome: &Outcome, user: &str) -> u64 {
    let waits = &outcome.waits_by_user[user];
    waits.iter().map(|wait| wait.0).sum::<u64>() / waits.len() as u64
}

#[test]
fn one_users_crowd_keeps_nobody_else_waiting() {
    let setup = setup(4, 4, Policy::Estimated);
    let before = simulate(&setup, &crowd(), &mut |_| {}).unwrap();
    let fair = simulate_by_shares(&setup, Shares::default(), &crowd(), &mut |_| {}).unwrap();
    assert_eq!(before.waits.len(), 990);
    assert_eq!(fair.waits.len(), 990);
    assert_eq!((mean_wait(&before, "alice"), mean_wait(&fair, "alice")), (2_728_000, 30_000));
    assert_eq!((mean_wait(&before, "bob"), mean_wait(&fair, "bob")), (1_770_000, 1_854_312));
}

#[test]
fn a_weight_is_a_part_of_what_is_lent() {
    let mut tasks: Vec<TraceTask> = (0..600).map(|_| task(0, 60_000, 1_000, Some("bob"))).collect();
    tasks.extend((0..600).map(|_| task(0, 60_000, 1_000, Some("alice"))));
    let trace = Trace { tasks, ..Trace::default() };
    let mut shares = Shares::default();
    shares.set_user_weight("alice", Weight::new(3).unwrap());
    let mut served = Vec::new();
    let outcome = simulate_by_shares(&setup(1, 8, Policy::Pack), shares, &trace, &mut |entry| {
        if let Entry::Transition { task, why: Some(_), .. } = entry {
            served.push(if task.0 < 600 { "bob" } else { "alice" });
        }
    });
    assert_eq!(outcome.unwrap().waits.len(), 1_200);
    // Bob comes first and has all of the first minute. From then on alice has three of four.
    let of_alice = served[..800].iter().filter(|user| **user == "alice").count();
    assert_eq!(of_alice, 99 * 6);
}

fn log(trace: &Trace, setup: &Setup, is_by_shares: bool) -> (String, Outcome) {
    let mut log = String::new();
    let mut write = |entry: &Entry| {
        log += &serde_json::to_string(entry).unwrap();
        log.push('\n');
    };
    let outcome = if is_by_shares {
        simulate_by_shares(setup, Shares::default(), trace, &mut write)
    } else {
        simulate(setup, trace, &mut write)
    };
    (log, outcome.unwrap())
}

fn tasks() -> impl Strategy<Value = Vec<TraceTask>> {
    let figures = (0..1_500_000_u64, 1_000..900_000_u64, 0..5_u64, -3..4_i32);
    let task = figures.prop_map(|(at, service, cpu, priority)| TraceTask {
        priority,
        ..task(at, service, cpu * 1_000, None)
    });
    proptest::collection::vec(task, 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// With one user, or with operators' tasks alone, nothing is decided otherwise: with priorities, tasks that wait for more than ten
    /// minutes, and a node that is lost.
    #[test]
    fn the_order_of_one_user_is_that_of_the_queue(
        tasks in tasks(), has_user in any::<bool>(), policy in prop_oneof![
            Just(Policy::Estimated), Just(Policy::Queue), Just(Policy::Pack), Just(Policy::Random)
        ], lost_at in 0..2_000_000_u64,
    ) {
        let user = has_user.then(|| "bob".to_owned());
        let mut tasks: Vec<TraceTask> =
            tasks.into_iter().map(|task| TraceTask { user: user.clone(), ..task }).collect();
        tasks.sort_by_key(|task| task.at);
        let losses = vec![Loss {
            node: "n1".to_owned(), lost_at: Millis(lost_at), back_at: Some(Millis(lost_at + 60_000)),
        }];
        let trace = Trace { tasks, losses, ..Trace::default() };
        let setup = setup(2, 4, policy);
        let by_rank = log(&trace, &setup, false);
        let by_shares = log(&trace, &setup, true);
        prop_assert_eq!(by_rank, by_shares);
    }
}
