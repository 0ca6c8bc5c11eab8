//! A leased task ends with its lease, whoever is there to end it.

use std::time::Duration;

use estimand_testkit::disk::Disk;
use estimand_testkit::processes;
use estimand_testkit::wait::{self, PATIENCE};
use serde_json::json;

use crate::node::Node;

pub const LEASE: Duration = Duration::from_secs(3);

fn assign_both(node: &Node) {
    node.services.give_leases_of(LEASE);
    let ticks =
        |name: &str| node.shell(&format!("while :; do touch \"$0/{name}\"; echo on; sleep 0.05; done"));
    node.services.assign(json!([
        {"id": "leased", "attempt": 1, "leased": true, "work": ticks("leased")},
        {"id": "free", "attempt": 1, "work": ticks("free")},
    ]));
    node.until_said("leased.1", "on");
    node.until_said("free.1", "on");
}

/// Waits until it has been at work after this moment.
fn until_goes_on(node: &Node, name: &str) {
    std::fs::remove_file(node.folder.path().join(name)).unwrap();
    wait::until(PATIENCE, &format!("{name} to go on"), || node.has(name).then_some(()));
}

#[test]
fn a_lease_ends_its_task_while_the_agent_is_dead_and_no_other_one() {
    let mut node = Node::start("lease-dead");
    assign_both(&node);
    node.agent.kill9();
    wait::until(PATIENCE, "the leased task to end", || {
        let leased = node.keeper("leased.1");
        leased.is_none().then_some(())
    });
    assert_eq!(
        node.running().iter().filter(|one| one.cmdline.iter().any(|arg| arg.contains("leased"))).count(),
        0
    );
    until_goes_on(&node, "free");
    node.agent.restart_on_same_port();
    node.until_ended("leased.1", json!("nodeLost"));
    until_goes_on(&node, "free");
    node.end();
}

#[test]
fn a_lease_that_is_renewed_holds_for_as_long_as_it_is() {
    let node = Node::start("lease-renewed");
    assign_both(&node);
    let began = std::time::Instant::now();
    wait::until(PATIENCE, "three leases", || (began.elapsed() > 3 * LEASE).then_some(()));
    until_goes_on(&node, "leased");
    node.services.answer_heartbeats(false);
    node.until_ended("leased.1", json!("nodeLost"));
    until_goes_on(&node, "free");
    node.end();
}

/// It may have been begun elsewhere meanwhile.
#[test]
fn what_did_not_begin_under_its_lease_never_does() {
    let mut node = Node::without_lease("lease-never");
    let work = node.shell("touch \"$0/ran\"");
    node.services.assign(json!([{"id": "l", "attempt": 1, "leased": true, "work": work}]));
    node.until("l.1", "be accepted", |heard| heard.stages.contains(&json!("accepted")));
    assert!(node.keeper("l.1").is_none());
    // One that was here before, of which this agent does not know whether there was a lease.
    node.agent.kill9();
    node.services.give_leases_of(LEASE);
    node.agent.restart_on_same_port();
    node.until("l.1", "end or not", |heard| heard.lines_at_end.is_some() || node.has("ran"));
    processes::none_with(&node.mark, PATIENCE);
    assert!(!node.has("ran"));
    node.end();
}

/// The answer that assigned it was on its way while the node was cut off: it may have been begun elsewhere meanwhile.
#[test]
fn what_was_assigned_before_the_lease_began_is_begun_when_it_is_said_again() {
    let node = Node::without_lease("lease-before");
    let assigned = json!([{"id": "l", "attempt": 1, "leased": true, "work": node.shell("touch \"$0/ran\"")}]);
    node.services.assign(assigned.clone());
    node.until("l.1", "be accepted", |heard| heard.stages.contains(&json!("accepted")));
    node.services.say_nothing_of_tasks();
    node.services.give_leases_of(60 * LEASE);
    wait::until(PATIENCE, "a lease", || node.tasks_folder().join("lease").exists().then_some(()));
    wait::pass(Duration::from_secs(2));
    assert!(!node.has("ran"));
    node.services.assign(assigned);
    node.until_ended("l.1", json!({"exit": 0}));
    assert!(node.has("ran"));
    node.end();
}

/// Leases of two lengths each end their own task, whether or not the agent lives.
#[test]
fn a_lease_of_its_own_outlives_that_of_slots_and_ends_then() {
    let mut node = Node::start("lease-own");
    node.services.give_leases_of(LEASE);
    let ticks = |name: &str| {
        node.shell(&format!(
            "echo x >> \"$0/begun-{name}\"; while :; do touch \"$0/{name}\"; echo on; sleep 0.05; done"
        ))
    };
    node.services.assign(json!([
        {"id": "short", "attempt": 1, "leased": true, "work": ticks("short")},
        {"id": "long", "attempt": 1, "leased": true, "leaseMs": 8 * LEASE.as_millis() as u64, "work": ticks("long")},
    ]));
    node.until_said("short.1", "on");
    node.until_said("long.1", "on");
    node.agent.kill9();
    wait::until(PATIENCE, "the short lease to end", || node.keeper("short.1").is_none().then_some(()));
    until_goes_on(&node, "long");
    // A lease that holds is no other one to an agent that is started anew.
    node.agent.restart_on_same_port();
    node.until_ended("short.1", json!("nodeLost"));
    until_goes_on(&node, "long");
    node.services.answer_heartbeats(false);
    node.until_ended("long.1", json!("nodeLost"));
    assert_eq!(std::fs::read_to_string(node.folder.path().join("begun-long")).unwrap(), "x\n");
    node.end();
}

/// The answers to its heartbeats need no room.
#[test]
fn a_lease_is_renewed_on_a_full_disk() {
    let disk = Disk::in_memory("32m");
    let node = Node::on_disk("lease-full", &disk, &[]);
    node.services.take_news(false);
    node.services.give_leases_of(LEASE);
    let ticks = node.shell("while :; do touch \"$0/leased\"; sleep 0.05; done");
    node.services.assign(json!([{"id": "leased", "attempt": 1, "leased": true, "work": ticks}]));
    wait::until(PATIENCE, "it to run", || node.has("leased").then_some(()));
    let full = disk.fill();
    wait::pass(3 * LEASE);
    until_goes_on(&node, "leased");
    drop(full);
    node.services.take_news(true);
    node.services.answer_heartbeats(false);
    node.until_ended("leased.1", json!("nodeLost"));
    node.end();
}
