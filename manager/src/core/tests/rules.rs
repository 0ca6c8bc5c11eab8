//! The rules one by one: placements, confirmations, what is stored and when.

use std::sync::Arc;

use estimand_api::node::Heartbeat;
use estimand_api::slot::{SlotActivity, Status};

use super::fixture::{Fixture, LEASE_MS, LOST_MS};
use super::{name, node, other, registered};
use crate::core::{RemainingNodes, RemoveError};

#[test]
fn a_node_has_a_desired_state_only_after_the_registry_was_read() {
    let mut fixture = Fixture::new();
    fixture.beats(&[0]);
    assert_eq!(fixture.cluster.desired(&node(0)), None);
    assert_eq!(fixture.beat(0, |_| {}).unwrap().lease_ms, 0);
    fixture.register(&[]);
    assert_eq!(fixture.desired(0), []);
    assert_eq!(fixture.beat(0, |_| {}).unwrap().lease_ms, LEASE_MS);
}

#[test]
fn a_counted_instance_is_delivered_once_its_placement_is_stored() {
    let mut fixture = Fixture::new();
    fixture.register(&[]).beats(&[0]);
    fixture.cluster.set_registrations(vec![Arc::new(registered("name_0", 1, "", 7))]);
    let step = fixture.cluster.reconcile(0, 5);
    assert_eq!(step.store.put_placements.len(), 1);
    assert_eq!(fixture.desired(0), []);
    // Until the store has answered nothing else is written.
    assert!(fixture.cluster.reconcile(0, 5).store.is_empty());
    fixture.cluster.failed(step);
    assert_eq!(fixture.desired(0), []);
    fixture.cluster.changed_nodes();
    let again = fixture.cluster.reconcile(0, 5);
    assert_eq!(again.store.put_placements.len(), 1);
    fixture.cluster.committed(again);
    assert_eq!(fixture.desired(0), [("name_0".to_owned(), (7 << 24) | 1, true)]);
    assert_eq!(fixture.cluster.changed_nodes(), [node(0)]);
}

#[test]
fn a_placement_of_a_write_with_unknown_outcome_is_deleted_if_it_is_not_wanted_any_more() {
    let mut fixture = Fixture::new();
    fixture.register(&[]).beats(&[0]);
    fixture.cluster.set_registrations(vec![Arc::new(registered("name_0", 1, "", 1))]);
    let step = fixture.cluster.reconcile(0, 0);
    fixture.cluster.failed(step);
    fixture.cluster.set_registrations(Vec::new());
    let step = fixture.cluster.reconcile(0, 0);
    assert_eq!(step.store.delete_placements, [(name(0), node(0))]);
}

#[test]
fn a_count_that_is_lowered_while_placements_are_stored_leaves_the_older_one() {
    let mut fixture = Fixture::new();
    fixture.register(&[]).beats(&[0, 1]);
    fixture.cluster.set_registrations(vec![Arc::new(registered("name_0", 2, "", 1))]);
    let step = fixture.cluster.reconcile(0, 0);
    fixture.cluster.set_registrations(vec![Arc::new(registered("name_0", 1, "", 2))]);
    fixture.store(&step);
    fixture.cluster.committed(step);
    assert_eq!(fixture.settle().where_is(0).len(), 1);
}

#[test]
fn numbers_of_moves_never_come_twice_though_every_placement_is_gone() {
    let mut first = Fixture::new();
    first.register(&[(0, 1, 1)]).beats(&[0]);
    first.at(LOST_MS);
    first.cluster.remove(&node(0)).unwrap();
    first.settle();
    assert_eq!((first.nodes.len(), first.where_is(0)), (0, vec![]));
    let mut second = first.takeover(2);
    second.register(&[(0, 1, 1)]).beats(&[1]);
    assert_eq!(second.desired(1), [("name_0".to_owned(), (1 << 24) | 2, true)]);
    // Only the latest row is left, and that goes with the registration.
    assert_eq!(second.placements.len(), 1);
    second.register(&[]).beats(&[1]);
    assert_eq!(second.placements, []);
}

#[test]
fn all_instances_of_a_name_write_by_its_latest_epoch() {
    let mut fixture = Fixture::new();
    fixture.register(&[(0, 2, 3)]).beats(&[0]);
    assert_eq!(fixture.desired(0)[0].1, (3 << 24) | 1);
    fixture.beats(&[1]);
    // Else the first could not be heard after the second, which outranks it, is gone.
    assert_eq!((fixture.desired(0)[0].1, fixture.desired(1)[0].1), ((3 << 24) | 2, (3 << 24) | 2));
}

#[test]
fn only_a_lost_node_is_removed() {
    let mut fixture = Fixture::new();
    fixture.register(&[]).beats(&[0]);
    assert_eq!(fixture.cluster.remove(&node(0)), Err(RemoveError::NotLost(node(0))));
    fixture.at(LOST_MS);
    assert_eq!(fixture.cluster.remove(&node(0)), Ok(()));
    assert_eq!(fixture.cluster.remove(&node(0)), Err(RemoveError::UnknownNode(node(0))));
}

