//! The requests of people and their effects, on SQLite.

#![allow(clippy::unwrap_used)]

mod support;

use std::time::{Duration, Instant};

use estimand_manager::Settings;
use estimand_testkit::wait;
use serde_json::{Value, json};
use support::{Agent, PATIENCE, Running, World, refused, registration, settings, sqlite};

#[test]
fn nodes_and_instances_are_shown() {
    let (world, (_folder, store)) = (World::start(), sqlite());
    world.register(&[registration("a", 1, &json!({})), registration("b", 4, &json!({ "nodes": "gpu" }))]);
    let manager = Running::start(&store, &world);
    let (one, mut other) =
        (Agent::new(manager.serving.address, "n1"), Agent::new(manager.serving.address, "n2"));
    other.labels = json!({ "gpu": "h200" });
    one.beat(0);
    other.beat(0);
    other.wait_for(&["a", "b"]);
    let nodes = manager.get("/api/nodes").expect_status(200).json();
    let shown: Vec<_> = nodes.as_array().unwrap().iter().map(|n| (&n["nodeName"], &n["instances"])).collect();
    assert_eq!(shown, [(&json!("n1"), &json!(1)), (&json!("n2"), &json!(2))]);
    assert_eq!((&nodes[1]["state"], &nodes[1]["labels"]["gpu"]), (&json!("ready"), &json!("h200")));
    assert_eq!(manager.node("n2"), nodes[1]);
    assert_eq!(refused(manager.get("/api/nodes/n3"), 404), "not-found");

    let status = json!({
        "dataName": "b", "version": 4, "doing": "running", "runs": 7, "failures": 0, "timeouts": 0,
        "overruns": 0, "failing": 0,
    });
    other.beat_with(&json!({ "full": true, "statuses": [status] })).expect_status(200);
    let instances = manager.get("/api/mng/instances?dataName=b").expect_status(200).json();
    assert_eq!(instances.as_array().unwrap().len(), 1);
    let shown = &instances[0];
    assert_eq!(
        (&shown["nodeName"], &shown["registered"], &shown["runs"]),
        (&json!("n2"), &json!(4), &json!(7))
    );
    for spelling in ["dataNode", "nodeName"] {
        let found = manager.get(&format!("/api/mng/instances?{spelling}=n2")).expect_status(200).json();
        assert_eq!(found.as_array().unwrap().len(), 2);
    }
    refused(manager.get("/api/mng/instances?dataNode=n1&nodeName=n1"), 400);
    assert_eq!(manager.figure("estimand_nodes{state=\"ready\"}"), Some(2.0));
    assert_eq!(manager.figure("estimand_instances{doing=\"running\"}"), Some(1.0));
    assert_eq!(manager.figure("estimand_manager_leading"), Some(1.0));
    manager.stop();
}

#[test]
fn nodes_are_targets_for_prometheus() {
    let (world, (_folder, store)) = (World::start(), sqlite());
    let manager = Running::start(&store, &world);
    let mut agent = Agent::new(manager.serving.address, "n1");
    agent.labels = json!({ "zone": "a", "x.y/z-1": "" });
    agent.beat(0);
    let targets =
        |query: &str| manager.get(&format!("/api/prometheus-targets{query}")).expect_status(200).json();
    let labels = json!({
        "__meta_estimand_node": "n1", "__meta_estimand_hostname": "", "__meta_estimand_state": "ready",
        "__meta_estimand_cordoned": "false", "__meta_estimand_label_node": "n1",
        "__meta_estimand_label_zone": "a", "__meta_estimand_label_x_y_z_1": "",
    });
    assert_eq!(targets(""), json!([{ "targets": ["n1"], "labels": labels }]));
    assert_eq!(targets("?port=9100")[0]["targets"], json!(["n1:9100"]));
    for wrong in ["?port=0", "?port=x", "?port=65536", "?ports=1"] {
        refused(manager.get(&format!("/api/prometheus-targets{wrong}")), 400);
    }
    manager.stop();
}

#[test]
fn a_notice_counts_only_if_the_registry_agrees() {
    let (world, (_folder, store)) = (World::start(), sqlite());
    let a = registration("a", 1, &json!({}));
    let manager = Running::start(&store, &world);
    assert_eq!(refused(manager.tell(&a), 404), "not-found");
    refused(manager.tell(&json!({ "dataName": "a" })), 400);
    world.register(std::slice::from_ref(&a));
    assert_eq!(manager.tell(&a).expect_status(200).json(), json!({ "dataName": "a", "nodes": [] }));
    assert_eq!(refused(manager.request("DELETE", "/api/mng/a"), 409), "conflict");
    manager.stop();
}

