//! Promises: given once whoever asks, kept through crashes, broken the least value first; and the tasks on them.

use std::time::{Duration, SystemTime};

use estimand_testkit::wait;
use serde_json::{Value, json};

use crate::support::*;

on_each_engine!(
    what_64_ask_for_at_once_is_promised_once,
    a_quote_and_its_promise_are_one_step,
    a_request_that_is_sent_again_promises_nothing_twice,
    the_least_value_breaks_first_and_is_told_at_once,
    a_task_starts_on_its_promise_although_the_service_was_killed,
    what_runs_without_a_promise_makes_room_and_runs_again,
    a_promise_ends_its_tasks_inside_its_window,
    a_unit_of_a_silent_node_stays_as_long_as_its_task_may_run_there,
);

fn now() -> u64 {
    SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs()
}

fn cpu(processors: u64, from: u64, until: u64) -> Value {
    json!({ "resources": { "cpu": processors * 1000 }, "from": from, "until": until })
}

fn named(id: &str, asked: &Value) -> Value {
    let mut asked = asked.clone();
    asked["id"] = json!(id);
    asked
}

fn batch(asked: &[Value]) -> Value {
    json!({ "allOrNone": asked })
}

/// Waits until the nodes are known, and returns the revision of the ledger.
fn known(running: &Running) -> u64 {
    wait::until(PATIENCE, "the nodes to be known", || {
        let timeline = running.get("/api/capacity/timeline?step=3600");
        (timeline.status == 200).then(|| timeline.json()["revision"].as_u64().unwrap())
    })
}

#[track_caller]
fn promise(running: &Running, asked: &[Value]) -> Value {
    running.post("/api/capacity/promises", &batch(asked)).expect_status(201).json()
}

#[track_caller]
fn of(running: &Running, id: &str) -> Value {
    running.get(&format!("/api/capacity/promises/{id}")).expect_status(200).json()
}

#[track_caller]
fn wait_promise(running: &Running, id: &str, state: &str) -> Value {
    wait::until_ok(PATIENCE, &format!("promise {id} to be {state}"), || {
        let promise = of(running, id);
        if promise["state"] == state { Ok(promise) } else { Err(promise) }
    })
}

fn what_64_ask_for_at_once_is_promised_once() {
    let (_folder, store) = sqlite();
    let world = World::start(&[node("n1", 4, &json!({})), node("n2", 4, &json!({}))]);
    let running = Running::start(&store, &world);
    known(&running);
    let from = now() + 1000;
    let answers: Vec<(u16, Value)> = std::thread::scope(|scope| {
        let ask = |_| {
            scope.spawn(|| {
                let answer = running.post("/api/capacity/promises", &batch(&[cpu(1, from, from + 10)]));
                (answer.status, answer.json())
            })
        };
        let asking: Vec<_> = (0..64).map(ask).collect();
        asking.into_iter().map(|one| one.join().unwrap()).collect()
    });
    let given = answers.iter().filter(|(status, _)| *status == 201).count();
    assert_eq!(given, 8, "{answers:?}");
    for (status, answer) in answers.iter().filter(|(status, _)| *status != 201) {
        assert_eq!((*status, &answer["room"]["firstFit"]), (409, &json!(from + 10)), "{answer}");
        assert_eq!((&answer["room"]["units"], &answer["room"]["mostUnits"]), (&json!(0), &json!(8)));
    }
    let query = format!("/api/capacity/timeline?from={}&until={}&step=5", from - 5, from + 15);
    let class = running.get(&query).expect_status(200).json()["classes"][0].clone();
    assert_eq!((&class["class"], &class["nodes"]), (&json!("default"), &json!(2)));
    assert_eq!(class["promised"]["cpu"], json!([0, 8000, 8000, 0]));
    assert_eq!(class["free"]["cpu"], json!([8000, 0, 0, 8000]));
    running.stop();
}

