//! The requests of agents and their answers, over real connections, on SQLite.

#![allow(clippy::unwrap_used)]

mod support;

use std::sync::mpsc;
use std::time::{Duration, Instant};

use estimand_api::names::NodeName;
use estimand_api::node::{DesiredState, Heartbeat};
use estimand_client::{Client, DesiredQuery};
use estimand_testkit::wait;
use serde_json::json;
use support::agent::read;
use support::{Agent, PATIENCE, Running, World, client, refused, registration, sqlite};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

#[test]
fn a_node_hears_what_it_should_run() {
    let (world, (_folder, store)) = (World::start(), sqlite());
    let everywhere = registration("a", 3, &json!({}));
    let labelled = registration("b", 1, &json!({ "nodes": "gpu" }));
    let counted = registration("c", 2, &json!({ "kind": "processor", "replicas": 1 }));
    world.register(&[everywhere.clone(), labelled, counted.clone()]);
    let manager = Running::start(&store, &world);
    let agent = Agent::new(manager.serving.address, "n1");
    assert_eq!(refused(agent.ask(0, 0), 409), "unknown-node");
    let answer = agent.beat(0);
    assert!(answer["intervalMs"].as_u64().unwrap() >= 1_000, "{answer}");

    let desired = wait::until(PATIENCE, "both slots", || {
        let desired = agent.ask(0, 0).expect_status(200).json();
        (desired["slots"].as_array().unwrap().len() == 2).then_some(desired)
    });
    assert_eq!(desired["dataServer"], "http://data:1");
    let slots = &desired["slots"];
    assert_eq!((&slots[0]["epoch"], &slots[0]["leased"]), (&json!(3_u64 << 24), &json!(null)));
    assert_eq!(slots[0]["registration"]["version"], everywhere["version"]);
    assert_eq!(slots[1]["registration"]["dataName"], counted["dataName"]);
    assert_eq!(slots[1]["leased"], true);
    let epoch = slots[1]["epoch"].as_u64().unwrap();
    assert_eq!(epoch >> 24, 2);

    let revision = desired["revision"].as_u64().unwrap();
    assert_eq!(agent.ask(revision, 0).expect_status(204).body, b"");
    assert!(agent.beat(revision)["leaseMs"].as_u64().unwrap() >= 3_000);
    manager.stop();
}

#[test]
fn a_waiting_agent_hears_of_a_change_at_once() {
    let (world, (_folder, store)) = (World::start(), sqlite());
    world.register(&[registration("a", 1, &json!({}))]);
    let manager = Running::start(&store, &world);
    let agent = Agent::new(manager.serving.address, "n1");
    agent.beat(0);
    let (names, revision) = agent.slots();
    assert_eq!(names, ["a"]);
    let changed = [registration("a", 1, &json!({})), registration("b", 1, &json!({}))];
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| (agent.ask(revision, 30_000), Instant::now()));
        wait_waiting(&manager, 1.0);
        world.register(&changed);
        let told = Instant::now();
        let placed = manager.tell(&changed[1]).expect_status(200).json();
        assert_eq!(placed, json!({ "dataName": "b", "nodes": ["n1"] }));
        let (answer, at) = waiting.join().unwrap();
        let (names, newer) = read(&answer.expect_status(200).json());
        assert_eq!(names, ["a", "b"]);
        assert!(newer > revision);
        // Milliseconds; a machine that also compiles gets more, and the period is five seconds.
        assert!(at - told < Duration::from_secs(4), "{:?}", at - told);
    });
    manager.stop();
}

fn wait_waiting(manager: &Running, count: f64) {
    wait::until(PATIENCE, "questions to wait", || {
        (manager.figure("estimand_manager_waiting_agents") == Some(count)).then_some(())
    });
}

#[test]
fn a_request_that_waited_long_enough_is_answered_with_nothing() {
    let (world, (_folder, store)) = (World::start(), sqlite());
    let manager = Running::start(&store, &world);
    let agent = Agent::new(manager.serving.address, "n1");
    agent.beat(0);
    let (names, revision) = agent.slots();
    assert!(names.is_empty());
    let asked = Instant::now();
    agent.ask(revision, 300).expect_status(204);
    assert!(asked.elapsed() >= Duration::from_millis(300));
    manager.stop();
}

#[test]
fn an_agent_gets_no_desired_state_before_the_registry_was_read() {
    let (world, (_folder, store)) = (World::start(), sqlite());
    world.register(&[registration("a", 1, &json!({}))]);
    world.take_registry_away(true);
    let manager = Running::start(&store, &world);
    let agent = Agent::new(manager.serving.address, "n1");
    agent.beat(0);
    let reads = world.reads();
    wait::until(PATIENCE, "a read to fail", || (world.reads() > reads).then_some(()));
    assert_eq!(refused(agent.ask(0, 0), 503), "unavailable");
    assert_eq!(refused(agent.ask(7, 200), 503), "unavailable");
    world.take_registry_away(false);
    let (names, revision) = agent.slots();
    assert_eq!(names, ["a"]);
    // Away again: what is known stays.
    world.take_registry_away(true);
    let told = manager.tell(&registration("a", 1, &json!({})));
    assert_eq!(refused(told, 503), "unavailable");
    assert_eq!(agent.slots(), (names, revision));
    manager.stop();
}