#[test]
fn a_cordon_keeps_away_what_is_new_and_moves_nothing() {
    let mut fixture = Fixture::new();
    fixture.register(&[(0, 1, 1)]).beats(&[0]);
    fixture.cluster.cordon(&node(0), true).unwrap();
    fixture.register(&[(0, 1, 1), (1, 1, 1), (2, 0, 1)]);
    let names: Vec<_> = fixture.desired(0).into_iter().map(|(name, ..)| name).collect();
    assert_eq!(names, ["name_0", "name_2"]);
    fixture.cluster.cordon(&node(0), false).unwrap();
    assert_eq!(fixture.settle().desired(0).len(), 3);
    assert_eq!(fixture.cluster.cordon(&node(9), true), None);
}

#[test]
fn an_instance_that_its_node_refuses_moves_to_one_that_may_run_it() {
    let refused = |beat: &mut Heartbeat| {
        beat.statuses = vec![Status { doing: SlotActivity::Refused, ..Status::new(name(0), 1) }];
    };
    let mut fixture = Fixture::new();
    fixture.register(&[(0, 1, 1)]).beats(&[0, 1]);
    let other = other(&fixture.where_is(0)[0]);
    let first = 1 - other;
    fixture.beat(first, refused).unwrap();
    // It is nowhere until its agent has said that it is gone.
    assert_eq!((fixture.desired(first), fixture.desired(other)), (vec![], vec![]));
    fixture.beats(&[first]);
    assert_eq!(fixture.desired(other), [("name_0".to_owned(), (1 << 24) | 2, true)]);
    // Refused there as well, it stays: it came from a node that is no better.
    fixture.beat(other, refused).unwrap();
    assert_eq!(fixture.where_is(0), [node(other)]);
    // A node that joins may run it; and so may one whose agent was started again.
    fixture.beats(&[2]).beats(&[other]);
    assert_eq!(fixture.desired(2), [("name_0".to_owned(), (1 << 24) | 3, true)]);
    fixture.beat(first, |beat| beat.boot = 2).unwrap();
    fixture.beat(2, refused).unwrap();
    fixture.beats(&[2]);
    assert_eq!(fixture.where_is(0), [node(first)]);
}

#[test]
fn an_instance_goes_to_the_node_that_has_its_program_and_if_none_has_each_says_why() {
    let status = |index: usize, reason: &str| Status {
        doing: SlotActivity::Idle,
        runs: 1,
        failures: 1,
        failing: 1,
        missing: true,
        last_error: Some(reason.to_owned()),
        ..Status::new(name(index), 1)
    };
    let mut fixture = Fixture::new();
    fixture.register(&[(0, 1, 1)]).beats(&[0, 1]);
    let other = other(&fixture.where_is(0)[0]);
    let first = 1 - other;
    // One failure is enough: what is not there is not there the next time.
    fixture.beat(first, |beat| beat.statuses = vec![status(0, "there is no `x`")]).unwrap();
    fixture.beats(&[first]);
    assert_eq!(fixture.where_is(0), [node(other)]);
    let trouble = |fixture: &Fixture| {
        let views = fixture.cluster.instance_views(Some(&name(0)), None);
        views.iter().find(|view| view.registered.is_some()).and_then(|view| view.trouble())
    };
    assert_eq!(trouble(&fixture), None);
    fixture.beat(other, |beat| beat.statuses = vec![status(0, "`x` is not run")]).unwrap();
    assert_eq!(fixture.where_is(0), [node(other)]);
    let said = format!("no node can run it: node-{other}: `x` is not run; node-{first}: there is no `x`");
    assert_eq!(trouble(&fixture), Some(said));
    // A node that is not heard of has no say.
    fixture.at(1).beats(&[other]);
    fixture.at(LOST_MS).beats(&[other]);
    assert!(trouble(&fixture).is_none_or(|said| !said.contains(&format!("node-{first}"))));
}

