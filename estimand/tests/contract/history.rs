//! History: what was kept of the names whose registration asks for it.

use chrono::{SecondsFormat, Utc};
use estimand_testkit::wait::{self, PATIENCE};
use serde_json::{Value, json};

use crate::answers::{fields_of, problem, wrong_field, wrong_input};
use crate::target::Target;

on_every_target!(
    written_values_are_kept,
    a_history_begins_with_the_value_that_is_there,
    a_reader_chooses_a_part_of_the_past,
    a_history_is_cut_to_its_bounds,
    a_delete_deletes_the_past_too,
    a_binding_shows_the_past_of_its_target,
    only_values_are_kept,
    retention_follows_registrations,
    wrong_questions_are_refused,
);

/// A name that keeps so many values of each node.
fn kept_name(target: &Target, max: u64) -> String {
    let name = target.name("past");
    let history = json!({"max": max});
    target.register(&json!({"dataName": name, "cmd": "true", "max-Time": 5, "history": history}));
    name
}

fn past(target: &Target, query: &str) -> Vec<Value> {
    let answer = target.data.get(&format!("/api/data/history?dataName={query}")).expect_status(200);
    serde_json::from_slice(&answer.body).unwrap()
}

fn past_values(target: &Target, query: &str) -> Vec<Value> {
    past(target, query).into_iter().map(|mut value| value["dataValue"].take()).collect()
}

/// Writes with the time at which it was measured, in hours before now.
fn write_from(target: &Target, name: &str, node: &str, value: u32, hours_ago: i64) {
    let at = Utc::now() - chrono::TimeDelta::hours(hours_ago);
    let at = at.to_rfc3339_opts(SecondsFormat::Micros, true);
    target.put(&json!({"dataName": name, "nodeName": node, "dataValue": value, "collectedAt": at}));
}

/// An agent may write the first value before the data service has heard that it is to be kept.
fn a_history_begins_with_the_value_that_is_there(target: &Target) {
    let name = target.name("past");
    target.write(&name, "n1", json!(1));
    let history = json!({"max": 9});
    target.register(&json!({"dataName": name, "cmd": "true", "max-Time": 5, "history": history}));
    wait::until(PATIENCE, "the history to begin", || (past_values(target, &name) == [1]).then_some(()));
    target.write(&name, "n1", json!(2));
    assert_eq!(past_values(target, &name), [1, 2]);
}

fn written_values_are_kept(target: &Target) {
    let name = kept_name(target, 1_000);
    let mut written = Vec::new();
    for value in [json!(1), json!("two"), json!({"three": [3, null]})] {
        target.write(&name, "n1", value);
        written.push(target.one(&name, "n1"));
    }
    let batch = json!([
        {"dataName": name, "nodeName": "n2", "dataValue": 4}, {"dataName": name, "nodeName": "n2", "dataValue": 5},
    ]);
    target.data.send_json("POST", "/api/data/batch", &batch).expect_status(200);
    let all = past(target, &name);
    assert_eq!(all.len(), 5, "{all:?}");
    for (kept, value) in all.iter().zip(&written) {
        let expected = ["dataName", "nodeName", "dataValue", "collectedAt", "receivedAt", "revision"];
        assert_eq!(fields_of(kept), expected.into());
        assert!(expected.iter().all(|field| kept[*field] == value[*field]), "{kept} is not {value}");
    }
    assert_eq!(past_values(target, &format!("{name}&dataNode=n2")), [4, 5], "each value of a batch is kept");
    let unkept = target.name("past");
    target.write(&unkept, "n", 1);
    assert_eq!(past(target, &unkept), Vec::<Value>::new(), "only for names that ask for it");
}

fn a_reader_chooses_a_part_of_the_past(target: &Target) {
    let name = kept_name(target, 1_000);
    for value in 1..=6 {
        write_from(target, &name, if value % 2 == 0 { "even" } else { "odd" }, value, 10 - i64::from(value));
    }
    let of = |rest: &str| past_values(target, &format!("{name}{rest}"));
    assert_eq!(of(""), [1, 2, 3, 4, 5, 6], "oldest first");
    assert_eq!(of("&dataNode=even"), [2, 4, 6]);
    assert_eq!(of("&nodeName=even"), [2, 4, 6]);
    assert_eq!(of("&limit=2"), [5, 6], "the newest of them, oldest first");
    assert_eq!(of("&dataNode=odd&limit=1"), [5]);
    assert_eq!(of("&since=6.5h"), [4, 5, 6]);
    assert_eq!(of("&until=6.5h"), [1, 2, 3]);
    assert_eq!(of("&since=7.5h&until=5.5h"), [3, 4]);
    let at = past(target, &name)[3]["collectedAt"].as_str().unwrap().to_owned();
    assert_eq!(of(&format!("&since={at}")), [4, 5, 6], "`since` is included");
    assert_eq!(of(&format!("&until={at}")), [1, 2, 3], "`until` is not");
    assert_eq!(of("&since=1m"), Vec::<Value>::new());
}

