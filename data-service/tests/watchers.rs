//! Watchers of the same are sent the same bytes: each of them has to know in the end what a reader sees, whatever the
//! others watch and however late it looks.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::time::Duration;

use estimand_testkit::http::{Event, EventReader, Http};
use estimand_testkit::process::Estimand;
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(30);
const STEPS: u64 = 300;
const VIEWS: [&str; 7] = [
    "dataName=a",
    "dataName=a,b",
    "dataName=*",
    "dataName=a,b&dataNode=n1",
    "dataName=a,b&field=/x",
    "dataName=bound",
    "dataName=a,bound*",
];

type Known = BTreeMap<(String, String), Value>;

#[test]
fn all_who_watch_the_same_know_in_the_end_what_is_there() {
    let test = std::env::current_exe().unwrap();
    let alone = test.parent().unwrap().with_file_name("examples").join("alone");
    assert!(alone.is_file(), "build it first: `cargo build -p estimand-data-service --example alone`");
    let process = Estimand::builder(alone).args(["serve"]).start();
    let http = process.http();
    change(&http, 0);
    bind(&http, "a");
    let watch = |view: &str| http.sse(&format!("/api/data/watch?{view}"), &[]);
    let mut watchers: Vec<(&str, EventReader, Known)> =
        VIEWS.iter().flat_map(|view| (0..3).map(|_| (*view, watch(view), Known::new()))).collect();
    for step in 1..STEPS {
        change(&http, step);
        if step % 50 == 0 {
            bind(&http, if step % 100 == 0 { "a" } else { "b" });
        }
        // One of three is told at once, one now and then, and one when all is over.
        for (number, (_, events, known)) in watchers.iter_mut().enumerate() {
            if number % 3 == 0 || (number % 3 == 1 && step % 17 == 0) {
                apply(known, &events.next_event(PATIENCE));
            }
        }
    }
    let last = change(&http, STEPS);
    for (view, events, known) in &mut watchers {
        loop {
            let event = events.next_event(PATIENCE);
            apply(known, &event);
            if event.event == "settled" && event.json()["revision"] == last {
                break;
            }
        }
        let shown = http.get(&format!("/api/data?{view}")).expect_status(200).json();
        assert_eq!(*known, items(&shown), "{view}");
    }
}

/// Changes values of both names, now and then without the part that some watch, and deletes one now and then. Returns the
/// revision of it.
fn change(http: &Http, step: u64) -> Value {
    if step % 7 == 3 {
        http.request("DELETE", "/api/data/b/n2", &[], b"");
    }
    let value = |name: &str, node: u64| {
        let data =
            if (step + node) % 5 == 4 { json!({"y": step}) } else { json!({"x": {"at": step}, "y": 1}) };
        json!({"dataName": name, "nodeName": format!("n{node}"), "dataValue": data})
    };
    let batch = json!([value("a", step % 4), value("b", 2), value("a", 1), value("b", 1)]);
    http.send_json("POST", "/api/data/batch", &batch).expect_status(200).json()["revision"].clone()
}

fn bind(http: &Http, to: &str) {
    let bound = http.send_json("PUT", "/api/bindings/bound", &json!({ "to": to }));
    assert!(bound.status < 300, "{bound:?}");
}

fn apply(known: &mut Known, event: &Event) {
    match event.event.as_str() {
        "snapshot" => *known = items(&event.json()["values"]),
        "change" => known.extend(items(&json!([event.json()]))),
        "delete" => drop(known.remove(&key(&event.json()))),
        _ => {}
    }
}

fn items(values: &Value) -> Known {
    values.as_array().unwrap().iter().map(|value| (key(value), value.clone())).collect()
}

fn key(value: &Value) -> (String, String) {
    let text = |field: &str| value[field].as_str().unwrap().to_owned();
    (text("dataName"), text("nodeName"))
}