#[test]
fn a_deletion_is_answered_when_the_slots_are_gone() {
    let (world, (_folder, store)) = (World::start(), sqlite());
    world.register(&[registration("a", 1, &json!({})), registration("instances", 1, &json!({}))]);
    let manager = Running::start(&store, &world);
    let (one, left) = (Agent::new(manager.serving.address, "n1"), Agent::new(manager.serving.address, "n2"));
    let both = ["a", "instances"];
    for agent in [&one, &left] {
        agent.beat(0);
        agent.beat(agent.wait_for(&both));
    }
    // One that leaves has ended everything.
    left.beat_with(&json!({ "applied": 1, "leaving": true })).expect_status(200);
    world.register(&[]);
    std::thread::scope(|scope| {
        let deleting = scope.spawn(|| manager.request("DELETE", "/api/mng/a"));
        let revision = one.wait_for(&[]);
        // Told, but its process is not gone yet.
        one.beat_with(&json!({ "applied": revision, "stopping": ["a"] })).expect_status(200);
        assert!(!deleting.is_finished());
        one.beat(revision);
        let answer = deleting.join().unwrap().expect_status(200).json();
        assert_eq!(answer, json!({ "dataName": "a", "ended": ["n1", "n2"], "unreachable": [] }));
    });
    let again = manager.request("DELETE", "/api/mng/instances").expect_status(200).json();
    assert_eq!((&again["dataName"], &again["unreachable"]), (&json!("instances"), &json!([])));
    manager.stop();
}

#[test]
fn a_deletion_names_lost_nodes_as_unreachable() {
    let (world, (_folder, store)) = (World::start(), sqlite());
    world.register(&[registration("a", 1, &json!({}))]);
    let manager = Running::launch(&store, &world, true, impatient());
    manager.wait_leading();
    let agent = Agent::new(manager.serving.address, "n1");
    agent.beat(0);
    agent.wait_for(&["a"]);
    world.wait_for_mark("n1", "node-lost");
    world.register(&[]);
    let answer = manager.request("DELETE", "/api/mng/a").expect_status(200).json();
    assert_eq!(answer, json!({ "dataName": "a", "ended": [], "unreachable": ["n1"] }));
    manager.stop();
}

#[test]
fn a_cordon_is_kept_over_a_restart() {
    let (world, (_folder, store)) = (World::start(), sqlite());
    let manager = Running::start(&store, &world);
    Agent::new(manager.serving.address, "n1").beat(0);
    assert_eq!(refused(manager.request("PUT", "/api/nodes/n2/cordon"), 404), "not-found");
    let node = manager.request("PUT", "/api/nodes/n1/cordon").expect_status(200).json();
    assert_eq!(node["cordoned"], true);
    manager.stop();

    let started = Instant::now();
    let manager = Running::start(&store, &world);
    assert!(started.elapsed() < Duration::from_secs(5));
    assert_eq!(manager.node("n1")["cordoned"], true);
    let node = manager.request("DELETE", "/api/nodes/n1/cordon").expect_status(200).json();
    assert_eq!(node["cordoned"], false);
    manager.stop();
}

#[test]
fn the_data_service_hears_of_lost_nodes_also_when_it_was_away() {
    let (world, (_folder, store)) = (World::start(), sqlite());
    let manager = Running::start(&store, &world);
    let mut agent = Agent::new(manager.serving.address, "n1");
    agent.beat(0);
    world.take_data_away(true);
    agent.beat_with(&json!({ "leaving": true })).expect_status(200);
    wait::until(PATIENCE, "the node to be lost", || (manager.node("n1")["state"] == "lost").then_some(()));
    world.take_data_away(false);
    world.wait_for_mark("n1", "node-lost");
    agent.boot = 2;
    agent.beat(0);
    world.wait_for_mark("n1", "fresh");
    manager.stop();
}

/// Nodes are lost within half a second.
fn impatient() -> Settings {
    let cluster =
        estimand_manager::core::Settings { min_heartbeat_ms: 100, margin_ms: 100, ..Default::default() };
    Settings { cluster, ..settings() }
}

#[test]
fn a_silent_node_is_lost() {
    let (world, (_folder, store)) = (World::start(), sqlite());
    let manager = Running::launch(&store, &world, true, impatient());
    manager.wait_leading();
    Agent::new(manager.serving.address, "n1").beat(0);
    world.wait_for_mark("n1", "node-lost");
    assert_eq!(manager.node("n1")["state"], "lost");
    manager.stop();
}

#[test]
fn a_node_is_removed_with_its_values() {
    let (world, (_folder, store)) = (World::start(), sqlite());
    for (name, node) in [("a", "n1"), ("b", "n1"), ("a", "n2")] {
        world.has(name, node);
    }
    let manager = Running::start(&store, &world);
    let agent = Agent::new(manager.serving.address, "n1");
    let remove = || manager.request("DELETE", "/api/nodes/n1");
    assert_eq!(refused(remove(), 404), "not-found");
    agent.beat(0);
    assert_eq!(refused(remove(), 409), "conflict");
    agent.beat_with(&json!({ "leaving": true })).expect_status(200);
    assert_eq!(remove().expect_status(204).body, b"");
    assert_eq!(world.values(), [("a".to_owned(), "n2".to_owned())]);
    assert_eq!(manager.get("/api/nodes").json(), json!([]));
    manager.stop();
    let manager = Running::start(&store, &world);
    assert_eq!(manager.get("/api/nodes").json(), json!([]));
    manager.stop();
}

