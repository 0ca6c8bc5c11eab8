//! Registrations: created, read, replaced and deleted; versions that only grow; an audit trail of all of it.

use serde_json::{Value, json};

use crate::answers::{column, problem};
use crate::target::Target;

on_every_target!(
    defaults_are_spelt_out,
    everything_optional_comes_back,
    a_gap_and_a_phase_come_back,
    a_taken_name_is_refused,
    an_unregistered_name_is_not_found,
    versions_only_grow,
    the_same_again_is_no_change,
    a_version_guards_against_overwriting,
    a_read_registration_may_be_put_back,
    every_change_is_in_the_audit_trail,
    inputs_form_no_cycle,
    a_command_keeps_its_form,
    a_command_meant_for_a_shell_is_hinted_at,
    a_bound_name_is_not_registered,
    registrations_are_listed_in_order,
);

fn simple(name: &str) -> Value {
    json!({"dataName": name, "cmd": "true", "max-Time": 5})
}

fn put(target: &Target, registration: &Value) -> estimand_testkit::http::Response {
    target.registry.send_json("PUT", "/api/registry", registration)
}

fn get(target: &Target, name: &str) -> estimand_testkit::http::Response {
    target.registry.get(&format!("/api/registry/{name}"))
}

fn delete(target: &Target, name: &str) -> estimand_testkit::http::Response {
    target.registry.request("DELETE", &format!("/api/registry/{name}"), &[], b"")
}

fn trail(target: &Target, name: &str) -> Vec<Value> {
    let answer = target.registry.get(&format!("/api/registry/{name}/history")).expect_status(200);
    serde_json::from_slice(&answer.body).unwrap()
}

fn defaults_are_spelt_out(target: &Target) {
    let name = target.name("registered");
    let created = target.register(&simple(&name)).json();
    let mut one = get(target, &name).expect_status(200).json();
    assert_eq!(one, created);
    for instant in ["createdAt", "updatedAt"] {
        let at = one[instant].take();
        assert!(at.as_str().is_some_and(|text| text.ends_with('Z')), "{instant}: {at}");
    }
    let expected = json!({
        "dataName": name, "cmd": "true", "max-Time": 5, "kind": "collector", "mode": "exec", "format": "auto",
        "replicas": "all", "version": 1, "createdAt": null, "updatedAt": null,
    });
    assert_eq!(one, expected);
}

fn everything_optional_comes_back(target: &Target) {
    let (name, input) = (target.name("registered"), target.name("input"));
    let full = json!({
        "dataName": name, "cmd": ["sh", "-c", "echo \"$ESTIMAND_PARAM_X\" | tr a b"], "schedule": "*/5 8-17 * * 1-5",
        "kind": "processor", "mode": "exec", "format": "nodes", "timeout": 2.5, "nodes": "gpu,zone=a",
        "replicas": 3, "inputs": [input], "params": {"x": "ä\n", "n": 1.5, "b": true}, "env": {"LANG": "C"},
        "history": {"keep": "1h", "max": 1000},
        "limits": {"memory": 268435456, "cpu": 0.5, "processes": 20, "openFiles": 100, "disk": 1048576},
    });
    target.register(&full);
    let one = get(target, &name).expect_status(200).json();
    for (field, value) in full.as_object().unwrap() {
        assert_eq!(&one[field], value, "{field}");
    }
    assert_eq!(one.get("max-Time"), None, "a calendar has no interval");
}

fn a_gap_and_a_phase_come_back(target: &Target) {
    for (timing, back) in [
        (json!({"gap": 2.5}), json!({"gap": 2.5})),
        (json!({"gap": "250ms"}), json!({"gap": 0.25})),
        (json!({"max-Time": 60, "phase": "aligned"}), json!({"max-Time": 60, "phase": "aligned"})),
        // Defaults are not printed.
        (json!({"max-Time": 60, "phase": "staggered"}), json!({"max-Time": 60})),
        (json!({"gap": 1, "phase": "staggered"}), json!({"gap": 1})),
    ] {
        let name = target.name("timed");
        let mut body = json!({"dataName": name, "cmd": "true"});
        body.as_object_mut().unwrap().extend(timing.as_object().unwrap().clone());
        target.register(&body);
        let one = get(target, &name).expect_status(200).json();
        for field in ["max-Time", "gap", "schedule", "phase"] {
            assert_eq!(one.get(field), back.get(field), "{field} of {body}");
        }
        // Sent again as it was read, it changes nothing.
        assert_eq!(put(target, &body).expect_status(200).json(), one);
    }
    // A change of nothing but the timing is a change.
    let name = target.name("timed");
    target.register(&simple(&name));
    let versions = [json!({"max-Time": 5, "phase": "aligned"}), json!({"gap": 5})].map(|timing| {
        let mut body = json!({"dataName": name, "cmd": "true"});
        body.as_object_mut().unwrap().extend(timing.as_object().unwrap().clone());
        put(target, &body).expect_status(200).json()["version"].clone()
    });
    assert_eq!(versions, [2, 3]);
}

