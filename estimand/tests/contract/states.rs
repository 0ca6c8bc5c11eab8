//! States: a value that was not renewed stays, and says so. Each change of state is an event and a revision.

use estimand_testkit::wait::{self, PATIENCE};
use serde_json::{Value, json};

use crate::answers::problem;
use crate::target::Target;

on_every_target!(
    a_value_turns_stale_when_its_time_is_over,
    a_renewed_value_stays_fresh,
    a_late_value_is_stale_at_once,
    a_clock_that_runs_ahead_keeps_nothing_fresh,
    a_failure_keeps_the_last_good_value,
    a_failure_without_a_value_makes_none,
    a_lost_node_is_marked_and_comes_back,
    readers_choose_states,
);

fn state(target: &Target, name: &str, node: &str) -> String {
    target.one(name, node)["state"].as_str().unwrap().to_owned()
}

#[track_caller]
fn wait_for_state(target: &Target, name: &str, expected: &str) {
    wait::until_ok(PATIENCE, "a state", || {
        let state = state(target, name, "n");
        if state == expected { Ok(()) } else { Err(state) }
    });
}

fn write_valid_for(target: &Target, name: &str, value: u32, valid_for: impl Into<Value>) -> Value {
    let valid_for: Value = valid_for.into();
    target.put(&json!({"dataName": name, "nodeName": "n", "dataValue": value, "validFor": valid_for}))
}

fn fail(target: &Target, name: &str) -> Value {
    target.put(&json!({"dataName": name, "nodeName": "n", "state": "failed"}))
}

fn mark_node(target: &Target, node: &str, state: &str) -> Value {
    let body = json!({"nodeName": node, "state": state});
    target.data.send_json("PUT", "/api/data/state", &body).expect_status(200).json()
}

fn a_value_turns_stale_when_its_time_is_over(target: &Target) {
    let name = target.name("stale");
    let written = write_valid_for(target, &name, 7, 0.2);
    wait_for_state(target, &name, "stale");
    let value = target.one(&name, "n");
    assert_eq!((&value["dataValue"], &value["validFor"]), (&json!(7), &json!(0.2)), "the value stays");
    assert!(value["revision"].as_u64() > written["revision"].as_u64(), "turning stale is a change");
    assert_eq!(target.query(&format!("dataName={name}")), [value]);

    write_valid_for(target, &name, 8, "1h");
    assert_eq!(state(target, &name, "n"), "fresh");
}

fn a_renewed_value_stays_fresh(target: &Target) {
    let (renewed, control) = (target.name("renewed"), target.name("renewed"));
    write_valid_for(target, &renewed, 1, 0.1);
    write_valid_for(target, &renewed, 2, 3600);
    write_valid_for(target, &control, 1, 0.1);
    // The control expires after the first write of the other one would have.
    wait_for_state(target, &control, "stale");
    assert_eq!(state(target, &renewed, "n"), "fresh");
    target.write(&control, "n", 2);
    assert_eq!(target.one(&control, "n")["validFor"], Value::Null, "a plain write never turns stale");
    assert_eq!(state(target, &control, "n"), "fresh");
}

fn a_late_value_is_stale_at_once(target: &Target) {
    let name = target.name("late");
    target.put(&json!({
        "dataName": name, "nodeName": "n", "dataValue": 1, "collectedAt": "2026-01-01T00:00:00Z", "validFor": "1h",
    }));
    assert_eq!(state(target, &name, "n"), "stale");
}

fn a_clock_that_runs_ahead_keeps_nothing_fresh(target: &Target) {
    let name = target.name("ahead");
    target.put(&json!({
        "dataName": name, "nodeName": "n", "dataValue": 1, "collectedAt": "2999-01-01T00:00:00Z", "validFor": 0.2,
    }));
    assert_eq!(
        target.one(&name, "n")["collectedAt"],
        "2999-01-01T00:00:00.000000Z",
        "what the node said is kept"
    );
    wait_for_state(target, &name, "stale");
    wait::until(PATIENCE, "the value to be older than a reader wants it", || {
        target.values(&format!("dataName={name}&maxAge=100ms")).is_empty().then_some(())
    });
}

