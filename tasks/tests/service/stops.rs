//! Ways to end a task before its end: how long it has, whether it saves its work first, and what becomes of it then.

use std::time::SystemTime;

use estimand_testkit::wait;
use serde_json::{Value, json};

use crate::support::*;

on_each_engine!(
    a_node_is_told_how_a_task_ends_and_tells_how_its_program_did,
    an_order_outlives_the_service,
    what_is_sent_back_to_the_queue_runs_again,
    what_cannot_go_back_to_the_queue_is_refused,
    a_grace_is_cut_where_a_promise_needs_the_room,
    a_task_on_a_promise_saves_its_work_when_that_ends,
);

const HOUR_MS: u64 = 3_600_000;

fn now() -> u64 {
    SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs()
}

fn stop(running: &Running, id: &str, how: &str, body: &Value) -> Value {
    running.post(&format!("/api/tasks/{id}/{how}"), body).expect_status(200).json()
}

/// Waits until the node is told to end a task in this way.
#[track_caller]
fn told(world: &World, id: &str, grace_ms: &Value, checkpoint: bool) {
    wait::until_ok(PATIENCE, "the node to be told how it ends", || {
        if !world.told("n1").is_some_and(|told| told.iter().any(|(known, ..)| known == id)) {
            return Err(Value::Null);
        }
        let told = world.assignment("n1", id);
        let checkpoint = if checkpoint { json!(true) } else { Value::Null };
        let is_it = told["stop"] == true && told["graceMs"] == *grace_ms && told["checkpoint"] == checkpoint;
        if is_it { Ok(()) } else { Err(told) }
    });
}

/// A task that runs.
fn runs(running: &Running, document: &Value) -> String {
    let id = running.submit(&with(document));
    running.wait_for(&id, "PLACED");
    running.report(&id, 1, &json!("running"));
    id
}

fn ends_so(running: &Running, id: &str, program: &Value) {
    running.report(id, 1, &json!({ "ended": { "ending": "cancelled", "program": program } }));
}

/// The cause of the last step of a task.
fn cause(task: &Value) -> Value {
    task["transitions"].as_array().unwrap().last().unwrap()["cause"].clone()
}

fn a_node_is_told_how_a_task_ends_and_tells_how_its_program_did() {
    let (world, (_folder, store)) = (World::start(&[node("n1", 4, &json!({}))]), sqlite());
    let running = Running::start(&store, &world);
    let own = json!({ "checkpointGrace": "90s" });
    let id = runs(&running, &own);
    stop(&running, &id, "cancel", &json!({ "checkpoint": true }));
    told(&world, &id, &json!(90_000), true);
    assert_eq!(
        cause(&running.task(&id)),
        json!({ "event": "cancel", "graceMs": 90_000, "checkpoint": true })
    );
    // A longer one changes nothing, a shorter one counts.
    stop(&running, &id, "cancel", &json!({ "grace": "1h", "checkpoint": true }));
    stop(&running, &id, "cancel", &json!({ "grace": 5, "checkpoint": true }));
    told(&world, &id, &json!(5_000), true);
    stop(&running, &id, "cancel", &json!({ "grace": 0 }));
    told(&world, &id, &json!(0), false);
    ends_so(&running, &id, &json!({ "exit": 0 }));
    let over = running.wait_for(&id, "CANCELLED");
    assert_eq!((&over["ending"], &over["program"]), (&json!("cancelled"), &json!({ "exit": 0 })));
    let end = json!({ "event": "end", "attempt": 1, "ending": "cancelled", "program": { "exit": 0 } });
    assert_eq!(cause(&over), end);
    let listed = running.get("/api/tasks").expect_status(200).json()["tasks"][0].clone();
    assert_eq!(listed["program"], json!({ "exit": 0 }));

    // Without a body it is as it was.
    let plain = runs(&running, &own);
    running.cancel(&plain);
    told(&world, &plain, &Value::Null, false);
    assert_eq!(cause(&running.task(&plain)), json!({ "event": "cancel" }));
    // An agent of the version before says nothing of the program.
    running.ends(&plain, 1, &json!("cancelled"));
    assert_eq!(running.wait_for(&plain, "CANCELLED")["program"], Value::Null);

    let said = running.post(&format!("/api/tasks/{plain}/cancel"), &json!({ "grace": "3 fortnights" }));
    assert_eq!(said.expect_problem(400)["errors"][0]["field"], "grace");
    running.stop();
}

