//! Leases: nodes that are lost and come back, agents that leave, and leaders that take over.

use std::sync::Arc;

use estimand_api::node::{Heartbeat, NodeState};

use super::fixture::{Fixture, LEASE_MS, LOST_MS};
use super::{labels, name, node, other, registered};
use crate::core::{AgentError, RemainingNodes};

#[test]
fn a_node_is_lost_after_its_lease_and_its_counted_instances_move_with_a_higher_epoch() {
    let mut fixture = Fixture::new();
    fixture.register(&[(0, 1, 1), (1, 0, 1)]).beats(&[0, 1]).beats(&[0, 1]);
    let first = fixture.where_is(0).remove(0);
    let other = other(&first);
    fixture.at(1000).beats(&[other]);
    fixture.at(LOST_MS - 1);
    assert_eq!(fixture.where_is(0), std::slice::from_ref(&first));
    fixture.at(LOST_MS);
    assert_eq!(fixture.where_is(0), [node(other)]);
    assert_eq!(fixture.desired(other)[0], ("name_0".to_owned(), (1 << 24) | 2, true));
    let lost = fixture.cluster.node_view(&first).unwrap();
    // An instance that runs everywhere goes on there when the node is back.
    assert_eq!((lost.state, lost.instances), (NodeState::Lost, 1));
    assert_eq!(fixture.cluster.marks(), [(first.clone(), true)]);
    fixture.cluster.marked(&first, true);
    assert_eq!(fixture.cluster.marks(), []);
    let stored = fixture.nodes.iter().find(|node| node.node_name == first).unwrap();
    assert!(stored.lost);
}

#[test]
fn a_node_that_is_back_gets_a_lease_when_it_follows_what_was_decided_without_it() {
    let mut fixture = Fixture::new();
    fixture.register(&[(0, 1, 1)]).beats(&[0]).beats(&[0]);
    let old = fixture.revision(0);
    fixture.at(LOST_MS);
    assert_eq!(fixture.beat(0, |beat| beat.applied = old).unwrap().lease_ms, 0);
    assert_eq!(fixture.cluster.node_view(&node(0)).unwrap().state, NodeState::Ready);
    assert_eq!(fixture.desired(0), [("name_0".to_owned(), (1 << 24) | 2, true)]);
    assert_eq!(fixture.beat(0, |_| {}).unwrap().lease_ms, LEASE_MS);
    // The other mark may be on its way.
    assert_eq!(fixture.cluster.marks(), [(node(0), false)]);
}

#[test]
fn an_instance_taken_from_a_live_node_starts_elsewhere_when_the_agent_says_it_is_gone() {
    let mut fixture = Fixture::new();
    let zone = |zone: &'static str| move |beat: &mut Heartbeat| beat.labels = labels(&[("zone", zone)]);
    fixture.cluster.set_registrations(vec![Arc::new(registered("name_0", 1, "zone=a", 1))]);
    fixture.beat(0, zone("a")).unwrap();
    let running = fixture.revision(0);
    fixture.beat(1, zone("a")).unwrap();
    fixture.beat(1, zone("a")).unwrap();
    fixture.beat(0, zone("b")).unwrap();
    assert_eq!((fixture.desired(0), fixture.desired(1)), (vec![], vec![]));
    assert_eq!(fixture.cluster.remaining_nodes(&name(0)).waiting, [node(0)]);
    // It follows an older state, or a process is not gone yet.
    let old = |beat: &mut Heartbeat| {
        zone("b")(beat);
        beat.applied = running;
    };
    let stopping = |beat: &mut Heartbeat| {
        zone("b")(beat);
        beat.stopping = vec![name(0)];
    };
    fixture.beat(0, old).unwrap();
    fixture.beat(0, stopping).unwrap();
    assert_eq!(fixture.desired(1), []);
    fixture.beat(0, zone("b")).unwrap();
    assert_eq!(fixture.desired(1), [("name_0".to_owned(), (1 << 24) | 2, true)]);
    // If it followed its former state again, it would have no lease.
    assert_eq!(fixture.beat(0, old).unwrap().lease_ms, 0);
}

#[test]
fn a_new_leader_waits_for_the_leases_that_its_predecessor_gave() {
    let mut first = Fixture::new();
    first.register(&[(0, 1, 1)]).beats(&[0, 1]);
    let on = first.where_is(0).remove(0);
    let other = other(&on);
    let mut second = first.takeover(2);
    second.register(&[(0, 1, 1)]);
    assert_eq!(second.where_is(0), std::slice::from_ref(&on));
    second.at(500 + LOST_MS - 1).beats(&[other]);
    assert_eq!(second.where_is(0), [on]);
    second.at(500 + LOST_MS);
    assert_eq!(second.where_is(0), [node(other)]);
    assert_eq!(second.desired(other)[0].1, (1 << 24) | 2);
}

