//! The end of a promise is inside its window: the next user of the same capacity has a free node.

use std::path::{Path, PathBuf};

use estimand_testkit::wait::{self, PATIENCE};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::plane::{Plane, seconds};

/// Writes the time again and again to the file `$0`, and does not end when it is asked to.
const STUBBORN: &str = "trap '' TERM; while :; do date +%s.%N >> \"$0\"; sleep 0.05; done";

struct Notes(TempDir);

impl Notes {
    fn new() -> Self {
        Notes(tempfile::tempdir().unwrap())
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn task(&self, name: &str) -> Value {
        json!({ "command": ["/bin/sh", "-c", STUBBORN, self.file(name)] })
    }
}

/// The first and the last time that a task wrote, if it has begun.
fn noted(file: &Path) -> Option<(f64, f64)> {
    let text = std::fs::read_to_string(file).ok()?;
    let times: Vec<f64> = text.lines().filter_map(|line| line.parse().ok()).collect();
    Some((*times.first()?, *times.last()?))
}

/// Two reservations of the whole node, the second one from the end of the first on.
fn back_to_back(plane: &Plane, notes: &Notes, durations: [u64; 2]) -> [Value; 2] {
    let cpu = plane.processors();
    plane.grant("ada", "100");
    let asked = |name: &str, duration: u64, from: &Value| {
        json!({ "resources": { "cpu": cpu }, "duration": duration, "from": from, "value": 50, "user": "ada",
            "task": notes.task(name) })
    };
    let first = plane.reserve(&asked("first", durations[0], &json!("4s"))).expect_status(201).json();
    let second = plane.reserve(&asked("second", durations[1], &first["end"])).expect_status(201).json();
    assert_eq!(second["start"], first["end"]);
    [first, second]
}

fn check(plane: &Plane, notes: &Notes, [first, second]: &[Value; 2]) {
    plane.wait_state(second["id"].as_str().unwrap(), "OVER");
    let overrun = noted(&notes.file("first")).unwrap();
    let next = noted(&notes.file("second"));
    let next = next.unwrap_or_else(|| panic!("the second had nothing of its time: {first} {second}"));
    assert!(overrun.1 <= next.0, "both had the node at the same time: {overrun:?} {next:?}");
    let start = seconds(&second["start"]) as f64;
    let end = seconds(&second["end"]) as f64;
    println!("the first was there for {:.3} s of the second's time", (overrun.1 - start).max(0.0));
    println!("the second began {:.3} s late and ended {:.3} s late", next.0 - start, next.1 - end);
}

#[test]
fn one_that_does_not_end_takes_nothing_of_the_next_ones_time() {
    let plane = Plane::start();
    let notes = Notes::new();
    let both = back_to_back(&plane, &notes, [10, 8]);
    check(&plane, &notes, &both);
}

#[test]
fn one_that_does_not_end_is_ended_while_the_services_are_away() {
    let mut plane = Plane::start();
    let notes = Notes::new();
    let both = back_to_back(&plane, &notes, [10, 60]);
    wait::until(PATIENCE, "the first to begin", || noted(&notes.file("first")));
    plane.services.kill9();
    wait::until(PATIENCE, "the first to end", || {
        let before = noted(&notes.file("first"));
        wait::pass(std::time::Duration::from_secs(1));
        (noted(&notes.file("first")) == before).then_some(())
    });
    plane.services.restart_on_same_port();
    check(&plane, &notes, &both);
}

#[test]
fn a_promise_that_is_extended_ends_its_task_later() {
    let plane = Plane::start();
    let notes = Notes::new();
    plane.processors();
    let now = chrono::Utc::now().timestamp();
    let first = now + 20;
    let second = now + 26;
    let asked = json!({ "allOrNone": [{ "id": "p", "resources": { "cpu": 100 }, "until": first }] });
    plane.http.send_json("POST", "/api/capacity/promises", &asked).expect_status(201);
    let mut task = notes.task("it");
    task["promise"] = json!("p");
    let task = plane.http.send_json("POST", "/api/tasks", &task).expect_status(201).json();
    wait::until(PATIENCE, "it to begin", || noted(&notes.file("it")));
    let resize = json!({ "until": second });
    plane.http.send_json("POST", "/api/capacity/promises/p/resize", &resize).expect_status(200);
    let path = format!("/api/tasks/{}", task["id"].as_str().unwrap());
    let over = wait::until_ok(PATIENCE, "it to end", || {
        let task = plane.http.get(&path).expect_status(200).json();
        if task["state"] == "FAILED" { Ok(task) } else { Err(task) }
    });
    assert_eq!(over["ending"]["promise"], "its promise `p` is over: its time is over", "{over}");
    let (_, last) = noted(&notes.file("it")).unwrap();
    assert!(last > first as f64, "it was ended at {last}, and its promise was extended from {first}");
}
