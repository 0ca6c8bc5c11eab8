//! Arrays: many tasks of one submission, by themselves and as a whole.

use serde_json::{Value, json};

use crate::support::{Running, World, node, refused, sqlite, texts, with};

on_each_engine!(
    an_array_is_one_submission_of_many_tasks,
    an_array_is_there_after_a_crash_and_goes_with_its_last_task,
    a_large_array_is_stored_at_once_and_a_larger_one_refused,
    submissions_that_arrive_together_are_all_taken,
    ids_that_somebody_took_beforehand_stop_no_submission,
);

fn sweep(count: u32) -> Value {
    with(&json!({ "id": "sweep", "count": count, "environment": { "A": "1" }, "resources": { "cpu": 1 } }))
}

fn states(running: &Running, id: &str) -> Value {
    running.task(id)["states"].clone()
}

fn an_array_is_one_submission_of_many_tasks() {
    let (world, (_folder, store)) = (World::start(&[node("n1", 2, &json!({}))]), sqlite());
    let running = Running::start(&store, &world);
    let submit = |document: &Value| {
        let headers = [("Idempotency-Key", "a"), ("Content-Type", "application/json")];
        running.serving.http.request("POST", "/api/tasks", &headers, document.to_string().as_bytes())
    };
    let first = submit(&sweep(3)).expect_status(201);
    assert_eq!(first.header("location"), Some("/api/tasks/sweep"));
    let states_of_first = first.json()["states"].clone();
    let tasks =
        states_of_first.as_object().unwrap().values().map(|count| count.as_u64().unwrap()).sum::<u64>();
    assert_eq!(tasks, 3, "{first}");
    assert_eq!(submit(&sweep(3)).expect_status(200).json()["id"], "sweep");
    assert!(refused(submit(&sweep(4)), 409).contains("another document"));
    assert!(
        refused(running.post("/api/tasks", &with(&json!({ "id": "sweep.1" }))), 409).contains("`sweep.1`")
    );
    assert!(refused(running.post("/api/tasks", &with(&json!({ "id": "sweep" }))), 409).contains("`sweep`"));

    world.wait_told("n1", &[("sweep.0", 1, false), ("sweep.1", 1, false)]);
    let environment = json!({ "A": "1", "ESTIMAND_TASK_COUNT": "3", "ESTIMAND_TASK_INDEX": "1" });
    assert_eq!(world.assignment("n1", "sweep.1")["work"]["environment"], environment);
    let second = running.task("sweep.1");
    assert_eq!((&second["array"], &second["index"]), (&json!("sweep"), &json!(1)));
    assert_eq!(states(&running, "sweep"), json!({ "PLACED": 2, "QUEUED": 1 }));
    running.writes("sweep.0", 1, 0, &[("STDOUT", "zero")]);
    running.ends("sweep.0", 1, &json!({ "exit": 3 }));
    world.wait_told("n1", &[("sweep.1", 1, false), ("sweep.2", 1, false)]);

    running.submit(&with(&json!({ "id": "other", "resources": { "cpu": 2 } })));
    let page = running.get("/api/tasks?array=sweep&state=PLACED&limit=1").expect_status(200).json();
    assert_eq!((&page["tasks"][0]["id"], &page["next"]), (&json!("sweep.2"), &json!("sweep.2")));
    let page = running.get("/api/tasks?array=sweep&before=sweep.2").expect_status(200).json();
    let ids: Vec<&Value> = page["tasks"].as_array().unwrap().iter().map(|task| &task["id"]).collect();
    assert_eq!((ids, &page["next"]), (vec![&json!("sweep.1"), &json!("sweep.0")], &Value::Null));
    refused(running.get("/api/tasks?array=other"), 404);
    assert!(refused(running.get("/api/tasks/sweep/logs"), 409).contains("`sweep.0`"));
    assert_eq!(texts(&running.log("sweep.0", "")), ["zero"]);

    let delete = || running.serving.http.request("DELETE", "/api/tasks/sweep", &[], b"");
    assert!(refused(delete(), 409).contains("2 tasks that are not over"));
    assert_eq!(running.cancel("sweep")["state"], "RUNNING", "two are being ended");
    world.wait_told("n1", &[("sweep.1", 1, true), ("sweep.2", 1, true)]);
    running.ends("sweep.1", 1, &json!("cancelled"));
    running.ends("sweep.2", 1, &json!("cancelled"));
    let over = running.get("/api/tasks/sweep?waitMs=30000").expect_status(200).json();
    assert_eq!(
        (&over["state"], &over["states"]),
        (&json!("FAILED"), &json!({ "CANCELLED": 2, "FAILED": 1 }))
    );
    assert!(over["endedAt"].is_string() && over["lines"] == 1, "{over}");
    delete().expect_status(204);
    refused(running.get("/api/tasks/sweep"), 404);
    refused(running.get("/api/tasks/sweep.1"), 404);
    submit(&sweep(2)).expect_status(201);
    running.stop();
}