fn an_order_outlives_the_service() {
    let (world, (_folder, store)) = (World::start(&[node("n1", 4, &json!({}))]), sqlite());
    let running = Running::start(&store, &world);
    let id = runs(&running, &json!({}));
    stop(&running, &id, "yield", &json!({ "grace": "1h" }));
    running.crash();
    let world = World::start(&[node("n1", 4, &json!({}))]);
    let running = Running::start(&store, &world);
    world.wait_told("n1", &[(&id, 1, true)]);
    told(&world, &id, &json!(HOUR_MS), true);
    ends_so(&running, &id, &json!({ "exit": 0 }));
    world.wait_told("n1", &[(&id, 2, false)]);
    running.stop();
}

fn what_is_sent_back_to_the_queue_runs_again() {
    let (world, (_folder, store)) = (World::start(&[node("n1", 4, &json!({}))]), sqlite());
    let running = Running::start(&store, &world);
    let id = runs(&running, &json!({}));
    let answer = running.serving.http.request("POST", &format!("/api/tasks/{id}/yield"), &[], b"");
    let answer = answer.expect_status(200);
    assert_eq!((&answer.json()["state"], answer.header("estimand-hint")), (&json!("STOPPING"), None));
    told(&world, &id, &Value::Null, true);
    ends_so(&running, &id, &json!({ "exit": 0 }));
    world.wait_told("n1", &[(&id, 2, false)]);
    let again = running.task(&id);
    assert_eq!((&again["state"], &again["attempt"]), (&json!("PLACED"), &json!(2)));
    assert_eq!((&again["failures"], &again["program"]), (&json!(0), &json!({ "exit": 0 })));

    // The task was done before it was told.
    running.report(&id, 2, &json!("running"));
    stop(&running, &id, "yield", &json!({ "grace": 0 }));
    told(&world, &id, &json!(0), false);
    running.ends(&id, 2, &json!({ "exit": 0 }));
    running.wait_for(&id, "SUCCEEDED");

    // Of an array those that run are sent back.
    let sweep = running.submit(&with(&json!({ "id": "sweep", "count": 2, "resources": { "cpu": 4 } })));
    running.wait_for("sweep.0", "PLACED");
    running.report("sweep.0", 1, &json!("running"));
    stop(&running, &sweep, "yield", &json!({}));
    assert_eq!(running.task("sweep.0")["state"], "STOPPING");
    assert_eq!(running.task("sweep.1")["state"], "QUEUED");
    running.stop();
}

fn what_cannot_go_back_to_the_queue_is_refused() {
    let (world, (_folder, store)) = (World::start(&[node("n1", 4, &json!({}))]), sqlite());
    let running = Running::start(&store, &world);
    let sent_back = |id: &str| running.post(&format!("/api/tasks/{id}/yield"), &json!({}));
    let waits = running.submit(&with(&json!({ "resources": { "gpu": 1 } })));
    let answer = sent_back(&waits).expect_status(200);
    assert_eq!(answer.json()["state"], "QUEUED");
    assert_eq!(answer.header("estimand-hint"), Some("it waits already, so there was nothing to do"));
    running.cancel(&waits);
    assert!(refused(sent_back(&waits), 409).contains("is CANCELLED: nothing of it runs"));
    let ends = runs(&running, &json!({}));
    running.cancel(&ends);
    assert!(refused(sent_back(&ends), 409).contains("ends for good"));
    told(&world, &ends, &Value::Null, false);
    running.ends(&ends, 1, &json!("cancelled"));
    running.wait_for(&ends, "CANCELLED");
    refused(sent_back("nobody"), 404);
    let both = json!({ "grace": 0, "checkpoint": true });
    running.post(&format!("/api/tasks/{ends}/yield"), &both).expect_problem(400);
    running.submit(&with(&json!({ "id": "none", "count": 2, "resources": { "gpu": 1 } })));
    running.cancel("none");
    assert!(refused(sent_back("none"), 409).contains("all tasks of `none` are over"));
    running.stop();
}