#[test]
fn a_new_leader_gives_leases_to_agents_that_follow_it() {
    let mut first = Fixture::new();
    first.register(&[(0, 1, 1)]).beats(&[0]);
    let old = first.revision(0);
    let mut second = first.takeover(2);
    second.register(&[(0, 1, 1)]);
    assert!(second.revision(0) > old);
    let answer = second.beat(0, |beat| beat.applied = old).unwrap();
    assert_eq!((answer.lease_ms, answer.resend), (0, true));
    // A revision that its successor has drawn says nothing to the predecessor.
    let ahead = second.revision(0);
    assert_eq!(first.beat(0, |beat| beat.applied = ahead).unwrap().lease_ms, 0);
    let answer = second.beat(0, |beat| beat.full = true).unwrap();
    assert_eq!((answer.lease_ms, answer.resend), (LEASE_MS, false));
}

#[test]
fn an_agent_that_leaves_is_believed_at_once() {
    let mut fixture = Fixture::new();
    fixture.register(&[(0, 1, 1)]).beats(&[0, 1]);
    let on = fixture.where_is(0).remove(0);
    let (leaves, stays) = (1 - other(&on), other(&on));
    fixture.at(500);
    fixture.beat(leaves, |beat| beat.leaving = true).unwrap();
    assert_eq!(fixture.where_is(0), [node(stays)]);
    // A word of it that was late does not bring it back, its next start does.
    let late = fixture.beat(leaves, |_| {});
    assert_eq!(late, Err(AgentError::Superseded { node: on.clone(), given: 1, known: 1 }));
    assert!(fixture.beat(leaves, |beat| beat.leaving = true).is_ok());
    assert_eq!(fixture.cluster.node_view(&on).unwrap().state, NodeState::Lost);
    fixture.beat(leaves, |beat| beat.boot = 2).unwrap();
    assert_eq!(fixture.cluster.node_view(&on).unwrap().state, NodeState::Ready);
}

#[test]
fn an_agent_that_leaves_is_not_believed_while_a_former_leader_may_answer() {
    let mut first = Fixture::new();
    first.register(&[(0, 1, 1)]).beats(&[0, 1]);
    let on = first.where_is(0).remove(0);
    let leaves = 1 - other(&on);
    let mut second = first.takeover(2);
    second.register(&[(0, 1, 1)]).at(499).beats(&[other(&on)]);
    second.beat(leaves, |beat| beat.leaving = true).unwrap();
    assert_eq!(second.where_is(0), std::slice::from_ref(&on));
    second.now = 500;
    second.beat(leaves, |beat| beat.leaving = true).unwrap();
    assert_eq!(second.where_is(0), [node(other(&on))]);
}

#[test]
fn the_agent_that_is_heard_of_stays_when_two_have_one_name() {
    let mut fixture = Fixture::new();
    fixture.register(&[]).beats(&[0]);
    fixture.beat(0, |beat| beat.boot = 3).unwrap();
    let superseded = AgentError::Superseded { node: node(0), given: 2, known: 3 };
    assert_eq!(fixture.beat(0, |beat| beat.boot = 2), Err(superseded.clone()));
    let knows = |fixture: &Fixture, agent: &str, boot| fixture.cluster.knows_agent(&node(0), agent, boot);
    assert_eq!(knows(&fixture, "agent-0", 2), Err(superseded));
    assert_eq!(knows(&fixture, "agent-0", 3), Ok(()));
    assert_eq!(knows(&fixture, "other", 1), Err(AgentError::NodeTaken(node(0))));
    assert_eq!(fixture.cluster.knows_agent(&node(1), "a", 1), Err(AgentError::UnknownNode(node(1))));
    let other = |beat: &mut Heartbeat| beat.agent = "other".to_owned();
    fixture.now = LOST_MS - 1;
    assert_eq!(fixture.beat(0, other), Err(AgentError::NodeTaken(node(0))));
    fixture.now = LOST_MS;
    assert!(fixture.beat(0, other).is_ok());
    assert_eq!(fixture.beat(0, |_| {}), Err(AgentError::NodeTaken(node(0))));
}

#[test]
fn the_instances_of_a_lost_node_are_unreachable() {
    let mut fixture = Fixture::new();
    fixture.register(&[(0, 0, 1)]).beats(&[0]).at(LOST_MS);
    fixture.register(&[]);
    assert_eq!(
        fixture.cluster.remaining_nodes(&name(0)),
        RemainingNodes { waiting: vec![], unreachable: vec![node(0)] }
    );
}

#[test]
fn a_new_leader_knows_that_an_agent_may_run_what_was_deleted_before() {
    let mut first = Fixture::new();
    first.register(&[(0, 0, 1)]).beats(&[0]);
    let old = first.revision(0);
    let mut second = first.takeover(2);
    second.register(&[]);
    second.beat(0, |beat| beat.applied = old).unwrap();
    assert_eq!(second.cluster.remaining_nodes(&name(0)).waiting, [node(0)]);
    second.beats(&[0]);
    assert_eq!(second.cluster.remaining_nodes(&name(0)), RemainingNodes::default());
}
