//! Values that the agent measures and computes itself: built-in collectors, expressions, built-in estimators; and values
//! that are not what was declared.
#![allow(clippy::needless_pass_by_value)]

use estimand_testkit::processes;
use estimand_testkit::wait::{self, PATIENCE};
use serde_json::{Value, json};

use crate::plane::{Agent, NODE, Plane};

fn builtin(plane: &Plane, name: &str, params: Value) {
    plane.register_cmd(name, json!(name), json!({ "mode": "builtin", "params": params }));
}

fn expression(plane: &Plane, name: &str, inputs: &[&str], text: &str, more: Value) {
    plane.register_cmd(name, json!(text), computed(inputs, more));
}

fn computed(inputs: &[&str], more: Value) -> Value {
    let mut body = json!({ "mode": "expr", "inputs": inputs, "max-Time": 1 });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

#[track_caller]
fn put(plane: &Plane, name: &str, node: &str, value: Value) {
    let body = json!({ "dataName": name, "nodeName": node, "dataValue": value });
    let answer = plane.http.send_json("PUT", "/api/data", &body);
    assert!(answer.status < 300, "{answer}");
}

#[track_caller]
fn until_on(plane: &Plane, name: &str, node: &str, expected: impl Into<Value>) -> Value {
    let expected = expected.into();
    wait::until_ok(PATIENCE, &format!("`{name}` of {node} to be {expected}"), || {
        let value = plane.read_of(name, node);
        match value {
            Some(value) if value["dataValue"].as_f64() == expected.as_f64() => Ok(value),
            other => Err(format!("{other:?}; its slot: {:?}", plane.instance(name))),
        }
    })
}

#[test]
fn collectors_of_the_box_need_no_process() {
    let plane = Plane::up("builtin");
    for name in ["load", "memory", "cpu"] {
        builtin(&plane, name, json!({}));
    }
    let memory = plane.until_value("memory", "there", |_| true);
    assert!(memory["dataValue"]["totalBytes"].as_u64().unwrap() > 1 << 20, "{memory}");
    let cpu = plane.until_value("cpu", "there", |_| true);
    let usage = cpu["dataValue"]["usageFraction"].as_f64().unwrap();
    assert!((0.0..=1.0).contains(&usage), "{cpu}");
    plane.until_value("load", "there", |_| true);
    assert!(processes::descendants(plane.launcher()).is_empty());
    let shown = plane.run_by_hand("load").expect_status(200).json();
    assert!(shown["values"][0]["dataValue"].is_object(), "{shown}");
    plane.unregister("cpu");
    plane.end();
}

#[test]
fn what_is_not_there_is_no_failure() {
    let plane = Plane::with_agent("nothere", Agent::Within, &["--allow-read", "/no-such-folder"]);
    builtin(&plane, "log_tail", json!({ "path": "/no-such-folder/x.log", "pattern": "x" }));
    let slot = plane.until_instance("log_tail", "to be unavailable", |slot| slot["doing"] == "unavailable");
    assert_eq!((&slot["failures"], &slot["failing"]), (&json!(0), &json!(0)), "{slot}");
    assert!(slot["note"].as_str().is_some_and(|note| note.len() > 10), "{slot}");
    assert_eq!(plane.read("log_tail"), None);
    plane.end();
}

#[test]
fn an_expression_is_computed_when_its_input_changes() {
    let plane = Plane::up("expr");
    put(&plane, "raw", NODE, json!({ "free": 0.25 }));
    let text = "raw.free >= params.req ? 1.0 : raw.free / params.req";
    expression(&plane, "capability", &["raw"], text, json!({ "params": { "req": 0.5 }, "max-Time": 3600 }));
    let value = until_on(&plane, "capability", NODE, 0.5);
    let input = &value["provenance"]["inputs"][0];
    assert_eq!((&input["dataName"], &input["nodeName"]), (&json!("raw"), &json!(NODE)), "{value}");
    assert!(input["revision"].as_u64().unwrap() < value["revision"].as_u64().unwrap(), "{value}");
    put(&plane, "raw", NODE, json!({ "free": 0.75 }));
    until_on(&plane, "capability", NODE, 1.0);
    // Each agent computes for its own node.
    put(&plane, "raw", "elsewhere", json!({ "free": 0.1 }));
    put(&plane, "raw", NODE, json!({ "free": 0.05 }));
    until_on(&plane, "capability", NODE, 0.1);
    assert_eq!(plane.read_of("capability", "elsewhere"), None);
    plane.end();
}

#[test]
fn one_replica_computes_for_all_nodes_and_a_chain_is_seen_whole() {
    let plane = Plane::up("chain");
    for node in ["n1", "n2", "n3"] {
        put(&plane, "fps", node, json!(10));
    }
    expression(&plane, "doubled", &["fps"], "fps * 2", json!({ "replicas": 1 }));
    let share = "doubled / total(doubled)";
    expression(&plane, "share", &["doubled"], share, json!({ "replicas": 1 }));
    until_on(&plane, "doubled", "n3", 20);
    for node in ["n1", "n2", "n3"] {
        until_on(&plane, "share", node, 10.0 / 30.0);
    }
    put(&plane, "fps", "n1", json!(20));
    until_on(&plane, "share", "n1", 0.5);
    // Values that were computed together are there together.
    let all = plane.http.get("/api/data?dataName=doubled,share").expect_status(200).json();
    let of = |name: &str, node: &str| {
        let found = all.as_array().unwrap().iter().find(|v| v["dataName"] == name && v["nodeName"] == node);
        found.unwrap()["dataValue"].as_f64().unwrap()
    };
    assert_eq!((of("doubled", "n1"), of("share", "n1"), of("share", "n2")), (40.0, 0.5, 0.25));
    plane.end();
}

/// More than the agent holds in memory of what is on its way.
#[test]
fn a_round_over_very_many_nodes_arrives_whole() {
    const NODES: usize = 20_000;
    let plane = Plane::up("many");
    for first in (0..NODES).step_by(10_000) {
        let value = |n: usize| json!({ "dataName": "x", "nodeName": format!("n{n}"), "dataValue": n });
        let batch: Vec<Value> = (first..first + 10_000).map(value).collect();
        plane.http.send_json("POST", "/api/data/batch", &json!(batch)).expect_status(200);
    }
    expression(&plane, "doubled", &["x"], "x * 2", json!({ "replicas": 1, "max-Time": 3600 }));
    let values = wait::until_ok(PATIENCE, "a result for each", || {
        let values = plane.http.get("/api/data?dataName=doubled").expect_status(200).json();
        let values = values.as_array().unwrap().clone();
        if values.len() == NODES { Ok(values) } else { Err(format!("{} of {NODES}", values.len())) }
    });
    for value in values {
        let number: f64 = value["nodeName"].as_str().unwrap()[1..].parse().unwrap();
        assert_eq!(value["dataValue"].as_f64(), Some(number * 2.0), "{value}");
    }
    plane.end();
}

#[test]
fn a_failing_expression_leaves_the_last_good_value_and_says_where() {
    let plane = Plane::up("exprfail");
    put(&plane, "x", NODE, json!(4));
    expression(&plane, "inverse", &["x"], "1 / x", json!({}));
    until_on(&plane, "inverse", NODE, 0.25);
    put(&plane, "x", NODE, json!(0));
    let value = plane.until_value("inverse", "failed", |value| value["state"] == "failed");
    assert_eq!(value["dataValue"], 0.25);
    plane.until_error("inverse", "1:3");
    put(&plane, "x", NODE, json!(2));
    assert_eq!(until_on(&plane, "inverse", NODE, 0.5)["state"], "fresh");
    plane.end();
}

#[test]
fn a_value_that_is_not_fresh_is_not_computed_with() {
    let plane = Plane::up("exprstale");
    let body = json!({ "dataName": "x", "nodeName": NODE, "dataValue": 4, "validFor": 1.5 });
    plane.http.send_json("PUT", "/api/data", &body).expect_status(201);
    expression(&plane, "plain", &["x"], "x", json!({}));
    expression(&plane, "careful", &["x"], "state(x) == 'fresh' ? x : 0.0", json!({}));
    until_on(&plane, "plain", NODE, 4);
    plane.until_error("plain", "is stale");
    until_on(&plane, "careful", NODE, 0);
    plane.end();
}

#[test]
fn a_replaced_expression_takes_over_and_a_deleted_one_is_silent() {
    let plane = Plane::up("exprswap");
    put(&plane, "x", NODE, json!(1));
    expression(&plane, "y", &["x"], "x + 1", json!({}));
    until_on(&plane, "y", NODE, 2);
    plane.replace_cmd("y", json!("x + 100"), computed(&["x"], json!({})));
    assert_eq!(until_on(&plane, "y", NODE, 101)["provenance"]["version"], 2);
    // One that cannot work is tried, and the one before goes on.
    plane.replace_cmd("y", json!("x / 0"), computed(&["x"], json!({})));
    let slot = plane.until_instance("y", "to try version 3", |slot| slot["next"]["version"] == 3);
    assert_eq!(slot["version"], 2, "{slot}");
    put(&plane, "x", NODE, json!(2));
    assert_eq!(until_on(&plane, "y", NODE, 102)["state"], "fresh");
    plane.unregister("y");
    let last = plane.read("y").unwrap();
    expression(&plane, "z", &["x"], "x + 1", json!({}));
    put(&plane, "x", NODE, json!(7));
    until_on(&plane, "z", NODE, 8);
    assert_eq!(plane.read("y").unwrap(), last, "nobody computes it any more");
    plane.end();
}

#[test]
fn an_estimator_of_the_box_is_an_input_away() {
    let plane = Plane::up("estimator");
    put(&plane, "cpu", NODE, json!({ "freeFraction": 0.25, "count": 4, "frequencyMhz": 2000 }));
    let body = json!({
        "mode": "builtin", "kind": "processor", "inputs": ["cpu"], "params": { "cpu_req": 0.5 },
    });
    plane.register_cmd("capability_cpu", json!("capability_cpu"), body);
    let value = plane.until_value("capability_cpu", "there", |_| true);
    assert_eq!(value["dataValue"]["value"], 0.5, "{value}");
    plane.end();
}

#[test]
fn a_registration_that_no_agent_would_run_is_refused() {
    let plane = Plane::up("refused");
    put(&plane, "x", NODE, json!(1));
    let check = |cmd: &str, more: Value, field: &str, words: &str| {
        let mut body = json!({ "dataName": "y", "cmd": cmd, "max-Time": 1 });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let problem = plane.http.send_json("POST", "/api/registry", &body).expect_status(400).json();
        assert_eq!(problem["errors"][0]["field"], field, "{problem}");
        assert!(problem.to_string().contains(words), "{problem}");
    };
    let of = |inputs: &[&str]| computed(inputs, json!({}));
    check("x +", of(&["x"]), "cmd", "1:");
    check("x + z", of(&["x"]), "cmd", "z");
    check("x + params.none", of(&["x"]), "cmd", "none");
    check("x", of(&["x", "wrong"]), "inputs", "wrong");
    check(&"(".repeat(3_000), of(&["x"]), "cmd", "nest");
    check(&"1+".repeat(20_000), of(&["x"]), "cmd", "4 KiB");
    check("cpux", json!({ "mode": "builtin" }), "cmd", "memory");
    check("cpu", json!({ "mode": "builtin", "params": { "nonsense": 1 } }), "cmd", "nonsense");
    check("capability_cpu", json!({ "mode": "builtin" }), "cmd", "processor");
    check("capability_cpu", json!({ "mode": "builtin", "kind": "processor" }), "cmd", "cpu");
    plane.end();
}

#[test]
fn a_value_that_is_not_what_was_declared_is_kept_from_readers() {
    let plane = Plane::up("quarantine");
    let file = plane.file("reading");
    let write = |text: &str| {
        let beside = format!("{file}.new");
        std::fs::write(&beside, text).unwrap();
        std::fs::rename(beside, &file).unwrap();
    };
    write("0.5");
    let script = plane.script("reading.sh", &format!("cat {file}"));
    let declared = json!({ "schema": { "type": "number" }, "range": { "min": 0, "max": 1 } });
    plane.register_cmd("usage", json!([script]), declared);
    plane.until_is("usage", 0.5);
    write("50");
    let value = plane.until_value("usage", "failed", |value| value["state"] == "failed");
    assert_eq!(value["dataValue"], 0.5);
    let slot = plane.until_instance("usage", "to have quarantined", |slot| slot["quarantined"] != 0);
    assert_eq!(slot["lastQuarantined"]["value"], "50", "{slot}");
    write("\"0.4\"");
    plane.until_error("usage", "number");
    write("0.4");
    let value = plane.until_is("usage", 0.4);
    assert_eq!(value["state"], "fresh");
    plane.end();
}