fn a_quote_and_its_promise_are_one_step() {
    let (_folder, store) = sqlite();
    let world = World::start(&[node("n1", 4, &json!({})), node("n2", 8, &json!({ "class": "big" }))]);
    let running = Running::start(&store, &world);
    let (revision, from) = (known(&running), now() + 1000);
    let asked = |revision: u64| json!({ "ifRevision": revision, "allOrNone": [cpu(2, from, from + 10)] });
    let made = running.post("/api/capacity/promises", &asked(revision)).expect_status(201).json();
    let moved = running.post("/api/capacity/promises", &asked(revision)).expect_problem(409);
    assert_eq!(moved["room"]["revision"], made["revision"], "{moved}");
    // All or none: the second has no room beside the first.
    let big = |cpu: u64, width: u64| json!({ "resources": { "cpu": cpu * 1000 }, "class": "big", "width": width, "from": from, "until": from + 9 });
    let full = running.post("/api/capacity/promises", &batch(&[big(3, 2), big(3, 1)])).expect_problem(409);
    assert_eq!((&full["room"]["promise"], &full["room"]["units"]), (&json!(1), &json!(0)), "{full}");
    let both = promise(&running, &[big(3, 2), big(2, 1)]);
    assert_eq!(both["promises"][0]["units"], json!(["n2", "n2"]));
    let late = running.post("/api/capacity/promises", &batch(&[cpu(1, 5, 6)])).expect_problem(400);
    assert!(late["detail"].as_str().unwrap().contains("it is"), "{late}");
    let never = running.post("/api/capacity/promises", &batch(&[cpu(5, from, from + 9)])).expect_problem(409);
    assert!(never["detail"].as_str().unwrap().contains("it would never fit"), "{never}");
    // Longer while there is room, shorter always; given back it is free.
    let id = made["promises"][0]["id"].as_str().unwrap().to_owned();
    promise(&running, &[cpu(3, from + 20, from + 30)]);
    let resize =
        |until: u64| running.post(&format!("/api/capacity/promises/{id}/resize"), &json!({ "until": until }));
    assert_eq!(resize(from + 20).expect_status(200).json()["until"], json!(from + 20));
    assert!(refused_text(&resize(from + 21).expect_problem(409)).contains("cannot last so long"));
    let gone = running.serving.http.request("DELETE", &format!("/api/capacity/promises/{id}"), &[], b"");
    assert_eq!(gone.expect_status(200).json()["state"], "RELEASED");
    refused(resize(from + 5), 409);
    promise(&running, &[cpu(4, from, from + 20)]);
    refused(running.get("/api/capacity/promises/nothing"), 404);
    running.stop();
}

fn refused_text(problem: &Value) -> String {
    problem["detail"].as_str().unwrap().to_owned()
}

fn a_request_that_is_sent_again_promises_nothing_twice() {
    let (_folder, store) = sqlite();
    let world = World::start(&[node("n1", 4, &json!({}))]);
    let running = Running::start(&store, &world);
    known(&running);
    let from = now() + 1000;
    let send = |running: &Running, asked: &[Value]| {
        let headers = [("Idempotency-Key", "k"), ("Content-Type", "application/json")];
        let body = batch(asked).to_string();
        running.serving.http.request("POST", "/api/capacity/promises", &headers, body.as_bytes())
    };
    let two = [cpu(1, from, from + 10), cpu(2, from, from + 10)];
    let first = send(&running, &two).expect_status(201).json();
    assert_eq!(send(&running, &two).expect_status(200).json()["promises"], first["promises"]);
    running.crash();
    let running = Running::start(&store, &world);
    let again = send(&running, &two).expect_status(200).json();
    assert_eq!(again["promises"], first["promises"]);
    assert!(refused(send(&running, &two[..1]), 409).contains("Idempotency-Key"));
    running.stop();
}

