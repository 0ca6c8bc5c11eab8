//! The task service over real connections, on SQLite, beside an engine that does what a test has it do: a manager and agents over HTTP, or
//! one in memory.

#![allow(clippy::unwrap_used)]

/// Each function is two tests: one beside our agents, and one beside an engine in memory.
macro_rules! on_each_engine {
    ($($test:ident),* $(,)?) => {
        mod agents { $( #[test] fn $test() { crate::support::over(crate::support::Kind::Agents, super::$test); } )* }
        mod in_memory { $( #[test] fn $test() { crate::support::over(crate::support::Kind::InMemory, super::$test); } )* }
    };
}

mod arrays;
mod dependencies;
mod fake_engine;
mod feed;
mod followers;
mod images;
mod logs;
mod losses;
mod outages;
mod outputs;
mod progress;
mod promises;
mod stops;
mod support;
mod waits;

use estimand_testkit::wait;
use serde_json::{Value, json};
use support::{PATIENCE, Running, World, node, refused, simple, sqlite, texts, with};

on_each_engine!(
    a_task_goes_from_its_submission_to_its_end,
    a_submission_that_is_sent_twice_is_one_task,
    a_task_that_fits_nowhere_says_so_at_once,
    no_more_is_placed_than_there_is,
    a_task_can_be_cancelled_at_any_time,
    a_failure_is_tried_again_after_a_pause,
    tasks_are_listed_in_pages_by_what_they_are,
);

fn a_task_goes_from_its_submission_to_its_end() {
    let (world, (_folder, store)) = (World::start(&[node("n1", 4, &json!({}))]), sqlite());
    let running = Running::start(&store, &world);
    let document = json!({
        "command": "echo 'a b'", "environment": { "A": "1", "B": "hidden" }, "secrets": ["B"],
        "resources": { "cpu": 0.5, "memory": "64MiB" }, "timeout": "90s", "labels": { "study": "x" },
        "user": "somebody",
    });
    let answer = running.post("/api/tasks", &document).expect_status(201);
    let id = answer.json()["id"].as_str().unwrap().to_owned();
    assert_eq!(answer.header("location"), Some(format!("/api/tasks/{id}").as_str()));
    assert!(!answer.text().contains("hidden"), "{answer}");

    world.wait_told("n1", &[(&id, 1, false)]);
    let assigned = world.assignment("n1", &id);
    let work = json!({
        "command": ["echo", "a b"], "environment": { "A": "1", "B": "hidden" }, "secrets": ["B"],
        "timeoutMs": 90_000, "cpu": 500, "memory": 64 << 20,
    });
    assert_eq!((&assigned["leased"], &assigned["work"]), (&json!(true), &work));
    let placed = running.task(&id);
    assert_eq!((&placed["state"], &placed["node"]), (&json!("PLACED"), &json!("n1")));
    assert_eq!(placed["why"]["chosen"]["node"], "n1");
    assert_eq!(placed["document"]["environment"], json!({ "A": "1", "B": "" }));

    running.report(&id, 1, &json!("accepted"));
    assert_eq!(running.task(&id)["state"], "ACCEPTED");
    running.report(&id, 1, &json!("running"));
    running.writes(&id, 1, 0, &[("STDOUT", "a b")]);
    assert_eq!(running.task(&id)["state"], "RUNNING");
    assert_eq!(texts(&running.log(&id, "")), ["a b"]);
    assert_eq!(
        refused(running.serving.http.request("DELETE", &format!("/api/tasks/{id}"), &[], b""), 409),
        { format!("task `{id}` is RUNNING; only one that is over is deleted: cancel it first") }
    );
    running.ends(&id, 1, &json!({ "exit": 0 }));
    let over = running.wait_for(&id, "SUCCEEDED");
    assert_eq!(over["ending"], json!({ "exit": 0 }));
    let states: Vec<&Value> = over["transitions"].as_array().unwrap().iter().map(|to| &to["to"]).collect();
    assert_eq!(states, ["PLACED", "ACCEPTED", "RUNNING", "SUCCEEDED"]);
    assert_eq!(over["transitions"][1]["actor"], json!({ "agent": "n1" }));
    world.wait_told("n1", &[]);
    assert_eq!(running.figure("estimand_tasks_ended_total{ending=\"success\"}"), Some(1.0));

    running.serving.http.request("DELETE", &format!("/api/tasks/{id}"), &[], b"").expect_status(204);
    refused(running.get(&format!("/api/tasks/{id}")), 404);
    refused(running.get(&format!("/api/tasks/{id}/logs")), 404);
    running.stop();
}

fn a_submission_that_is_sent_twice_is_one_task() {
    let (world, (_folder, store)) = (World::start(&[]), sqlite());
    let running = Running::start(&store, &world);
    let submit = |document: &Value, key: &str| {
        let body = document.to_string();
        let headers = [("Idempotency-Key", key), ("Content-Type", "application/json")];
        running.serving.http.request("POST", "/api/tasks", &headers, body.as_bytes())
    };
    let first = submit(&simple(), "a").expect_status(201).json();
    assert_eq!(submit(&simple(), "a").expect_status(200).json()["id"], first["id"]);
    assert!(refused(submit(&with(&json!({ "user": "u" })), "a"), 409).contains("another document"));
    assert_ne!(submit(&simple(), "b").expect_status(201).json()["id"], first["id"]);
    refused(submit(&simple(), ""), 400);

    running.submit(&with(&json!({ "id": "named" })));
    assert!(refused(running.post("/api/tasks", &with(&json!({ "id": "named" }))), 409).contains("`named`"));
    let wrong = running.post("/api/tasks", &json!({ "comand": "x", "priority": "high" })).expect_status(400);
    let fields: Vec<Value> =
        wrong.json()["errors"].as_array().unwrap().iter().map(|error| error["field"].clone()).collect();
    assert!(["comand", "priority", "command"].iter().all(|field| fields.contains(&json!(field))), "{wrong}");
    running.stop();
}

fn a_task_that_fits_nowhere_says_so_at_once() {
    let (world, (_folder, store)) = (World::start(&[node("n1", 4, &json!({ "gpu": "1" }))]), sqlite());
    let running = Running::start(&store, &world);
    wait::until(PATIENCE, "the node to be known", || {
        (running.get("/api/capacity").status == 200).then_some(())
    });
    let asks = with(&json!({ "resources": { "gpu": 2 } }));
    let answer = running.post("/api/tasks", &asks).expect_status(201);
    let why = "needs gpu:2; the most any node has is 1";
    assert!(answer.header("estimand-hint").unwrap().contains(why), "{answer}");
    let task = answer.json();
    assert!(task["waits"].as_str().unwrap().contains(why), "{task}");
    let elsewhere = running.submit(&with(&json!({ "nodes": "zone=a" })));
    assert!(running.task(&elsewhere)["waits"].as_str().unwrap().contains("zone=a"));
    // A node that has it comes.
    world.set_nodes(&[
        node("n1", 4, &json!({ "gpu": "1" })),
        node("n2", 4, &json!({ "gpu": "2", "zone": "a" })),
    ]);
    running.wait_for(task["id"].as_str().unwrap(), "PLACED");
    assert_eq!(running.wait_for(&elsewhere, "PLACED")["node"], "n2");
    running.stop();
}

fn no_more_is_placed_than_there_is() {
    let (world, (_folder, store)) = (World::start(&[node("n1", 2, &json!({}))]), sqlite());
    let running = Running::start(&store, &world);
    let asks = with(&json!({ "resources": { "cpu": 1 } }));
    let ids: Vec<String> = (0..5).map(|_| running.submit(&asks)).collect();
    running.wait_for(&ids[1], "PLACED");
    running.wait_for(&ids[0], "PLACED");
    let capacity = running.get("/api/capacity").expect_status(200).json();
    assert_eq!((&capacity[0]["standing"], &capacity[0]["capacity"]["cpu"]), (&json!("up"), &json!(2000)));
    wait::until(PATIENCE, "the ledger to have them", || {
        (running.get("/api/capacity").json()[0]["free"]["cpu"] == 0).then_some(())
    });
    assert!(running.task(&ids[2])["waits"].as_str().unwrap().contains("no node has room now"));
    running.ends(&ids[0], 1, &json!({ "exit": 1 }));
    assert_eq!(running.wait_for(&ids[0], "FAILED")["ending"], json!({ "exit": 1 }));
    running.wait_for(&ids[2], "PLACED");
    let queued = running.get("/api/tasks?state=queued").expect_status(200).json();
    let queued: Vec<&Value> = queued["tasks"].as_array().unwrap().iter().map(|task| &task["id"]).collect();
    assert_eq!(queued, [&ids[4], &ids[3]], "the newest first");
    running.stop();
}

fn a_task_can_be_cancelled_at_any_time() {
    let (world, (_folder, store)) = (World::start(&[node("n1", 1, &json!({}))]), sqlite());
    let running = Running::start(&store, &world);
    let asks = with(&json!({ "resources": { "cpu": 1 } }));
    let (first, second) = (running.submit(&asks), running.submit(&asks));
    world.wait_told("n1", &[(&first, 1, false)]);
    assert_eq!(running.cancel(&second)["state"], "CANCELLED");
    running.report(&first, 1, &json!("running"));
    assert_eq!(running.cancel(&first)["state"], "STOPPING");
    assert_eq!(running.cancel(&first)["state"], "STOPPING");
    world.wait_told("n1", &[(&first, 1, true)]);
    running.ends(&first, 1, &json!({ "signal": 15 }));
    assert_eq!(running.task(&first)["state"], "CANCELLED");
    world.wait_told("n1", &[]);
    assert_eq!(running.cancel(&first)["state"], "CANCELLED", "nothing more happens to it");
    running.stop();
}

fn a_failure_is_tried_again_after_a_pause() {
    let (world, (_folder, store)) = (World::start(&[node("n1", 1, &json!({}))]), sqlite());
    let running = Running::start(&store, &world);
    let id = running.submit(&with(&json!({ "retries": { "count": 1, "backOff": "50ms" } })));
    running.wait_for(&id, "PLACED");
    running.writes(&id, 1, 0, &[("STDOUT", "first")]);
    running.ends(&id, 1, &json!({ "exit": 7 }));
    world.wait_told("n1", &[(&id, 2, false)]);
    // The report of the first attempt comes again.
    running.ends(&id, 1, &json!({ "exit": 7 }));
    running.writes(&id, 2, 0, &[("STDOUT", "second")]);
    running.ends(&id, 2, &json!("outOfMemory"));
    let task = running.wait_for(&id, "FAILED");
    assert_eq!(
        (&task["attempt"], &task["failures"], &task["ending"]),
        (&json!(2), &json!(1), &json!("outOfMemory"))
    );
    let page = running.log(&id, "");
    assert_eq!(texts(&page), ["first", "second"]);
    assert_eq!((&page["lines"][1]["line"], &page["lines"][1]["attempt"]), (&json!(1), &json!(2)));
    // An id that is given again goes on counting attempts: an agent may still have those of before.
    let named = with(&json!({ "id": id }));
    running.serving.http.request("DELETE", &format!("/api/tasks/{id}"), &[], b"").expect_status(204);
    assert_eq!(running.submit(&named), id);
    world.wait_told("n1", &[(&id, 3, false)]);
    running.stop();
}

fn tasks_are_listed_in_pages_by_what_they_are() {
    let (world, (_folder, store)) = (World::start(&[]), sqlite());
    let running = Running::start(&store, &world);
    let ids: Vec<String> = (0..7)
        .map(|at| running.submit(&with(&json!({ "labels": { "odd": (at % 2).to_string() }, "user": "u" }))))
        .collect();
    running.submit(&simple());
    let page = |query: &str| {
        let page = running.get(&format!("/api/tasks?{query}")).expect_status(200).json();
        let tasks: Vec<String> = page["tasks"]
            .as_array()
            .unwrap()
            .iter()
            .map(|task| task["id"].as_str().unwrap().to_owned())
            .collect();
        (tasks, page["next"].as_str().map(str::to_owned))
    };
    let (first, next) = page("user=u&limit=4");
    assert_eq!(first, [&ids[6], &ids[5], &ids[4], &ids[3]].map(Clone::clone));
    let (second, next) = page(&format!("user=u&limit=4&before={}", next.unwrap()));
    assert_eq!((second, next), (vec![ids[2].clone(), ids[1].clone(), ids[0].clone()], None));
    assert_eq!(page("labels=odd%3D1").0, [&ids[5], &ids[3], &ids[1]].map(Clone::clone));
    for wrong in ["state=happy", "labels=%3D", "limit=x", "what=1"] {
        refused(running.get(&format!("/api/tasks?{wrong}")), 400);
    }
    refused(running.get("/api/tasks?before=nobody"), 404);
    running.stop();
}