fn a_history_is_cut_to_its_bounds(target: &Target) {
    let by_count = kept_name(target, 3);
    for value in 0..10 {
        target.write(&by_count, "n1", value);
        target.write(&by_count, "n2", value * 10);
    }
    let by_age = target.name("past");
    let history = json!({"keep": "2h"});
    target.register(&json!({"dataName": by_age, "cmd": "true", "max-Time": 5, "history": history}));
    for (value, hours_ago) in [(1, 5), (2, 3), (3, 1)] {
        write_from(target, &by_age, "n", value, hours_ago);
    }
    let expected = json!([[7, 8, 9], [70, 80, 90], [3]]);
    wait::until_ok(PATIENCE, "the histories to be cut", || {
        let queries = [format!("{by_count}&dataNode=n1"), format!("{by_count}&dataNode=n2"), by_age.clone()];
        let kept = json!(queries.map(|query| past_values(target, &query)));
        if kept == expected { Ok(()) } else { Err(kept) }
    });
}

fn a_delete_deletes_the_past_too(target: &Target) {
    let name = kept_name(target, 1_000);
    for node in ["n1", "n2", "n3"] {
        target.write(&name, node, 1);
        target.write(&name, node, 2);
    }
    target.delete(&format!("dataName={name}&dataNode=n1"));
    assert_eq!(past_values(target, &name).len(), 4);
    assert_eq!(past(target, &format!("{name}&dataNode=n1")), Vec::<Value>::new());
    target.delete(&format!("dataName={name}"));
    assert_eq!(past(target, &name), Vec::<Value>::new());
    target.write(&name, "n1", 3);
    assert_eq!(past_values(target, &name), [3], "what is written after it is kept again");
    // A value that is gone leaves no past to find either, even if only the past is left to delete.
    target.delete(&format!("dataName={name}"));
    target.delete(&format!("dataName={name}"));
    assert_eq!(past(target, &name), Vec::<Value>::new());
}

fn a_binding_shows_the_past_of_its_target(target: &Target) {
    let (stable, estimator) = (target.name("capability"), kept_name(target, 1_000));
    target.write(&estimator, "n", 1);
    target.write(&estimator, "n", 2);
    let body = json!({"to": estimator});
    target.data.send_json("PUT", &format!("/api/bindings/{stable}"), &body).expect_status(200);
    let shown = past(target, &stable);
    assert_eq!((shown.len(), &shown[1]["dataName"], &shown[1]["dataValue"]), (2, &json!(stable), &json!(2)));
}

fn only_values_are_kept(target: &Target) {
    let name = kept_name(target, 1_000);
    let ordered = |value: u32, sequence: u32| {
        let write =
            json!({"dataName": name, "nodeName": "n", "dataValue": value, "epoch": 1, "sequence": sequence});
        target.put(&write);
    };
    ordered(1, 5);
    ordered(2, 4);
    ordered(1, 5);
    target.put(&json!({"dataName": name, "nodeName": "n", "state": "failed"}));
    assert_eq!(past_values(target, &name), [1], "neither what was superseded nor a failure is a value");
}

fn retention_follows_registrations(target: &Target) {
    let name = kept_name(target, 7);
    let retention = || target.data.get("/api/data/retention").expect_status(200).json();
    assert_eq!(retention()[&name], json!({"max": 7}));
    let replacement =
        json!({"dataName": name, "cmd": "true", "max-Time": 5, "history": {"keep": "1h", "max": 9}});
    target.registry.send_json("PUT", "/api/registry", &replacement).expect_status(200);
    wait::until_ok(PATIENCE, "the new retention", || {
        let now = retention()[&name].clone();
        if now == json!({"keep": "1h", "max": 9}) { Ok(()) } else { Err(now) }
    });
    target.write(&name, "n", 1);
    target.registry.request("DELETE", &format!("/api/registry/{name}"), &[], b"").expect_status(204);
    wait::until(PATIENCE, "the retention to end", || retention().get(&name).is_none().then_some(()));
    target.write(&name, "n", 2);
    assert_eq!(past_values(target, &name), [1], "what was kept stays, and no more is kept");

    let put = |body: &Value| target.data.send_json("PUT", "/api/data/retention", body);
    wrong_field(&put(&json!({"a": {"max": 0}})), "a.history.max");
    wrong_field(&put(&json!({"a b": {"max": 1}})), "a b");
    problem(&put(&json!([])), 400);
}

fn wrong_questions_are_refused(target: &Target) {
    let get = |query: &str| target.data.get(&format!("/api/data/history?{query}"));
    wrong_field(&get(""), "dataName");
    wrong_input(&get("dataName=a,b"), "dataName", "a,b", "letter");
    wrong_input(&get("dataName=a&since=yesterday"), "since", "yesterday", "1h");
    wrong_input(&get("dataName=a&until=-1h"), "until", "-1h", "1h");
    for limit in ["0", "-1", "100001", "many"] {
        wrong_input(&get(&format!("dataName=a&limit={limit}")), "limit", limit, "100000");
    }
    wrong_input(&get("dataName=a&dataNode=no%20node"), "dataNode", "no node", "letters");
}
