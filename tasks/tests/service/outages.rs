//! The service, its manager and its database go away and come back: nothing is lost, and nothing is placed twice.

use estimand_runtime::{Clock as _, SystemClock};
use estimand_store::{Connection, GoneTaskRow, TaskGroup};
use estimand_testkit::wait;
use serde_json::json;

use crate::support::{PATIENCE, Running, World, node, simple, sqlite, texts, with};

on_each_engine!(
    everything_is_there_after_a_crash,
    every_leader_is_told_everything,
    a_second_service_ends_the_first,
    attempts_of_long_ago_are_forgotten,
);

fn everything_is_there_after_a_crash() {
    let (world, (_folder, store)) = (World::start(&[node("n1", 2, &json!({}))]), sqlite());
    let running = Running::start(&store, &world);
    let asks = with(&json!({ "resources": { "cpu": 1 } }));
    let ids: Vec<String> = (0..3).map(|_| running.submit(&asks)).collect();
    for id in &ids[..2] {
        running.wait_for(id, "PLACED");
        running.report(id, 1, &json!("running"));
        running.writes(id, 1, 0, &[("STDOUT", "one")]);
    }
    running.crash();

    world.elect();
    let running = Running::start(&store, &world);
    // Everything placed counts: there is no room for the third one.
    world.wait_told("n1", &[(&ids[0], 1, false), (&ids[1], 1, false)]);
    wait::until(PATIENCE, "the ledger to have them", || {
        let capacity = running.get("/api/capacity");
        (capacity.status == 200 && capacity.json()[0]["free"]["cpu"] == 0).then_some(())
    });
    assert_eq!(running.task(&ids[2])["state"], "QUEUED");
    assert_eq!(running.task(&ids[0])["state"], "RUNNING");
    assert_eq!(running.task(&ids[0])["transitions"].as_array().unwrap().len(), 2);
    // The agent sends again what was not answered.
    running.writes(&ids[0], 1, 0, &[("STDOUT", "one"), ("STDOUT", "two")]);
    assert_eq!(texts(&running.log(&ids[0], "")), ["one", "two"]);
    running.ends(&ids[0], 1, &json!({ "exit": 0 }));
    running.wait_for(&ids[2], "PLACED");
    assert_ne!(running.submit(&simple()), ids[2], "no id is made twice");
    running.stop();
}

fn every_leader_is_told_everything() {
    let nodes = [node("n1", 2, &json!({})), node("n2", 2, &json!({}))];
    let (world, (_folder, store)) = (World::start(&nodes), sqlite());
    let running = Running::start(&store, &world);
    let id = running.submit(&with(&json!({ "policy": "queue" })));
    let placed = running.wait_for(&id, "PLACED")["node"].as_str().unwrap().to_owned();
    let other = if placed == "n1" { "n2" } else { "n1" };
    world.wait_told(&placed, &[(&id, 1, false)]);
    world.wait_told(other, &[]);
    let tellings = world.tellings();
    world.elect();
    world.wait_told(&placed, &[(&id, 1, false)]);
    world.wait_told(other, &[]);
    assert_eq!(world.tellings(), tellings + 2, "each node once");

    // Away for a while, it hears of what changed meanwhile.
    world.take_away(true);
    running.cancel(&id);
    world.take_away(false);
    world.wait_told(&placed, &[(&id, 1, true)]);
    running.stop();
}

fn a_second_service_ends_the_first() {
    let (world, (_folder, store)) = (World::start(&[]), sqlite());
    let first = Running::start(&store, &world);
    let id = first.submit(&simple());
    let second = Running::start(&store, &world);
    assert_eq!(second.task(&id)["state"], "QUEUED");
    first.post("/api/tasks", &simple()).expect_status(503);
    assert_eq!(*first.fatal.lock().unwrap(), ["another task service has taken over this store"]);
    second.submit(&simple());
    first.stop();
    second.stop();
}

fn attempts_of_long_ago_are_forgotten() {
    let (world, (_folder, store)) = (World::start(&[node("n1", 2, &json!({}))]), sqlite());
    let connect = || Connection::open(&store.parse().unwrap()).unwrap();
    let now = SystemClock.now_micros();
    let day = 24 * 60 * 60 * 1_000_000;
    let row = |id: String, days: i64| GoneTaskRow { id, attempt: 7, at: now - days * day };
    // More than are forgotten at once.
    let mut gone: Vec<GoneTaskRow> = (0..2_500).map(|number| row(format!("old{number}"), 31)).collect();
    gone.push(row("young".to_owned(), 29));
    let mut connection = connect();
    connection.migrate().unwrap();
    let claim = connection.claim("tasks", 0).unwrap();
    connection.commit_tasks(&claim, &TaskGroup { gone, ..TaskGroup::default() }).unwrap();

    let running = Running::start(&store, &world);
    wait::until_ok(PATIENCE, "the old ones to be forgotten", || {
        let left = connect().load_tasks().unwrap().gone;
        if left.len() == 1 { Ok(()) } else { Err(left.len()) }
    });
    for (id, attempt) in [("young", 8), ("old1", 1)] {
        running.submit(&with(&json!({ "id": id })));
        assert_eq!(running.wait_for(id, "PLACED")["attempt"], attempt, "{id}");
    }
    running.stop();
}