fn the_least_value_breaks_first_and_is_told_at_once() {
    let (_folder, store) = sqlite();
    let world = World::start(&[node("n1", 4, &json!({})), node("n2", 4, &json!({}))]);
    let running = Running::start(&store, &world);
    known(&running);
    let (from, until) = (now() + 1000, now() + 2000);
    let worth = |id: &str, processors: u64, value: u64| {
        let mut asked = named(id, &cpu(processors, from, until));
        asked["value"] = json!(value);
        asked
    };
    promise(&running, &[worth("dear", 4, 9)]);
    promise(&running, &[worth("cheap", 3, 1), worth("small", 1, 5)]);
    let (lost, other) = match of(&running, "dear")["units"][0] == "n1" {
        true => ("n1", "n2"),
        false => ("n2", "n1"),
    };
    let revision = running.get("/api/capacity/promises").json()["revision"].as_u64().unwrap();
    let mut gone = node(lost, 4, &json!({}));
    gone["state"] = json!("lost");
    world.set_nodes(&[gone, node(other, 4, &json!({}))]);
    let query = format!("/api/capacity/promises?after={revision}&waitMs=30000");
    let page = running.get(&query).expect_status(200).json();
    let changed: Vec<(&str, &str, &str)> = page["promises"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (text(&one["id"]), text(&one["state"]), text(&one["units"][0])))
        .collect();
    assert_eq!(changed.len(), 3, "{page}");
    assert!(changed.contains(&("dear", "PROMISED", other)), "{page}");
    assert!(changed.contains(&("cheap", "BROKEN", other)) && changed.contains(&("small", "BROKEN", other)));
    assert!(
        text(&page["promises"][0]["cause"]).contains("lost")
            || text(&page["promises"][1]["cause"]).contains("less")
    );
    assert_eq!(page["next"], page["revision"]);
    refused(running.get("/api/capacity/promises?after=999999"), 410);
    running.stop();
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

fn a_task_starts_on_its_promise_although_the_service_was_killed() {
    let (_folder, store) = sqlite();
    let world = World::start(&[node("n1", 4, &json!({}))]);
    let running = Running::start(&store, &world);
    known(&running);
    let from = now() + 3;
    promise(&running, &[named("p", &cpu(3, from, from + 1000))]);
    let wrong = with(&json!({ "promise": "p", "resources": { "cpu": 4 } }));
    assert!(refused(running.post("/api/tasks", &wrong), 409).contains("a unit of promise `p` has"));
    refused(running.post("/api/tasks", &with(&json!({ "promise": "nothing" }))), 404);
    refused(running.post("/api/tasks", &with(&json!({ "promise": "p", "nodes": "zone=a" }))), 400);
    let id = running.submit(&with(&json!({ "promise": "p" })));
    let task = running.task(&id);
    assert!(text(&task["waits"]).contains("its promise `p` begins at"), "{task}");
    assert_eq!(task["document"]["resources"]["cpu"], 3);
    running.crash();
    let running = Running::start(&store, &world);
    let placed = running.wait_for(&id, "PLACED");
    assert!(now() >= from, "not before its time");
    assert_eq!((&placed["node"], &placed["why"]["promise"]), (&json!("n1"), &json!("p")));
    assert_eq!(of(&running, "p")["state"], "ACTIVE");
    // One task at a time has a unit.
    let second = running.submit(&with(&json!({ "promise": "p" })));
    running.report(&id, 1, &json!("running"));
    assert!(text(&running.task(&second)["waits"]).contains("is in use"));
    running.ends(&id, 1, &json!({ "exit": 0 }));
    running.wait_for(&second, "PLACED");
    // Given back, its tasks end.
    running.report(&second, 1, &json!("running"));
    running.serving.http.request("DELETE", "/api/capacity/promises/p", &[], b"").expect_status(200);
    world.wait_told("n1", &[(&second, 1, true)]);
    running.ends(&second, 1, &json!("cancelled"));
    let over = running.wait_for(&second, "FAILED");
    assert!(text(&over["ending"]["promise"]).contains("was released"), "{over}");
    refused(running.post("/api/tasks", &with(&json!({ "promise": "p" }))), 409);
    running.stop();
}

fn what_runs_without_a_promise_makes_room_and_runs_again() {
    let (_folder, store) = sqlite();
    let world = World::start(&[node("n1", 4, &json!({}))]);
    let running = Running::start(&store, &world);
    known(&running);
    let needs = |cpu: u64, priority: u64| {
        running.submit(&with(&json!({ "resources": { "cpu": cpu }, "priority": priority })))
    };
    let (cheap, dear) = (needs(2, 0), needs(2, 5));
    for id in [&cheap, &dear] {
        running.wait_for(id, "PLACED");
        running.report(id, 1, &json!("running"));
    }
    let from = now() + 2;
    promise(&running, &[named("p", &cpu(2, from, from + 1000))]);
    let reserved = running.submit(&with(&json!({ "promise": "p" })));
    let stopping = running.wait_for(&cheap, "STOPPING");
    let last = stopping["transitions"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(last["cause"], json!({ "event": "makeRoom", "attempt": 1, "promise": "p" }));
    wait::until(PATIENCE, "the agent to be told", || {
        let told = world.assignment("n1", &cheap);
        (told["stop"] == true && told["checkpoint"] == true).then_some(())
    });
    wait_promise(&running, "p", "ACTIVE");
    assert_eq!(running.task(&reserved)["state"], "QUEUED", "there is no room before it has left");
    assert_eq!(running.task(&dear)["state"], "RUNNING", "the least value makes room");
    running.ends(&cheap, 1, &json!("cancelled"));
    running.wait_for(&reserved, "PLACED");
    let waiting = running.task(&cheap);
    assert_eq!((&waiting["state"], &waiting["failures"]), (&json!("QUEUED"), &json!(0)));
    running.report(&reserved, 1, &json!("running"));
    running.ends(&reserved, 1, &json!({ "exit": 0 }));
    wait::pass(Duration::from_millis(300));
    assert_eq!(running.task(&cheap)["state"], "QUEUED", "what is promised is kept for it");
    running.serving.http.request("DELETE", "/api/capacity/promises/p", &[], b"").expect_status(200);
    let again = running.wait_for(&cheap, "PLACED");
    assert_eq!(again["attempt"], 2);
    running.ends(&cheap, 2, &json!({ "exit": 0 }));
    running.wait_for(&cheap, "SUCCEEDED");
    running.stop();
}

fn a_promise_ends_its_tasks_inside_its_window() {
    let (_folder, store) = sqlite();
    let world = World::start(&[node("n1", 4, &json!({}))]);
    let running = Running::start(&store, &world);
    known(&running);
    let from = now() + 1;
    promise(&running, &[named("p", &cpu(4, from, from + 1_000))]);
    let (runs, waits) = (
        running.submit(&with(&json!({ "promise": "p" }))),
        running.submit(&with(&json!({ "promise": "p" }))),
    );
    running.wait_for(&runs, "PLACED");
    running.report(&runs, 1, &json!("running"));
    let told_until = |until: u64, grace_ms: u64| {
        wait::until_ok(PATIENCE, "its node to be told the end of its promise", || {
            let end = world.assignment("n1", &runs)["end"].clone();
            if end["until"] == until { Ok(end) } else { Err(end) }
        });
        let end = world.assignment("n1", &runs)["end"].clone();
        assert_eq!((&end["promise"], &end["graceMs"]), (&json!("p"), &json!(grace_ms)), "{end}");
        end["leftMs"].as_u64().unwrap()
    };
    assert!(told_until(from + 1_000, 10_000) <= 1_001_000);
    // The end moves, both ways.
    let resize = |until: u64| {
        running.post("/api/capacity/promises/p/resize", &json!({ "until": until })).expect_status(200);
    };
    resize(from + 2_000);
    assert!(told_until(from + 2_000, 10_000) > 1_001_000);
    let soon = now() + 8;
    resize(soon);
    told_until(soon, (soon - from) * 100);
    world.wait_told("n1", &[(&runs, 1, true)]);
    assert_eq!(world.assignment("n1", &runs)["checkpoint"], Value::Null, "it is not run again");
    let cancelled = running.wait_for(&waits, "CANCELLED");
    assert!(text(&cancelled["ending"]["promise"]).contains("is over"), "{cancelled}");
    // A task that has not left yet is counted.
    let next = running.submit(&with(&json!({ "resources": { "cpu": 4 } })));
    wait::pass(Duration::from_millis(300));
    assert_eq!(running.task(&next)["state"], "QUEUED");
    running.ends(&runs, 1, &json!("cancelled"));
    running.wait_for(&runs, "FAILED");
    running.wait_for(&next, "PLACED");
    running.stop();
}

/// A unit with a task goes where that goes: not before the lease of the task is over.
fn a_unit_of_a_silent_node_stays_as_long_as_its_task_may_run_there() {
    let (_folder, store) = sqlite();
    let first = node("n1", 4, &json!({}));
    let world = World::start(std::slice::from_ref(&first));
    let running = Running::start(&store, &world);
    known(&running);
    let until = now() + 1000;
    let of_now = |id: &str| json!({ "id": id, "resources": { "cpu": 1000 }, "until": until });
    promise(&running, &[of_now("stays"), of_now("moves"), of_now("free")]);
    let submit =
        |promise: &str, lease: &str| running.submit(&with(&json!({ "promise": promise, "lease": lease })));
    let stays = submit("stays", "1h");
    let moves = submit("moves", "1s");
    for id in [&stays, &moves] {
        running.wait_for(id, "PLACED");
        running.report(id, 1, &json!("running"));
    }
    let mut lost = first;
    lost["state"] = json!("lost");
    world.set_nodes(&[lost, node("n2", 4, &json!({}))]);
    world.wait_told("n2", &[(&moves, 2, false)]);
    for (promise, node) in [("stays", "n1"), ("moves", "n2"), ("free", "n2")] {
        let one = of(&running, promise);
        assert_eq!((&one["units"], &one["state"]), (&json!([node]), &json!("ACTIVE")), "{one}");
    }
    assert_eq!(running.task(&stays)["state"], "LOST");
    running.stop();
}
