//! Tasks that are too large, too many, or too greedy.

use std::time::{Duration, Instant};

use estimand_testkit::plane::text;
use estimand_testkit::wait::{self, PATIENCE};
use serde_json::{Value, json};

use crate::plane::{Plane, submit};
use crate::{long_or, runs, with_the_processor};

const CLIENTS: usize = 64;
/// How often the collector is due that tasks fight with.
const INTERVAL: Duration = Duration::from_millis(200);

#[test]
fn an_environment_that_is_too_large_is_refused_or_said_to_be() {
    let plane = Plane::start("environment", &["n1"]);
    let with =
        |bytes: usize| json!({ "command": ["/bin/true"], "environment": { "LARGE": "x".repeat(bytes) } });
    let answer = plane.http.send_json("POST", "/api/tasks", &with(10_000_000)).expect_status(413);
    assert_eq!(answer.header("content-type"), Some("application/problem+json"), "{answer}");
    // One variable of this size is more than the kernel takes.
    let task = plane.over(&plane.submit(&with(200_000)));
    let reason = task["ending"]["notStarted"].as_str().unwrap_or_default();
    assert!(task["state"] == "FAILED" && reason.contains("the most is 131072"), "{task}");
    let task = plane.over(&plane.submit(&with(100_000)));
    assert_eq!(task["state"], "SUCCEEDED", "{task}");
}

#[test]
fn thousands_of_tasks_at_once_are_all_taken_and_done() {
    let _alone = with_the_processor();
    let mut plane = Plane::start("many", &["n1", "n2", "n3"]);
    let each = long_or(10_000, 384) / CLIENTS;
    let folder = plane.folder();
    let script = "echo x >> \"$0/ran\"";
    let document = json!({ "command": ["/bin/sh", "-c", script, folder] });
    let began = Instant::now();
    runs::watching(&mut plane, |plane| {
        let base = plane.tasks.base_url();
        let ids: Vec<String> = std::thread::scope(|scope| {
            let client = || {
                let http = estimand_testkit::http::Http::new(base);
                (0..each).map(|_| submit(&http, &document)).collect::<Vec<String>>()
            };
            let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(client)).collect();
            clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
        });
        println!("{} tasks were submitted in {:?}", ids.len(), began.elapsed());
        for id in &ids {
            let task = plane.over(id);
            assert_eq!((&task["state"], &task["attempt"]), (&json!("SUCCEEDED"), &json!(1)), "{task}");
        }
        println!("they were done in {:?}", began.elapsed());
        let ran = std::fs::read_to_string(folder.join("ran")).unwrap();
        assert_eq!(ran.lines().count(), ids.len());
    });
    runs::check_free(&plane);
}

/// The times at which a value was collected, in milliseconds.
fn collected(plane: &Plane) -> Vec<i64> {
    let path = "/api/data/history?dataName=pulse&dataNode=n1&limit=100000";
    let history = plane.services.data.http().get(path).expect_status(200).json();
    let at = |value: &Value| {
        let at = text(&value["collectedAt"]);
        let (_, time) = at.split_once('T').unwrap();
        let part = |from: usize, to: usize| time[from..to].parse::<i64>().unwrap();
        ((part(0, 2) * 60 + part(3, 5)) * 60 + part(6, 8)) * 1000 + part(9, 12)
    };
    history.as_array().unwrap().iter().map(at).collect()
}

/// Tasks that take all processors keep no collector from its cadence.
#[test]
fn a_collector_keeps_its_cadence_beside_tasks_that_take_all_processors() {
    let _alone = with_the_processor();
    let plane = Plane::start("greedy", &["n1"]);
    let pulse = json!({ "dataName": "pulse", "cmd": ["/bin/echo", "1"], "max-Time": INTERVAL.as_secs_f64(),
        "history": { "max": 10_000 } });
    plane.services.plane.register(&pulse);
    plane.services.plane.wait_fresh("pulse", &["n1"]);
    let burns = json!({ "command": ["/bin/sh", "-c", "(while :; do :; done) & while :; do :; done"] });
    let ids: Vec<String> = (0..8).map(|_| plane.submit(&burns)).collect();
    ids.iter().for_each(|id| plane.wait_been(id, &["RUNNING"]));
    let before = collected(&plane).len();
    let (began, span) = (Instant::now(), long_or(Duration::from_secs(60), Duration::from_secs(8)));
    wait::until(span + PATIENCE, "a while to pass", || (began.elapsed() >= span).then_some(()));
    let times = collected(&plane);
    for id in &ids {
        plane.http.request("POST", &format!("/api/tasks/{id}/cancel"), &[], b"").expect_status(200);
    }
    let during = &times[before..];
    let due = span.as_millis() / INTERVAL.as_millis();
    println!("{} values of {due} in {span:?}", during.len());
    assert!(during.len() as u128 * 4 >= due * 3, "{} values of {due} in {span:?}: {during:?}", during.len());
    let mut gaps: Vec<i64> = during.windows(2).map(|two| two[1] - two[0]).collect();
    gaps.sort_unstable();
    let (median, most) = (gaps[gaps.len() / 2], gaps[gaps.len() - 1]);
    println!("between two of them {median} ms, at most {most} ms");
    assert!((150..=250).contains(&median), "{gaps:?}");
    ids.iter().for_each(|id| assert_eq!(plane.over(id)["state"], "CANCELLED"));
}
