//! The tasks of nodes on their way from the task service to the agents, over real connections, on SQLite.

#![allow(clippy::unwrap_used)]

mod support;

use estimand_testkit::http::Response;
use estimand_testkit::wait;
use serde_json::{Value, json};
use support::{Agent, PATIENCE, Running, World, refused, registration, sqlite};

fn tell(manager: &Running, node: &str, tasks: &Value) -> Response {
    let body = json!({ "tasks": tasks });
    manager.serving.http.send_json("PUT", &format!("/api/mng/nodes/{node}/tasks"), &body)
}

fn told(manager: &Running) -> Value {
    manager.get("/api/mng/nodes/tasks").expect_status(200).json()
}

fn task(id: &str) -> Value {
    json!({ "id": id, "attempt": 1, "work": { "command": ["true"], "aFieldOfTomorrow": { "a": 1 } } })
}

#[test]
fn a_node_hears_of_its_tasks_as_they_were_told() {
    let (world, (_folder, store)) = (World::start(), sqlite());
    world.register(&[registration("a", 1, &json!({}))]);
    let manager = Running::start(&store, &world);
    let agent = Agent::new(manager.serving.address, "n1");
    refused(tell(&manager, "n1", &json!([])), 404);
    agent.beat(0);
    let (names, first) = agent.slots();
    assert_eq!(names, ["a"]);
    let before = agent.ask(0, 0).expect_status(200).json();
    assert_eq!(
        (before.get("tasks"), &before["taskServer"]),
        (None, &json!("http://tasks:1")),
        "none are known"
    );
    assert_eq!(told(&manager)["nodes"], json!([]));

    let tasks = json!([task("t1"), task("t2")]);
    let answer = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| agent.ask(first, 60_000));
        tell(&manager, "n1", &tasks).expect_status(200);
        waiting.join().unwrap().expect_status(200).json()
    });
    assert_eq!(answer["tasks"], tasks);
    let second = answer["revision"].as_u64().unwrap();
    assert!(second > first, "{answer}");
    let known = told(&manager);
    assert_eq!(known["nodes"], json!(["n1"]));
    assert!(known["epoch"].as_u64().unwrap() > 0, "{known}");

    // The same again is no news.
    tell(&manager, "n1", &tasks).expect_status(200);
    assert_eq!(agent.ask(second, 0).status, 204);
    // A confirmation of such a revision is one like any other.
    assert!(agent.beat(second)["leaseMs"].as_u64().unwrap() >= 3_000);
    tell(&manager, "n1", &json!([])).expect_status(200);
    assert_eq!(agent.ask(second, 0).expect_status(200).json()["tasks"], json!([]));
    for wrong in [json!({}), json!({ "tasks": 1 })] {
        let answer = manager.serving.http.send_json("PUT", "/api/mng/nodes/n1/tasks", &wrong);
        assert_eq!(answer.expect_status(400).json()["errors"][0]["field"], "tasks");
    }
    manager.stop();
}

#[test]
fn another_leader_leaves_tasks_out_until_it_is_told() {
    let (world, (_folder, store)) = (World::start(), sqlite());
    let manager = Running::start(&store, &world);
    let agent = Agent::new(manager.serving.address, "n1");
    agent.beat(0);
    agent.slots();
    tell(&manager, "n1", &json!([task("t1")])).expect_status(200);
    let epoch = told(&manager)["epoch"].as_u64().unwrap();
    manager.stop();

    let manager = Running::start(&store, &world);
    let agent = Agent::new(manager.serving.address, "n1");
    agent.beat(0);
    agent.slots();
    assert_eq!(agent.ask(0, 0).expect_status(200).json().get("tasks"), None);
    assert!(told(&manager)["epoch"].as_u64().unwrap() > epoch);
    manager.stop();
}

/// Its tasks may have been placed elsewhere by then.
#[test]
fn a_node_that_is_back_hears_of_no_task_until_it_is_told_anew() {
    let (world, (_folder, store)) = (World::start(), sqlite());
    let manager = Running::start(&store, &world);
    let agent = Agent::new(manager.serving.address, "n1");
    agent.beat(0);
    agent.slots();
    tell(&manager, "n1", &json!([task("t1")])).expect_status(200);
    assert_eq!(agent.ask(0, 0).expect_status(200).json()["tasks"][0]["id"], "t1");
    wait::until(PATIENCE, "the node to be lost", || (manager.node("n1")["state"] == "lost").then_some(()));
    assert_eq!(told(&manager)["nodes"], json!([]));
    refused(tell(&manager, "n1", &json!([task("t1")])), 409);

    agent.beat(0);
    assert_eq!(manager.node("n1")["state"], "ready");
    assert_eq!(agent.ask(0, 0).expect_status(200).json().get("tasks"), None);
    tell(&manager, "n1", &json!([task("t2")])).expect_status(200);
    assert_eq!(agent.ask(0, 0).expect_status(200).json()["tasks"][0]["id"], "t2");
    manager.stop();
}