#[test]
fn a_node_has_one_agent_at_a_time() {
    let (world, (_folder, store)) = (World::start(), sqlite());
    let manager = Running::start(&store, &world);
    let mut agent = Agent::new(manager.serving.address, "n1");
    agent.boot = 5;
    agent.beat(0);
    let mut other = Agent::new(manager.serving.address, "n1");
    other.agent = "other".to_owned();
    assert_eq!(refused(other.beat_with(&json!({})), 409), "node-taken");
    assert_eq!(refused(other.ask(0, 0), 409), "node-taken");
    agent.boot = 4;
    assert_eq!(refused(agent.beat_with(&json!({})), 409), "superseded");
    assert_eq!(refused(agent.ask(0, 0), 409), "superseded");
    agent.boot = 6;
    agent.beat(0);
    manager.stop();
}

#[test]
fn an_invalid_request_is_rejected_with_its_field() {
    let (world, (_folder, store)) = (World::start(), sqlite());
    let manager = Running::start(&store, &world);
    let problem = |response: estimand_testkit::http::Response| {
        let problem = response.expect_status(400).json();
        problem["errors"][0]["field"].as_str().unwrap().to_owned()
    };
    for (query, field) in [
        ("boot=1", "agent"),
        ("agent=a", "boot"),
        ("agent=a&boot=0", "boot"),
        ("agent=a&boot=1&revision=-1", "revision"),
        ("agent=a&boot=1&waitMs=soon", "waitMs"),
        ("agent=a&boot=1&wait=5", "wait"),
    ] {
        assert_eq!(problem(manager.get(&format!("/api/nodes/n1/slots?{query}"))), field, "{query}");
    }
    assert_eq!(problem(manager.get("/api/nodes/a%20b/slots?agent=a&boot=1")), "node");
    let agent = Agent::new(manager.serving.address, "n1");
    assert_eq!(
        problem(agent.beat_with(&json!({ "statuses": [{ "dataName": "1" }] }))),
        "statuses[0].dataName"
    );
    assert_eq!(manager.get("/api/nodes").expect_status(200).json(), json!([]));
    // A newer agent may say more than this manager knows.
    agent.beat_with(&json!({ "feeling": "fine" })).expect_status(200);
    manager.stop();
}

#[test]
fn a_change_reaches_all_agents_that_wait() {
    const NODES: usize = 200;
    let (world, (_folder, store)) = (World::start(), sqlite());
    world.register(&[registration("a", 1, &json!({}))]);
    let manager = Running::start(&store, &world);
    let speaking = client(manager.serving.address);
    let nodes: Vec<NodeName> = (0..NODES).map(|n| NodeName::parse(&format!("n{n}")).unwrap()).collect();
    let runtime = Runtime::new().unwrap();
    let ask_all = |revisions: &[u64]| -> Vec<JoinHandle<DesiredState>> {
        let ask = |(node, revision): (&NodeName, &u64)| {
            runtime.spawn(ask(speaking.clone(), node.clone(), *revision))
        };
        nodes.iter().zip(revisions).map(ask).collect()
    };
    let answers = |asked: Vec<JoinHandle<DesiredState>>| -> Vec<DesiredState> {
        asked.into_iter().map(|asked| runtime.block_on(asked).unwrap()).collect()
    };
    for node in &nodes {
        let beat = Heartbeat { agent: "a".to_owned(), boot: 1, ..Heartbeat::default() };
        runtime.block_on(speaking.heartbeat(node, &beat)).unwrap();
    }
    let first = answers(ask_all(&[0; NODES]));
    assert!(first.iter().all(|desired| desired.slots.len() == 1));
    let revisions: Vec<u64> = first.iter().map(|desired| desired.revision).collect();
    let second = ask_all(&revisions);
    wait_waiting(&manager, NODES as f64);
    let all = [registration("a", 2, &json!({})), registration("b", 1, &json!({}))];
    world.register(&all);
    let placed = manager.tell(&all[1]).expect_status(200).json();
    assert_eq!(placed["nodes"].as_array().unwrap().len(), NODES);
    for desired in answers(second) {
        let versions: Vec<_> = desired.slots.iter().map(|slot| slot.registration.version()).collect();
        assert_eq!(versions, [2, 1]);
    }
    manager.stop();
}

async fn ask(client: Client, node: NodeName, revision: u64) -> DesiredState {
    let wait = Duration::from_secs(14);
    let query = DesiredQuery { node: &node, agent: "a", boot: 1, revision, wait };
    client.desired(query).await.unwrap().unwrap()
}

#[test]
fn a_stop_answers_all_requests_that_wait() {
    const WAITING: usize = 100;
    let (world, (_folder, store)) = (World::start(), sqlite());
    let manager = Running::start(&store, &world);
    let agent = Agent::new(manager.serving.address, "n1");
    agent.beat(0);
    let (_, revision) = agent.slots();
    let (report, statuses) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..WAITING {
            let (report, agent) = (report.clone(), &agent);
            scope.spawn(move || report.send(agent.ask(revision, 60_000).status).unwrap());
        }
        wait_waiting(&manager, WAITING as f64);
        let asked = Instant::now();
        manager.stop();
        // The questions would wait for a minute.
        assert!(asked.elapsed() < Duration::from_secs(30), "{:?}", asked.elapsed());
    });
    drop(report);
    let statuses: Vec<u16> = statuses.iter().collect();
    assert_eq!(statuses, [204; WAITING]);
}
