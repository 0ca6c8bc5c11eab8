//! Tasks that are told to end, from the command line to their processes: for good, and back to the queue.

use estimand_testkit::wait::{self, PATIENCE};
use serde_json::{Value, json};

use crate::plane::Plane;

#[track_caller]
fn said(plane: &Plane, args: &[&str]) -> String {
    let output = plane.cli(args).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The causes of the events of this name.
fn causes(task: &Value, event: &str) -> Vec<Value> {
    let causes = task["transitions"].as_array().unwrap().iter().map(|one| one["cause"].clone());
    causes.filter(|cause| cause["event"] == event).collect()
}

#[test]
fn what_is_sent_back_to_the_queue_saves_its_work_and_runs_to_its_end() {
    let plane = Plane::start(&["n1"]);
    let saved = plane.folder.path().join("saved");
    let script = format!(
        "i=$(cat {0} 2>/dev/null || echo 0); trap 'echo $i > {0}; exit 0' USR1; \
         while [ $i -lt 100 ]; do i=$((i+1)); echo $i; sleep 0.05; done",
        saved.display()
    );
    let worker = plane.submit(&json!({ "id": "worker", "command": ["/bin/sh", "-c", script] }));
    plane.wait_lines(&worker, 3);
    let answer = said(&plane, &["tasks", "yield", &worker, "--grace", "1h"]);
    assert_eq!(answer, "`worker` is being ended, and goes back to the queue\n");
    let task = plane.over(&worker);
    assert_eq!((&task["state"], &task["attempt"]), (&json!("SUCCEEDED"), &json!(2)), "{task}");
    assert_eq!(task["failures"], 0, "it used none of its retries");
    assert_eq!(causes(&task, "yield"), [json!({"event": "yield", "graceMs": 3_600_000, "checkpoint": true})]);
    let ends = causes(&task, "end");
    assert_eq!((&ends[0]["ending"], &ends[0]["program"]), (&json!("cancelled"), &json!({"exit": 0})));
    let lines = plane.log(&worker);
    assert_eq!(lines.last().map(String::as_str), Some("100"));
    assert!(lines.len() < 103, "it went on from where it was: {} lines", lines.len());
    let over = plane.cli(&["tasks", "yield", &worker]).output().unwrap();
    assert!(String::from_utf8_lossy(&over.stderr).contains("task `worker` is SUCCEEDED"), "{over:?}");
}

#[test]
fn a_task_ends_as_it_was_told_although_the_services_were_killed_meanwhile() {
    let mut plane = Plane::start(&["n1"]);
    let folder = plane.folder.path().to_owned();
    let script = "trap 'touch \"$0/usr1\"' USR1; trap '' TERM; echo on; while :; do sleep 0.05; done";
    let id = plane.submit(&json!({ "command": ["/bin/sh", "-c", script, folder] }));
    plane.wait_lines(&id, 1);
    said(&plane, &["tasks", "yield", &id, "--grace", "3s"]);
    wait::until(PATIENCE, "it to be asked to save its work", || folder.join("usr1").exists().then_some(()));
    plane.services.kill9();
    plane.services.restart_on_same_port();
    let again = wait::until_ok(PATIENCE, "it to run again", || {
        let task = plane.task(&id);
        if task["state"] == "RUNNING" && task["attempt"] == 2 { Ok(task) } else { Err(task) }
    });
    assert_eq!(again["program"], json!({"signal": 9}), "it did not listen");
    assert_eq!(said(&plane, &["tasks", "cancel", &id, "--grace", "0"]), format!("`{id}` is being ended\n"));
    let task = plane.over(&id);
    assert_eq!((&task["state"], &task["program"]), (&json!("CANCELLED"), &json!({"signal": 9})), "{task}");
    let shown = said(&plane, &["tasks", "show", &id]);
    assert!(shown.contains("its program") && shown.contains("signal 9"), "{shown}");
    assert!(shown.contains("yield, by") && shown.contains("; a grace of 3s"), "{shown}");
}