#[test]
fn what_no_node_has_is_absent_and_no_trouble_however_many_nodes_there_are() {
    let absent = |beat: &mut Heartbeat| {
        let note = Some("there is no HDFS here".to_owned());
        beat.statuses =
            vec![Status { doing: SlotActivity::Unavailable, runs: 1, note, ..Status::new(name(0), 1) }];
    };
    let refused = |beat: &mut Heartbeat| {
        let last_error = Some("`x` is not run".to_owned());
        beat.statuses = vec![Status { doing: SlotActivity::Refused, last_error, ..Status::new(name(0), 1) }];
    };
    let mut fixture = Fixture::new();
    fixture.register(&[(0, 1, 1)]).beats(&[0, 1]);
    let other = other(&fixture.where_is(0)[0]);
    let first = 1 - other;
    fixture.beat(first, absent).unwrap();
    fixture.beats(&[first]);
    fixture.beat(other, absent).unwrap();
    fixture.beats(&[other]);
    assert_eq!(fixture.where_is(0), [node(other)]);
    let summary = |fixture: &Fixture| {
        let summary = fixture.cluster.instance_summaries().remove(&name(0)).unwrap();
        (summary.instances, summary.absent, summary.troubled)
    };
    assert_eq!(summary(&fixture), (1, 1, 0));
    // A node that refuses it might have it, so nobody knows that there is nothing to measure.
    fixture.beats(&[2]).beats(&[other]);
    fixture.beat(2, refused).unwrap();
    let views = fixture.cluster.instance_views(Some(&name(0)), None);
    let trouble = views.iter().find_map(|view| view.trouble()).unwrap();
    assert!(trouble.contains("`x` is not run") && trouble.contains("there is no HDFS here"), "{trouble}");
    assert_eq!(summary(&fixture), (1, 0, 1));
}

#[test]
fn an_old_version_that_is_refused_says_nothing_of_the_new_one() {
    let refused = |beat: &mut Heartbeat| {
        beat.statuses = vec![Status { doing: SlotActivity::Refused, ..Status::new(name(0), 1) }];
    };
    let mut fixture = Fixture::new();
    fixture.register(&[(0, 1, 1)]).beats(&[0]);
    fixture.beat(0, refused).unwrap();
    fixture.register(&[(0, 1, 2)]);
    fixture.beat(0, refused).unwrap();
    fixture.beats(&[1]).beats(&[0]);
    assert_eq!(fixture.where_is(0), [node(0)]);
}

#[test]
fn heartbeats_that_say_nothing_new_are_not_stored() {
    let mut fixture = Fixture::new();
    fixture.register(&[(0, 0, 1)]).beats(&[0]).beats(&[0]);
    fixture
        .cluster
        .heartbeat(&node(0), Heartbeat { agent: "agent-0".into(), boot: 1, ..Heartbeat::default() }, 1, 1)
        .unwrap();
    assert!(!fixture.cluster.wants_reconcile());
    fixture
        .cluster
        .heartbeat(&node(0), Heartbeat { agent: "agent-0".into(), boot: 2, ..Heartbeat::default() }, 1, 1)
        .unwrap();
    assert_eq!(fixture.cluster.reconcile(1, 1).store.put_nodes.len(), 1);
}

#[test]
fn statuses_are_kept_of_what_belongs_there_or_still_ends() {
    let mut fixture = Fixture::new();
    fixture.register(&[(0, 0, 1)]).beats(&[0]);
    let status = |index, doing| Status { doing, ..Status::new(name(index), 1) };
    let statuses = vec![status(0, SlotActivity::Idle), status(1, SlotActivity::Idle)];
    fixture.beat(0, |beat| (beat.full, beat.statuses) = (true, statuses)).unwrap();
    let views = |fixture: &Fixture| {
        let views = fixture.cluster.instance_views(None, None).into_iter();
        views.map(|view| (view.status.data_name, view.registered, view.status.doing)).collect::<Vec<_>>()
    };
    assert_eq!(views(&fixture), [(name(0), Some(1), SlotActivity::Idle)]);
    fixture.register(&[]);
    fixture
        .beat(0, |beat| {
            (beat.stopping, beat.statuses) = (vec![name(0)], vec![status(0, SlotActivity::Stopping)]);
        })
        .unwrap();
    assert_eq!(views(&fixture), [(name(0), None, SlotActivity::Stopping)]);
    assert_eq!(fixture.cluster.remaining_nodes(&name(0)).waiting, [node(0)]);
    fixture.beats(&[0]);
    assert_eq!(
        (views(&fixture), fixture.cluster.remaining_nodes(&name(0))),
        (vec![], RemainingNodes::default())
    );
}

#[test]
fn a_paused_registration_runs_nowhere_and_comes_back_in_order() {
    for replicas in [0, 1] {
        let mut fixture = Fixture::new();
        fixture.register(&[(0, replicas, 1)]).beats(&[0]).beats(&[0]);
        assert_eq!(fixture.settle().desired(0).len(), 1);
        let before = fixture.desired(0)[0].1;
        let mut paused = registered("name_0", replicas, "", 2);
        paused.registration.paused = true;
        fixture.cluster.set_registrations(vec![Arc::new(paused)]);
        fixture.settle().beats(&[0]);
        assert_eq!(fixture.settle().desired(0), []);
        assert!(fixture.cluster.registered(&name(0)).is_some());
        fixture.register(&[(0, replicas, 3)]).beats(&[0]);
        let after = fixture.settle().desired(0);
        assert!(after.len() == 1 && after[0].1 > before, "{after:?} after {before}");
    }
}
