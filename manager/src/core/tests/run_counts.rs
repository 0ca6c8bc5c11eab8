//! Counts of runs and failures, over heartbeats, starts of agents and leaders.

use estimand_api::node::Heartbeat;
use estimand_api::slot::Status;

use super::fixture::Fixture;
use super::name;

fn told(runs: u64, failures: u64) -> impl FnOnce(&mut Heartbeat) {
    move |beat| beat.statuses = vec![Status { runs, failures, failing: failures, ..Status::new(name(0), 1) }]
}

fn full(runs: u64, failures: u64) -> impl FnOnce(&mut Heartbeat) {
    move |beat| {
        told(runs, failures)(beat);
        beat.full = true;
    }
}

#[track_caller]
fn check(fixture: &Fixture, runs: u64, failures: u64, failing: u64) {
    let (count, nodes) = fixture.cluster.run_counts()[&name(0)];
    assert_eq!((count.runs, count.failures, nodes), (runs, failures, failing));
}

#[test]
fn failures_are_counted_once_however_often_they_are_told() {
    let mut fixture = Fixture::new();
    fixture.register(&[(0, 0, 1)]);
    check(&fixture, 0, 0, 0);
    fixture.beats(&[0, 1]);
    // The very first failure counts, and so does one of another node.
    fixture.beat(0, full(1, 1)).unwrap();
    fixture.beat(1, full(3, 0)).unwrap();
    check(&fixture, 4, 1, 1);
    for again in [told(1, 1), told(1, 1)] {
        fixture.beat(0, again).unwrap();
    }
    fixture.beat(0, full(1, 1)).unwrap();
    check(&fixture, 4, 1, 1);
    fixture.beat(0, told(5, 2)).unwrap();
    check(&fixture, 8, 2, 1);
    // Another start of the agent counts from 0, also if it has failed as often.
    fixture
        .beat(0, |beat| {
            full(5, 2)(beat);
            beat.boot = 2;
        })
        .unwrap();
    check(&fixture, 13, 4, 1);
}

#[test]
fn a_new_leader_counts_nothing_that_its_predecessor_counted() {
    let mut first = Fixture::new();
    first.register(&[(0, 0, 1)]).beats(&[0]);
    first.beat(0, full(7, 3)).unwrap();
    let mut second = first.takeover(2);
    second.register(&[(0, 0, 1)]);
    second.beat(0, full(7, 3)).unwrap();
    check(&second, 0, 0, 1);
    second.beat(0, told(9, 4)).unwrap();
    check(&second, 2, 1, 1);
}