fn a_grace_is_cut_where_a_promise_needs_the_room() {
    let (world, (_folder, store)) = (World::start(&[node("n1", 4, &json!({}))]), sqlite());
    let running = Running::start(&store, &world);
    let half = |more: Value| {
        let mut document = json!({ "resources": { "cpu": 2 } });
        document.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        runs(&running, &document)
    };
    let saves = half(json!({ "checkpointGrace": "2m" }));
    let leaves = half(json!({}));
    // The task has an hour to end, until somebody needs its capacity.
    stop(&running, &leaves, "cancel", &json!({ "grace": "1h" }));
    told(&world, &leaves, &json!(HOUR_MS), false);
    let from = now() + 2;
    let asked = json!({ "id": "p", "resources": { "cpu": 4_000 }, "from": from, "until": from + 1_000 });
    running.post("/api/capacity/promises", &json!({ "allOrNone": [asked] })).expect_status(201);
    running.wait_for(&saves, "STOPPING");
    told(&world, &saves, &json!(20_000), true);
    told(&world, &leaves, &json!(20_000), false);
    let cut = |from_ms: u64| json!({ "event": "makeRoom", "attempt": 1, "promise": "p", "graceMs": 20_000, "cutFromMs": from_ms });
    assert_eq!(cause(&running.task(&saves)), cut(120_000), "that it is cut is said");
    assert_eq!(cause(&running.task(&leaves)), cut(HOUR_MS));
    ends_so(&running, &saves, &json!({ "exit": 0 }));
    ends_so(&running, &leaves, &json!({ "signal": 9 }));
    running.wait_for(&saves, "QUEUED");
    running.wait_for(&leaves, "CANCELLED");
    running.stop();
}

fn a_task_on_a_promise_saves_its_work_when_that_ends() {
    let (world, (_folder, store)) = (World::start(&[node("n1", 4, &json!({}))]), sqlite());
    let running = Running::start(&store, &world);
    let until = now() + 1_000;
    for id in ["given-back", "other"] {
        let asked = json!({ "id": id, "resources": { "cpu": 1_000 }, "until": until });
        wait::until(PATIENCE, "the nodes to be known", || {
            let answer = running.post("/api/capacity/promises", &json!({ "allOrNone": [asked] }));
            (answer.status == 201).then_some(())
        });
    }
    let saves = runs(&running, &json!({ "promise": "given-back", "checkpointGrace": "2m" }));
    let plain = runs(&running, &json!({ "promise": "other" }));
    world.wait_told("n1", &[(&saves, 1, false), (&plain, 1, false)]);
    let end = |id: &str| world.assignment("n1", id)["end"].clone();
    for (id, checkpoint_ms) in [(&saves, json!(120_000)), (&plain, Value::Null)] {
        assert_eq!((&end(id)["graceMs"], &end(id)["checkpointMs"]), (&json!(10_000), &checkpoint_ms));
    }
    for id in ["given-back", "other"] {
        running
            .serving
            .http
            .request("DELETE", &format!("/api/capacity/promises/{id}"), &[], b"")
            .expect_status(200);
    }
    told(&world, &saves, &json!(20_000), true);
    told(&world, &plain, &Value::Null, false);
    ends_so(&running, &saves, &json!({ "exit": 0 }));
    let failed = running.wait_for(&saves, "FAILED");
    assert!(failed["ending"]["promise"].as_str().unwrap().contains("was released"), "{failed}");
    assert_eq!(failed["program"], json!({ "exit": 0 }), "its work is saved");
    running.stop();
}