fn an_array_is_there_after_a_crash_and_goes_with_its_last_task() {
    let (world, (_folder, store)) = (World::start(&[]), sqlite());
    let running = Running::start(&store, &world);
    running.post("/api/tasks", &sweep(3)).expect_status(201);
    running.cancel("sweep.1");
    running.crash();
    let running = Running::start(&store, &world);
    let array = running.task("sweep");
    assert_eq!(
        (&array["states"], &array["document"]["count"]),
        (&json!({ "CANCELLED": 1, "QUEUED": 2 }), &json!(3))
    );
    assert_eq!(running.task("sweep.2")["document"]["environment"], json!({ "A": "1" }));
    running.cancel("sweep");
    for index in 0..3 {
        assert_eq!(running.task("sweep")["state"], "CANCELLED");
        let path = format!("/api/tasks/sweep.{index}");
        running.serving.http.request("DELETE", &path, &[], b"").expect_status(204);
    }
    refused(running.get("/api/tasks/sweep"), 404);
    running.crash();
    let running = Running::start(&store, &world);
    running.submit(&with(&json!({ "id": "sweep", "count": 1 })));
    running.stop();
}

fn a_large_array_is_stored_at_once_and_a_larger_one_refused() {
    let (world, (_folder, store)) = (World::start(&[]), sqlite());
    let running = Running::start(&store, &world);
    let refused = running.post("/api/tasks", &sweep(10_001)).expect_status(400);
    assert!(refused.text().contains("a whole number from 1 to 10000"), "{refused}");
    running.post("/api/tasks", &sweep(10_000)).expect_status(201);
    assert_eq!(states(&running, "sweep"), json!({ "QUEUED": 10_000 }));
    assert_eq!(running.cancel("sweep")["states"], json!({ "CANCELLED": 10_000 }));
    running.stop();
}

fn submissions_that_arrive_together_are_all_taken() {
    let (world, (_folder, store)) = (World::start(&[]), sqlite());
    let running = Running::start(&store, &world);
    let (clients, each) = (64, 8);
    let ids: std::collections::BTreeSet<String> = std::thread::scope(|scope| {
        let client =
            |_| scope.spawn(|| (0..each).map(|_| running.submit(&with(&json!({})))).collect::<Vec<_>>());
        let clients: Vec<_> = (0..clients).map(client).collect();
        clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
    });
    assert_eq!(ids.len(), clients * each);
    running.crash();
    let running = Running::start(&store, &world);
    assert!(ids.iter().all(|id| running.task(id)["state"] == "QUEUED"));
    running.stop();
}

/// Ids made of the number alone grew with each of these: beyond 64 bytes no agent takes a task, nor some databases.
fn ids_that_somebody_took_beforehand_stop_no_submission() {
    let (world, (_folder, store)) = (World::start(&[node("n1", 2, &json!({}))]), sqlite());
    let running = Running::start(&store, &world);
    let taken = (0..62).map(|length| format!("t64{}", "x".repeat(length)));
    taken.chain(["t65.1".to_owned()]).for_each(|id| drop(running.submit(&with(&json!({ "id": id })))));
    let after = running.submit(&with(&json!({})));
    let array = running.submit(&with(&json!({ "count": 2 })));
    for (id, number) in [(after, "t64-"), (array, "t65-")] {
        assert!(id.starts_with(number) && id.len() <= 40, "{id}");
    }
    running.stop();
}
