//! Outputs: stored with the end that they are told with, and those of the last attempt that has ended.

use serde_json::{Value, json};

use super::support::{Running, World, node, refused, simple, sqlite, with};

on_each_engine!(
    a_record_has_the_outputs_of_the_last_attempt_also_after_a_restart,
    without_a_file_service_tasks_have_no_files,
    grants_are_not_to_be_had_without_the_file_service,
);

fn outputs(name: &str) -> Value {
    let sha256 = "0a".repeat(32);
    json!({
        "files": [{ "path": name, "file": format!("tasks/t/{name}"), "size": 3, "sha256": sha256 }],
        "leftOut": [{ "path": "logs/*", "reason": "there is no such file" }],
    })
}

fn of(attempt: u32, outputs: &Value) -> Value {
    let mut outputs = outputs.clone();
    outputs["attempt"] = json!(attempt);
    outputs
}

fn ends(running: &Running, attempt: u32, exit: i32, outputs: &Value) {
    let report = json!({
        "id": "t", "attempt": attempt, "at": 1, "stage": { "ended": { "ending": { "exit": exit } } }, "outputs": outputs,
    });
    running.news(json!({ "reports": [report] }));
}

fn a_record_has_the_outputs_of_the_last_attempt_also_after_a_restart() {
    let (world, (_folder, store)) = (World::start(&[node("n1", 4, &json!({}))]), sqlite());
    let running = Running::start(&store, &world);
    let retries = json!({ "count": 1, "backOff": "1ms" });
    running
        .submit(&with(&json!({ "id": "t", "inputs": "in", "outputs": ["a", "logs/*"], "retries": retries })));
    world.wait_told("n1", &[("t", 1, false)]);
    let work = world.assignment("n1", "t")["work"].clone();
    assert_eq!(work["inputs"], json!([{ "file": "in", "as": "in" }]));
    assert_eq!(work["outputs"], json!(["a", "logs/*"]));
    assert_eq!(running.task("t").get("outputs"), None);
    ends(&running, 1, 3, &outputs("a"));
    assert_eq!(running.task("t")["outputs"], of(1, &outputs("a")));
    world.wait_told("n1", &[("t", 2, false)]);
    // Late words of the first attempt change nothing.
    ends(&running, 1, 3, &outputs("late"));
    assert_eq!(running.task("t")["outputs"], of(1, &outputs("a")));
    ends(&running, 2, 0, &outputs("b"));
    ends(&running, 2, 0, &outputs("late"));
    assert_eq!(running.task("t")["state"], "SUCCEEDED");
    running.stop();

    let running = Running::start(&store, &world);
    assert_eq!(running.task("t")["outputs"], of(2, &outputs("b")));
    // A list has them not, and another task with this id begins without.
    let page = running.get("/api/tasks").expect_status(200).json();
    assert_eq!(page["tasks"][0].get("outputs"), None);
    running.serving.http.request("DELETE", "/api/tasks/t", &[], b"").expect_status(204);
    running.submit(&with(&json!({ "id": "t", "outputs": "a" })));
    assert_eq!(running.task("t").get("outputs"), None);
}

fn without_a_file_service_tasks_have_no_files() {
    let (world, (_folder, store)) = (World::start(&[node("n1", 4, &json!({}))]), sqlite());
    let running = Running::start_without_files(&store, &world);
    let detail = refused(running.post("/api/tasks", &with(&json!({ "outputs": ["x"] }))), 409);
    assert!(detail.contains("--file-service"), "{detail}");
    running.post("/api/tasks", &simple()).expect_status(201);
}

/// The file service is away, and the agent asks again.
fn grants_are_not_to_be_had_without_the_file_service() {
    let (world, (_folder, store)) = (World::start(&[node("n1", 4, &json!({}))]), sqlite());
    let running = Running::start(&store, &world);
    running.submit(&with(&json!({ "id": "t", "inputs": "in" })));
    world.wait_told("n1", &[("t", 1, false)]);
    let ask = |attempt: u32| running.post("/api/tasks/t/files", &json!({ "attempt": attempt }));
    refused(ask(1), 503);
    refused(ask(2), 409);
    let wrong = running.post("/api/tasks/t/files", &json!({ "attempt": 1, "path": "other" }));
    wrong.expect_problem(400);
}