/// A removal that is asked for in the middle of a round is answered by its own outcome.
#[test]
fn what_fails_beside_a_removal_is_no_answer_to_it() {
    let (world, (_folder, store)) = (World::start(), sqlite());
    world.has("a", "n1");
    world.hold_producers(true);
    let manager = Running::start(&store, &world);
    let agent = Agent::new(manager.serving.address, "n1");
    agent.beat(0);
    agent.beat_with(&json!({ "leaving": true })).expect_status(200);
    world.wait_for_producers();
    std::thread::scope(|scope| {
        let removal = scope.spawn(|| manager.request("DELETE", "/api/nodes/n1"));
        // Nothing shows that it has been asked for; if it comes too late, it finds the next round.
        std::thread::sleep(Duration::from_millis(300));
        world.hold_producers(false);
        removal.join().unwrap().expect_status(204);
    });
    assert!(world.values().is_empty());
    manager.stop();
}

#[test]
fn a_removal_that_failed_is_finished_later() {
    let (world, (_folder, store)) = (World::start(), sqlite());
    world.has("a", "n1");
    let manager = Running::start(&store, &world);
    let agent = Agent::new(manager.serving.address, "n1");
    agent.beat(0);
    agent.beat_with(&json!({ "leaving": true })).expect_status(200);
    world.wait_for_mark("n1", "node-lost");
    world.take_data_away(true);
    assert_eq!(refused(manager.request("DELETE", "/api/nodes/n1"), 503), "unavailable");
    assert_eq!(manager.node("n1")["state"], "lost");
    world.take_data_away(false);
    wait::until(PATIENCE, "the node to be gone", || {
        (manager.get("/api/nodes/n1").status == 404).then_some(())
    });
    assert!(world.values().is_empty());
    manager.stop();
}

/// The run that an agent is told of.
fn told_run(agent: &Agent, revision: u64) -> Value {
    let desired = wait::until(PATIENCE, "a run", || {
        let answer = agent.ask(revision, 1_000);
        (answer.status == 200).then(|| answer.json()).filter(|desired| desired["runs"].is_array())
    });
    assert_eq!(desired["runs"].as_array().unwrap().len(), 1);
    desired["runs"][0].clone()
}

#[test]
fn a_run_by_hand_comes_back_with_everything() {
    let (world, (_folder, store)) = (World::start(), sqlite());
    world.register(&[registration("a", 1, &json!({}))]);
    let manager = Running::start(&store, &world);
    let agent = Agent::new(manager.serving.address, "n1");
    agent.beat(0);
    let revision = agent.wait_for(&["a"]);
    let run = || manager.request("POST", "/api/mng/instances/a/n1/run");
    std::thread::scope(|scope| {
        let running = scope.spawn(run);
        let told = told_run(&agent, revision);
        assert_eq!(told["registration"]["dataName"], "a");
        // Delivered once.
        agent.ask(revision, 0).expect_status(204);
        let id = told["id"].as_u64().unwrap();
        let report = json!({
            "argv": ["cat", "/proc/loadavg"], "exit": "exit 0", "durationMs": 1.5, "cpuMs": 0.5, "maxMemory": 9,
            "stdout": "0.1\n", "stdoutBytes": 4, "stderr": "",
            "values": [{ "nodeName": "n1", "dataValue": 0.1 }],
        });
        assert_eq!(refused(agent.report(id + 1, &json!({ "report": report })), 404), "not-found");
        refused(agent.report(id, &json!({})), 400);
        agent.report(id, &json!({ "report": report })).expect_status(200);
        assert_eq!(running.join().unwrap().expect_status(200).json(), report);
        refused(agent.report(id, &json!({ "report": report })), 404);

        let running = scope.spawn(run);
        let id = told_run(&agent, revision)["id"].as_u64().unwrap();
        agent.report(id, &json!({ "refused": "not in an allowed folder" })).expect_status(200);
        let answer = running.join().unwrap();
        assert!(answer.json()["detail"].as_str().unwrap().contains("not in an allowed folder"), "{answer}");
        refused(answer, 409);
    });
    // A registration that was made just now is found.
    world.register(&[]);
    assert_eq!(refused(manager.request("POST", "/api/mng/instances/z/n1/run"), 404), "not-found");
    manager.stop();
}

#[test]
fn a_run_that_cannot_be_says_why() {
    let (world, (_folder, store)) = (World::start(), sqlite());
    world.register(&[registration("a", 1, &json!({}))]);
    let settings = Settings { run_within: Duration::from_millis(200), ..settings() };
    let manager = Running::launch(&store, &world, true, settings);
    manager.wait_leading();
    let agent = Agent::new(manager.serving.address, "n1");
    let run = |path: &str| manager.request("POST", &format!("/api/mng/instances/{path}/run"));
    assert_eq!(refused(run("a/n1"), 404), "not-found");
    agent.beat(0);
    assert_eq!(refused(run("b/n1"), 404), "not-found");
    assert_eq!(refused(run("a/n1"), 504), "no-answer");
    assert_eq!(manager.figure("estimand_manager_runs_open"), Some(0.0));
    agent.beat_with(&json!({ "leaving": true })).expect_status(200);
    assert_eq!(refused(run("a/n1"), 503), "unavailable");
    manager.stop();
}