fn a_taken_name_is_refused(target: &Target) {
    let name = target.name("registered");
    target.register(&simple(&name));
    let before = get(target, &name).json();
    let other = json!({"dataName": name, "cmd": "false", "max-Time": 7});
    let refused = problem(&target.registry.send_json("POST", "/api/registry", &other), 409);
    let detail = refused["detail"].as_str().unwrap();
    assert!(detail.contains(&name) && detail.contains("PUT"), "it says how to replace it: {detail}");
    assert_eq!(get(target, &name).json(), before);
}

fn an_unregistered_name_is_not_found(target: &Target) {
    let name = target.name("registered");
    for answer in [get(target, &name), put(target, &simple(&name)), delete(target, &name)] {
        let refused = problem(&answer, 404);
        assert!(refused["detail"].as_str().unwrap().contains(&name), "{refused}");
    }
    problem(&target.registry.get(&format!("/api/registry/{name}/history")), 404);
    target.register(&simple(&name));
    delete(target, &name).expect_status(204);
    problem(&delete(target, &name), 404);
    problem(&put(target, &simple(&name)), 404);
}

fn versions_only_grow(target: &Target) {
    let name = target.name("registered");
    let version = |body: Value| body["version"].as_u64().unwrap();
    let created = target.register(&simple(&name));
    assert_eq!(created.header("etag"), Some("\"1\""));
    assert_eq!(version(created.json()), 1);
    let mut last = 1;
    for interval in [6, 7] {
        let replaced = put(target, &json!({"dataName": name, "cmd": "true", "max-Time": interval}));
        let now = version(replaced.expect_status(200).json());
        assert!(now > last);
        last = now;
    }
    delete(target, &name).expect_status(204);
    let again = version(target.register(&simple(&name)).json());
    assert!(again > last, "a version is never used again, not even after a deletion: {again} after {last}");
}

fn the_same_again_is_no_change(target: &Target) {
    let name = target.name("registered");
    let created = target.register(&simple(&name)).json();
    assert_eq!(put(target, &simple(&name)).expect_status(200).json(), created);
    // The defaults, spelt out, and the same interval, written otherwise.
    let same =
        json!({"dataName": name, "cmd": "true", "max-Time": 5.0, "kind": "collector", "replicas": "all"});
    assert_eq!(put(target, &same).expect_status(200).json(), created);
    assert_eq!(trail(target, &name).len(), 1);
}

fn a_version_guards_against_overwriting(target: &Target) {
    let name = target.name("registered");
    target.register(&simple(&name));
    let change = |interval: u32, version: u32| {
        put(target, &json!({"dataName": name, "cmd": "true", "max-Time": interval, "version": version}))
    };
    change(6, 1).expect_status(200);
    let refused = problem(&change(7, 1), 409);
    let detail = refused["detail"].as_str().unwrap();
    assert!(detail.contains("version 2") && detail.contains(&name), "{detail}");
    problem(&change(7, 3), 409);
    assert_eq!(get(target, &name).json()["max-Time"], 6);
    change(7, 2).expect_status(200);
    // Sent again because its answer was lost: it is so already.
    assert_eq!(change(7, 2).expect_status(200).json()["version"], 3);
}

fn a_read_registration_may_be_put_back(target: &Target) {
    let name = target.name("registered");
    target.register(&simple(&name));
    let mut edited = get(target, &name).json();
    edited["timeout"] = json!(1);
    let replaced = put(target, &edited).expect_status(200).json();
    assert_eq!((&replaced["timeout"], &replaced["version"]), (&json!(1), &json!(2)));
    assert_eq!(replaced["createdAt"], edited["createdAt"]);
    edited["timeout"] = json!(2);
    problem(&put(target, &edited), 409);
}

