//! Promises with real processes: kept through a kill, made room for, ended in time, and broken the least value first.

use std::time::{Duration, Instant, SystemTime};

use estimand_testkit::wait::{self, PATIENCE};
use serde_json::{Value, json};

use crate::plane::Plane;

fn now() -> u64 {
    SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs()
}

/// The processor time of each node, once so many are known.
fn cpu(plane: &Plane, nodes: u64) -> u64 {
    wait::until(PATIENCE, "the nodes to be known", || {
        let timeline = plane.http.get("/api/capacity/timeline?step=3600");
        let class = (timeline.status == 200).then(|| timeline.json()["classes"][0].clone())?;
        let cpu = class["capacity"]["cpu"].as_u64()?;
        (class["nodes"] == nodes).then_some(cpu / nodes)
    })
}

#[track_caller]
fn promise(plane: &Plane, id: &str, cpu: u64, window: (u64, u64), value: u64) -> Value {
    let asked =
        json!({ "id": id, "resources": { "cpu": cpu }, "from": window.0, "until": window.1, "value": value });
    let body = json!({ "allOrNone": [asked] });
    plane.http.send_json("POST", "/api/capacity/promises", &body).expect_status(201).json()["promises"][0]
        .clone()
}

#[test]
fn a_promise_and_its_task_start_although_the_services_were_killed() {
    let mut plane = Plane::start(&["n1"]);
    let all = cpu(&plane, 1);
    let from = now() + 5;
    promise(&plane, "p", all, (from, from + 600), 0);
    let id = plane.submit(&json!({ "command": ["/bin/date", "+%s"], "promise": "p" }));
    assert_eq!(plane.task(&id)["state"], "QUEUED");
    plane.services.kill9();
    plane.services.restart_on_same_port();
    let task = plane.over(&id);
    assert_eq!((&task["state"], &task["attempt"]), (&json!("SUCCEEDED"), &json!(1)), "{task}");
    let began: u64 = plane.log(&id)[0].parse().unwrap();
    assert!(began >= from, "it began at {began}, and its promise at {from}");
}

#[test]
fn what_runs_unreserved_saves_its_work_makes_room_and_runs_to_its_end() {
    let plane = Plane::start(&["n1"]);
    let all = cpu(&plane, 1);
    let saved = plane.folder.path().join("saved");
    let script = format!(
        "i=$(cat {0} 2>/dev/null || echo 0); trap 'echo $i > {0}; exit 0' USR1; \
         while [ $i -lt 100 ]; do i=$((i+1)); echo $i; sleep 0.05; done",
        saved.display()
    );
    let processors = all as f64 / 1000.0;
    let worker = plane.submit(
        &json!({ "id": "worker", "command": ["/bin/sh", "-c", script], "resources": { "cpu": processors } }),
    );
    plane.wait_lines(&worker, 3);
    let from = now() + 2;
    promise(&plane, "p", all, (from, from + 600), 0);
    let reserved = plane.submit(&json!({ "command": ["/bin/sh", "-c", "echo mine"], "promise": "p" }));
    assert_eq!(plane.over(&reserved)["state"], "SUCCEEDED");
    let first: u64 = std::fs::read_to_string(&saved).unwrap().trim().parse().unwrap();
    assert!((3..100).contains(&first), "{first}");
    assert_eq!(plane.task(&worker)["state"], "QUEUED", "what is promised is kept for the promise");
    plane.http.request("DELETE", "/api/capacity/promises/p", &[], b"").expect_status(200);
    let task = plane.over(&worker);
    assert_eq!((&task["state"], &task["attempt"]), (&json!("SUCCEEDED"), &json!(2)), "{task}");
    assert_eq!(task["failures"], 0, "it used none of its retries");
    let causes: Vec<&Value> =
        task["transitions"].as_array().unwrap().iter().map(|one| &one["cause"]["event"]).collect();
    assert!(causes.contains(&&json!("makeRoom")), "{task}");
    let lines = plane.log(&worker);
    assert_eq!(lines.last().map(String::as_str), Some("100"));
    assert!(lines.len() < 103, "it went on from where it was: {} lines", lines.len());
}

