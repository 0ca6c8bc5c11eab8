//! Services and agents are killed while tasks run: each task runs once, its log is whole, its end is accounted for.

use estimand_testkit::wait::{self, PATIENCE};
use serde_json::{Value, json};

use crate::plane::Plane;

/// Writes so many numbers, one in a twentieth of a second, and notes that it began. It runs without a lease: on a busy machine
/// a start lasts longer than one.
fn counting(plane: &Plane, name: &str, count: u32) -> Value {
    let begun = plane.folder.path().join(name);
    let script = format!(
        "echo x >> {}; i=0; while [ $i -lt {count} ]; do echo $i; i=$((i+1)); sleep 0.05; done",
        begun.display()
    );
    json!({ "id": name, "command": ["/bin/sh", "-c", script], "onLoss": "wait" })
}

/// How often it was begun.
fn begun(plane: &Plane, name: &str) -> usize {
    std::fs::read_to_string(plane.folder.path().join(name)).unwrap_or_default().lines().count()
}

fn numbers(count: u32) -> Vec<String> {
    (0..count).map(|number| number.to_string()).collect()
}

#[test]
fn a_task_goes_on_while_services_and_agent_are_killed() {
    let mut plane = Plane::start(&["n1"]);
    let id = plane.submit(&counting(&plane, "long", 150));
    plane.wait_lines(&id, 5);
    plane.services.kill9();
    plane.services.restart_on_same_port();
    plane.wait_lines(&id, 30);
    plane.agents[0].kill9();
    plane.agents[0].restart_on_same_port();
    plane.wait_lines(&id, 60);
    plane.services.kill9();
    plane.agents[0].kill9();
    plane.agents[0].restart_on_same_port();
    plane.services.restart_on_same_port();
    let task = plane.over(&id);
    assert_eq!((&task["state"], &task["attempt"]), (&json!("SUCCEEDED"), &json!(1)), "{task}");
    assert_eq!(plane.log(&id), numbers(150));
    assert_eq!(begun(&plane, "long"), 1);
}

/// A training in shell: no step counts twice, and none is missing. They are fewer than a change may have.
#[test]
fn progress_is_told_while_services_and_agent_are_killed() {
    let mut plane = Plane::start(&["n1"]);
    let script = "i=0; while [ $i -lt 60 ]; do i=$((i+1)); \
        echo \"estimand-progress {\\\"step\\\": $i, \\\"of\\\": 60, \\\"values\\\": {\\\"loss\\\": 0.$i}}\"; sleep 0.05; done";
    let command = json!(["/bin/sh", "-c", script]);
    let document =
        json!({ "id": "training", "command": command, "labels": { "study": "x" }, "onLoss": "wait" });
    let id = plane.submit(&document);
    let at_step = |plane: &Plane, step: u64| {
        wait::until(PATIENCE, "the task to be so far", || {
            (plane.task(&id)["progress"]["step"].as_u64()? >= step).then_some(())
        });
    };
    at_step(&plane, 3);
    plane.services.kill9();
    plane.services.restart_on_same_port();
    at_step(&plane, 20);
    plane.services.kill9();
    plane.agents[0].kill9();
    plane.agents[0].restart_on_same_port();
    plane.services.restart_on_same_port();
    let task = plane.over(&id);
    let progress = &task["progress"];
    assert_eq!((&progress["step"], &progress["values"]), (&json!(60), &json!({ "loss": 0.60 })), "{task}");
    let told = plane.cli(&["tasks", "progress", "--labels", "study=x", "--json"]).output().unwrap();
    let steps: Vec<Value> = serde_json::Deserializer::from_slice(&told.stdout)
        .into_iter::<Value>()
        .map(|report| report.unwrap()["step"].clone())
        .collect();
    assert_eq!(steps, (1..=60).map(|step| json!(step)).collect::<Vec<Value>>());
    let followed = plane.cli(&["tasks", "progress", &id, "--follow"]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&followed.stdout).lines().count(), 60, "{followed:?}");
}

#[test]
fn an_agent_that_stops_in_order_leaves_its_tasks_running() {
    let mut plane = Plane::start(&["n1", "n2"]);
    let id = plane.submit(&counting(&plane, "kept", 60));
    plane.wait_lines(&id, 3);
    let node = plane.task(&id)["node"].as_str().unwrap().to_owned();
    let agent = usize::from(node == "n2");
    plane.agents[agent].terminate();
    plane.agents[agent].restart_on_same_port();
    let task = plane.over(&id);
    assert_eq!((&task["state"], &task["attempt"]), (&json!("SUCCEEDED"), &json!(1)), "{task}");
    assert_eq!((plane.log(&id), begun(&plane, "kept")), (numbers(60), 1));
}

#[test]
fn a_task_of_a_node_that_is_gone_runs_elsewhere_when_the_lease_is_over() {
    let mut plane = Plane::start(&["n1", "n2"]);
    // The second run looks whether the first one lives.
    let first = plane.folder.path().join("first");
    let script = format!(
        "if [ -e {0} ]; then kill -0 $(cat {0}) 2>/dev/null && exit 9; exit 0; fi; \
         echo $$ > {0}; echo first; while :; do sleep 0.05; done",
        first.display()
    );
    let id = plane.submit(&json!({ "command": ["/bin/sh", "-c", script], "lease": "1s" }));
    plane.wait_lines(&id, 1);
    let node = plane.task(&id)["node"].as_str().unwrap().to_owned();
    let agent = usize::from(node == "n2");
    plane.agents[agent].kill9();
    let task = plane.over(&id);
    assert_eq!((&task["state"], &task["attempt"]), (&json!("SUCCEEDED"), &json!(2)), "{task}");
    assert_ne!(task["node"], node.as_str());
    // The first node is back, and has nothing of it left.
    plane.agents[agent].restart_on_same_port();
    wait::until_ok(PATIENCE, "the first node to be back", || {
        let state = plane.http.get(&format!("/api/nodes/{node}")).json()["state"].clone();
        if state == "ready" { Ok(()) } else { Err(state) }
    });
    assert_eq!(plane.task(&id)["state"], "SUCCEEDED");
}