fn every_change_is_in_the_audit_trail(target: &Target) {
    let name = target.name("registered");
    target.register(&simple(&name));
    put(target, &json!({"dataName": name, "cmd": "false", "max-Time": 6})).expect_status(200);
    delete(target, &name).expect_status(204);
    let trail = trail(target, &name);
    assert_eq!(column(&trail, "action"), ["deleted", "replaced", "created"], "newest first");
    let versions: Vec<_> = trail.iter().map(|change| change["version"].as_u64().unwrap()).collect();
    assert_eq!(versions, [3, 2, 1]);
    let commands: Vec<_> = trail.iter().map(|change| &change["registration"]["cmd"]).collect();
    assert_eq!(commands, ["false", "false", "true"], "a deletion shows what was deleted");
    for change in &trail {
        assert_eq!(change["by"], "ESTIMAND_TOKEN@127.0.0.1");
        assert!(change["at"].as_str().is_some_and(|at| at.ends_with('Z')), "{change}");
    }
    let times = column(&trail, "at");
    assert!(times.is_sorted_by(|later, earlier| later >= earlier), "{times:?}");
}

fn inputs_form_no_cycle(target: &Target) {
    let names: Vec<String> = ["a", "b", "c"].iter().map(|stem| target.name(stem)).collect();
    let reading = |name: &str, input: &str| json!({"dataName": name, "cmd": "true", "max-Time": 5, "kind": "processor", "inputs": [input]});
    target.register(&reading(&names[0], &names[1]));
    target.register(&reading(&names[1], &names[2]));
    let closing = reading(&names[2], &names[0]);
    let refused = problem(&target.registry.send_json("POST", "/api/registry", &closing), 409);
    let detail = refused["detail"].as_str().unwrap();
    assert!(names.iter().all(|name| detail.contains(name)), "it shows the way round: {detail}");
    problem(&get(target, &names[2]), 404);

    target.register(&simple(&names[2]));
    problem(&put(target, &closing), 409);
    assert_eq!(get(target, &names[2]).json()["version"], 1);
}

fn a_command_keeps_its_form(target: &Target) {
    for cmd in [json!("a 'b c' \"d\""), json!(["a", "b c", ""]), json!("grüße 🦀")] {
        let name = target.name("registered");
        target.register(&json!({"dataName": name, "cmd": cmd, "max-Time": 300}));
        assert_eq!(get(target, &name).json()["cmd"], cmd);
    }
}

fn a_command_meant_for_a_shell_is_hinted_at(target: &Target) {
    let name = target.name("registered");
    let hinted = target.register(&json!({"dataName": name, "cmd": "ps ax | wc -l", "max-Time": 5}));
    let hint = hinted.header("estimand-hint").unwrap_or_else(|| panic!("no hint: {hinted}"));
    assert!(hint.contains("[\"sh\",\"-c\",\"ps ax | wc -l\"]"), "{hint}");
    let plain = target.register(&simple(&target.name("registered")));
    assert_eq!(plain.header("estimand-hint"), None);
}

fn a_bound_name_is_not_registered(target: &Target) {
    let (stable, estimator) = (target.name("capability"), target.name("estimator"));
    let body = json!({"to": estimator});
    target.data.send_json("PUT", &format!("/api/bindings/{stable}"), &body).expect_status(200);
    let refused = problem(&target.registry.send_json("POST", "/api/registry", &simple(&stable)), 409);
    assert!(refused["detail"].as_str().unwrap().contains(&estimator), "{refused}");
    target.data.request("DELETE", &format!("/api/bindings/{stable}"), &[], b"").expect_status(204);
    target.register(&simple(&stable));
}

fn registrations_are_listed_in_order(target: &Target) {
    let mut names: Vec<String> = ["z", "A", "m"].iter().map(|stem| target.name(stem)).collect();
    for name in &names {
        target.register(&simple(name));
    }
    names.sort();
    let all = target.registry.get("/api/registry/").expect_status(200).json();
    let listed = column(all.as_array().unwrap(), "dataName");
    assert!(listed.is_sorted(), "{listed:?}");
    assert_eq!(
        listed.iter().filter(|name| names.contains(name)).collect::<Vec<_>>(),
        names.iter().collect::<Vec<_>>()
    );
    delete(target, &names[1]).expect_status(204);
    let all = target.registry.get("/api/registry").json();
    assert!(!column(all.as_array().unwrap(), "dataName").contains(&names[1]));
}