fn a_failure_keeps_the_last_good_value(target: &Target) {
    let name = target.name("failed");
    let good = target.write(&name, "n", json!({"last": "good"}));
    let before = target.one(&name, "n");
    let failed = fail(target, &name);
    assert!(failed["revision"].as_u64() > good["revision"].as_u64());
    let value = target.one(&name, "n");
    assert_eq!(value["state"], "failed");
    for field in ["dataValue", "collectedAt", "receivedAt"] {
        assert_eq!(value[field], before[field], "{field} is still that of the last good value");
    }
    target.write(&name, "n", 1);
    assert_eq!(state(target, &name, "n"), "fresh");
}

fn a_failure_without_a_value_makes_none(target: &Target) {
    let name = target.name("failed");
    assert_eq!(fail(target, &name)["outcome"], "no-value");
    assert_eq!(target.values(&format!("dataName={name}")), Vec::<Value>::new());
}

fn a_lost_node_is_marked_and_comes_back(target: &Target) {
    let (one, two) = (target.name("lost"), target.name("lost"));
    let (node, other) = (target.name("node"), target.name("node"));
    target.write(&one, &node, 1);
    target.write(&two, &node, 2);
    target.write(&one, &other, 3);
    target.put(&json!({"dataName": two, "nodeName": node, "state": "failed"}));

    assert_eq!(mark_node(target, &node, "node-lost")["changed"], 2);
    assert_eq!(state(target, &one, &node), "node-lost");
    assert_eq!(state(target, &two, &node), "node-lost");
    assert_eq!(state(target, &one, &other), "fresh", "another node's value is left alone");
    assert_eq!(target.one(&one, &node)["dataValue"], 1);
    assert_eq!(mark_node(target, &node, "node-lost")["changed"], 0, "it was known already");

    assert_eq!(mark_node(target, &node, "fresh")["changed"], 2);
    assert_eq!(state(target, &one, &node), "fresh");
    assert_eq!(state(target, &two, &node), "failed", "what was wrong before still is");
    assert_eq!(mark_node(target, &target.name("node"), "node-lost")["changed"], 0);

    mark_node(target, &node, "node-lost");
    target.write(&one, &node, 4);
    assert_eq!(state(target, &one, &node), "fresh", "a node that writes is not lost");
}

fn readers_choose_states(target: &Target) {
    let (name, lost) = (target.name("chosen"), target.name("node"));
    for node in ["fresh", "failed", &lost] {
        target.write(&name, node, node);
    }
    target.put(&json!({
        "dataName": name, "nodeName": "stale", "dataValue": "stale",
        "collectedAt": "2026-01-01T00:00:00Z", "validFor": 1,
    }));
    target.put(&json!({"dataName": name, "nodeName": "failed", "state": "failed"}));
    mark_node(target, &lost, "node-lost");

    let of = |states: &str| target.values(&format!("dataName={name}&state={states}"));
    assert_eq!(of("fresh"), ["fresh"]);
    assert_eq!(of("stale"), ["stale"]);
    assert_eq!(of("node-lost"), [&*lost]);
    assert_eq!(of("fresh,failed"), ["failed", "fresh"]);
    assert_eq!(target.values(&format!("dataName={name}")).len(), 4);
    assert_eq!(target.values(&format!("dataName={name}&state=fresh&maxAge=1h")), ["fresh"]);
    assert_eq!(target.values(&format!("dataName={name}&dataNode=stale&state=fresh")), Vec::<Value>::new());
    target.data.get(&format!("/api/data/{name}/stale?state=stale")).expect_status(200);
    let refused = problem(&target.data.get(&format!("/api/data/{name}/stale?state=fresh")), 404);
    assert!(refused["detail"].as_str().unwrap().contains("stale"), "it says which state it is: {refused}");
}