#[test]
fn a_task_ends_with_its_promise() {
    let plane = Plane::start(&["n1"]);
    let all = cpu(&plane, 1);
    let from = now() + 1;
    promise(&plane, "short", all, (from, from + 20), 0);
    let script = "trap 'echo asked; exit 0' TERM; while :; do sleep 0.05; done";
    let id = plane.submit(&json!({ "command": ["/bin/sh", "-c", script], "promise": "short" }));
    let task = plane.over(&id);
    assert_eq!(task["state"], "FAILED", "{task}");
    assert!(task["ending"]["promise"].as_str().unwrap().contains("is over"), "{task}");
    let log = plane.log(&id);
    assert!(log.contains(&"asked".to_owned()), "it was asked to end before it was killed: {log:?}");
    assert!(now() >= from + 18, "it has all but a tenth of its window");
}

#[test]
fn a_node_that_is_lost_breaks_the_least_value_and_the_feed_tells() {
    let mut plane = Plane::start(&["n1", "n2"]);
    let all = cpu(&plane, 2);
    let window = (now() + 1000, now() + 2000);
    let dear = promise(&plane, "dear", all, window, 9);
    promise(&plane, "cheap", all, window, 1);
    let revision = dear["revision"].as_u64().unwrap() + 1;
    let lost = dear["units"][0].as_str().unwrap().to_owned();
    plane.agents[usize::from(lost == "n2")].kill9();
    let mut next = revision;
    let changed = wait::until(PATIENCE, "the feed to tell of what is broken", || {
        let query = format!("/api/capacity/promises?after={next}&waitMs=5000");
        let page = plane.http.get(&query).expect_status(200).json();
        next = page["next"].as_u64().unwrap();
        Some(page["promises"].clone()).filter(|promises| promises[0].is_object())
    });
    let changed = changed.as_array().unwrap();
    let of = |id: &str| changed.iter().find(|promise| promise["id"] == id).unwrap();
    assert_eq!(of("cheap")["state"], "BROKEN", "{changed:?}");
    assert_eq!(of("dear")["state"], "PROMISED", "{changed:?}");
    assert_ne!(of("dear")["units"][0], lost.as_str());
}

#[test]
fn the_feed_tells_of_nodes_that_change_although_no_promise_does() {
    let plane = Plane::start(&["n1"]);
    cpu(&plane, 1);
    let next = plane.http.get("/api/capacity/promises").expect_status(200).json()["next"].as_u64().unwrap();
    let began = Instant::now();
    let page = std::thread::scope(|scope| {
        let feed = format!("/api/capacity/promises?after={next}&waitMs=60000");
        let http = &plane.http;
        let asking = scope.spawn(move || http.get(&feed).expect_status(200).json());
        plane.http.request("PUT", "/api/nodes/n1/cordon", &[], b"").expect_status(200);
        asking.join().unwrap()
    });
    assert_eq!((&page["promises"], page["revision"].as_u64() > Some(next)), (&json!([]), true), "{page}");
    assert!(began.elapsed() < Duration::from_secs(60), "it does not wait for promises");
}

#[test]
fn capacity_is_promised_once_whoever_asks() {
    let plane = Plane::start(&["n1"]);
    let all = cpu(&plane, 1);
    let window = (now() + 1000, now() + 2000);
    let asked = json!({ "resources": { "cpu": all / 2 }, "from": window.0, "until": window.1 });
    let body = json!({ "allOrNone": [asked] });
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let ask = |_| scope.spawn(|| plane.http.send_json("POST", "/api/capacity/promises", &body).status);
        let asking: Vec<_> = (0..64).map(ask).collect();
        asking.into_iter().map(|one| one.join().unwrap()).collect()
    });
    let given = |status: u16| statuses.iter().filter(|one| **one == status).count();
    assert_eq!((given(201), given(409)), (2, 62), "{statuses:?}");
}
