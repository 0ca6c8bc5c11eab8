//! Changes of registrations: patches, batches, renamings, and removals that others would notice.

use estimand_testkit::http::Response;
use serde_json::{Value, json};

use crate::answers::{column, problem, wrong_field};
use crate::target::Target;

on_every_target!(
    a_patch_keeps_what_it_does_not_name,
    a_patch_has_preconditions,
    a_patch_is_a_merge_patch,
    a_batch_is_all_or_nothing,
    a_batch_may_have_any_order,
    a_batch_can_be_foreseen,
    what_others_need_is_removed_by_force_only,
    a_registration_is_renamed_in_one_step,
    a_paused_registration_is_placed_nowhere,
);

fn simple(name: &str) -> Value {
    json!({"dataName": name, "cmd": "true", "max-Time": 300})
}

fn reading(name: &str, input: &str) -> Value {
    json!({"dataName": name, "cmd": "true", "max-Time": 300, "kind": "processor", "inputs": [input]})
}

fn patch(target: &Target, name: &str, patch: &Value) -> Response {
    target.registry.send_json("PATCH", &format!("/api/registry/{name}"), patch)
}

fn batch(target: &Target, query: &str, body: &Value) -> Response {
    target.registry.send_json("PATCH", &format!("/api/registry{query}"), body)
}

fn get(target: &Target, name: &str) -> Response {
    target.registry.get(&format!("/api/registry/{name}"))
}

fn delete(target: &Target, name: &str, query: &str) -> Response {
    target.registry.request("DELETE", &format!("/api/registry/{name}{query}"), &[], b"")
}

fn trail(target: &Target, name: &str) -> Vec<Value> {
    let answer = target.registry.get(&format!("/api/registry/{name}/history")).expect_status(200);
    serde_json::from_slice(&answer.body).unwrap()
}

fn a_patch_keeps_what_it_does_not_name(target: &Target) {
    let name = target.name("patched");
    let mut body = simple(&name);
    body["env"] = json!({"TOKEN": "hush", "LANG": "C"});
    body["secrets"] = json!(["TOKEN"]);
    body["history"] = json!({"keep": "1h"});
    body["replicas"] = json!(2);
    let before = target.register(&body).json();
    let changed = patch(target, &name, &json!({"max-Time": 7, "env": {"LANG": "de"}})).expect_status(200);
    assert_eq!(changed.header("etag"), Some("\"2\""));
    let after = get(target, &name).json();
    assert_eq!(after, changed.json());
    let mut expected = before;
    expected["max-Time"] = json!(7);
    expected["env"]["LANG"] = json!("de");
    expected["version"] = json!(2);
    expected["updatedAt"] = after["updatedAt"].clone();
    assert_eq!(after, expected);
    let complete = target.registry.get("/api/secrets").expect_status(200).json();
    let complete = complete.as_array().unwrap().iter().find(|one| one["dataName"] == *name).unwrap();
    assert_eq!(complete["env"]["TOKEN"], "hush");
    // The same again changes nothing, and null takes something out.
    assert_eq!(patch(target, &name, &json!({"max-Time": 7})).expect_status(200).json(), after);
    let without = patch(target, &name, &json!({"history": null})).expect_status(200).json();
    assert_eq!((without.get("history"), &without["version"]), (None, &json!(3)));
    assert_eq!(trail(target, &name).len(), 3);
}

fn a_patch_has_preconditions(target: &Target) {
    let name = target.name("patched");
    target.register(&simple(&name));
    let path = format!("/api/registry/{name}");
    let matching =
        |tag: &str, body: &[u8]| target.registry.request("PATCH", &path, &[("if-match", tag)], body);
    matching("\"1\"", br#"{"timeout":1}"#).expect_status(200);
    let refused = problem(&matching("\"1\"", br#"{"timeout":2}"#), 412);
    assert!(refused["detail"].as_str().unwrap().contains("version 2"), "{refused}");
    matching("*", br#"{"timeout":3}"#).expect_status(200);
    wrong_field(&matching("3", br#"{"timeout":4}"#), "If-Match");
    let put = target.registry.request(
        "PUT",
        "/api/registry",
        &[("if-match", "\"1\"")],
        simple(&name).to_string().as_bytes(),
    );
    problem(&put, 412);
    let outdated = problem(&patch(target, &name, &json!({"timeout": 5, "version": 2})), 409);
    assert!(outdated["detail"].as_str().unwrap().contains("version 3"), "{outdated}");
    patch(target, &name, &json!({"timeout": 5, "version": 3})).expect_status(200);
    // Sent again because its answer was lost: it is so already.
    let again = patch(target, &name, &json!({"timeout": 5, "version": 3})).expect_status(200).json();
    assert_eq!((&again["version"], &again["timeout"]), (&json!(4), &json!(5)));
}

fn a_patch_is_a_merge_patch(target: &Target) {
    let name = target.name("patched");
    target.register(&simple(&name));
    let path = format!("/api/registry/{name}");
    let sent =
        |kind: &str| target.registry.request("PATCH", &path, &[("content-type", kind)], br#"{"timeout":1}"#);
    sent("application/merge-patch+json").expect_status(200);
    sent("application/json").expect_status(200);
    let refused = sent("application/json-patch+json");
    problem(&refused, 415);
    assert_eq!(refused.header("accept-patch"), Some("application/merge-patch+json"));
    wrong_field(&patch(target, &name, &json!({"every": 7})), "every");
    wrong_field(&patch(target, &name, &json!({"dataName": "other"})), "dataName");
    wrong_field(&patch(target, &name, &json!({"schedule": "@daily"})), "schedule");
    problem(&patch(target, &target.name("nothing"), &json!({"timeout": 1})), 404);
    let other = target.name("patched");
    target.register(&reading(&other, &name));
    problem(&patch(target, &name, &json!({"kind": "processor", "inputs": [other]})), 409);
    assert_eq!(get(target, &name).json()["version"], 2);
}

fn a_batch_is_all_or_nothing(target: &Target) {
    let [old, kept, new] = ["old", "kept", "new"].map(|stem| target.name(stem));
    target.register(&simple(&old));
    target.register(&simple(&kept));
    let mut outdated = simple(&kept);
    outdated["timeout"] = json!(1);
    outdated["version"] = json!(7);
    let body = json!({"registrations": [simple(&new), outdated], "remove": [old]});
    problem(&batch(target, "", &body), 409);
    let body = json!({"registrations": [simple(&new)], "remove": [target.name("nothing")]});
    problem(&batch(target, "", &body), 404);
    let body = json!({"registrations": [simple(&new), {"dataName": kept, "cmd": ["sum"], "mode": "builtin", "max-Time": 1}]});
    wrong_field(&batch(target, "", &body), "registrations[1].cmd");
    problem(&get(target, &new), 404);
    assert_eq!(get(target, &old).json()["version"], 1);

    let body = json!({"registrations": [simple(&new), simple(&kept)], "remove": [old], "configSet": "site"});
    let done = batch(target, "", &body).expect_status(200).json();
    let done = done.as_array().unwrap();
    assert_eq!(column(done, "dataName"), [new.as_str(), &kept, &old]);
    assert_eq!(column(done, "outcome"), ["created", "unchanged", "deleted"]);
    problem(&get(target, &old), 404);
    assert_eq!(get(target, &new).json()["configSet"], "site");
    assert_eq!(get(target, &kept).json().get("configSet"), None, "it was there before");
    assert_eq!(column(&trail(target, &old), "action"), ["deleted", "created"]);
}

fn a_batch_may_have_any_order(target: &Target) {
    let [a, b, c] = ["a", "b", "c"].map(|stem| target.name(stem));
    let sum =
        json!({"dataName": a, "cmd": format!("{b} + 1.0"), "mode": "expr", "max-Time": 300, "inputs": [b]});
    let body = json!({"registrations": [sum, simple(&b)]});
    batch(target, "", &body).expect_status(200);
    // Together these two turn the way round; a cycle is refused.
    let turned = json!({"registrations": [reading(&b, &a), simple(&a)]});
    batch(target, "", &turned).expect_status(200);
    let cycle = json!({"registrations": [reading(&a, &c), reading(&c, &b)]});
    problem(&batch(target, "", &cycle), 409);
    problem(&get(target, &c), 404);
    batch(target, "", &json!({"remove": [a, b]})).expect_status(200);
}

fn a_batch_can_be_foreseen(target: &Target) {
    let (name, new) = (target.name("there"), target.name("new"));
    target.register(&simple(&name));
    let body = json!({"registrations": [simple(&new)], "remove": [name]});
    let foreseen = batch(target, "?dryRun=true", &body).expect_status(200).json();
    assert_eq!(column(foreseen.as_array().unwrap(), "outcome"), ["created", "deleted"]);
    problem(&get(target, &new), 404);
    assert_eq!(trail(target, &name).len(), 1);
    wrong_field(&batch(target, "?dryRun=maybe", &body), "dryRun");
    wrong_field(&batch(target, "", &json!({"registration": []})), "registration");
}

fn what_others_need_is_removed_by_force_only(target: &Target) {
    let [read, reader, served, stable] = ["read", "reader", "served", "stable"].map(|stem| target.name(stem));
    target.register(&simple(&read));
    target.register(&reading(&reader, &read));
    target.register(&simple(&served));
    let binding = format!("/api/bindings/{stable}");
    target.data.send_json("PUT", &binding, &json!({"to": served})).expect_status(200);
    for (name, by) in [(&read, &reader), (&served, &stable)] {
        let refused = problem(&delete(target, name, ""), 409);
        assert!(refused["detail"].as_str().unwrap().contains(by.as_str()), "{refused}");
        problem(&batch(target, "", &json!({"remove": [name]})), 409);
        assert_eq!(get(target, name).json()["version"], 1);
        delete(target, name, "?force=true").expect_status(204);
    }
    wrong_field(&delete(target, &reader, "?force=very"), "force");
    // A registration that no other needs goes without.
    delete(target, &reader, "").expect_status(204);
    target.data.request("DELETE", &binding, &[], b"").expect_status(204);
}

fn a_registration_is_renamed_in_one_step(target: &Target) {
    let [old, new, reader] = ["old", "new", "reader"].map(|stem| target.name(stem));
    let rename = |from: &str, to: &str, query: &str| {
        target.registry.send_json("POST", &format!("/api/registry/{from}/rename{query}"), &json!({"to": to}))
    };
    let mut body = simple(&old);
    body["env"] = json!({"TOKEN": "hush"});
    body["secrets"] = json!(["TOKEN"]);
    body["history"] = json!({"max": 5});
    let before = target.register(&body).json();
    target.register(&reading(&reader, &old));
    let refused = problem(&rename(&old, &new, ""), 409);
    assert!(refused["detail"].as_str().unwrap().contains(&reader), "{refused}");
    problem(&rename(&old, &reader, "?force=true"), 409);
    wrong_field(&rename(&old, "1st", ""), "to");
    problem(&rename(&new, &old, ""), 404);
    assert_eq!(get(target, &old).json(), before);

    let mut after = rename(&old, &new, "?force=true").expect_status(200).json();
    assert_eq!(get(target, &new).json(), after);
    problem(&get(target, &old), 404);
    for field in ["dataName", "createdAt", "updatedAt"] {
        after[field] = before[field].clone();
    }
    assert_eq!(after, before, "the same but for its name");
    let complete = target.registry.get("/api/secrets").expect_status(200).json();
    let complete = complete.as_array().unwrap().iter().find(|one| one["dataName"] == *new).unwrap();
    assert_eq!(complete["env"]["TOKEN"], "hush");
    assert_eq!(column(&trail(target, &old), "action"), ["deleted", "created"]);
    assert_eq!(column(&trail(target, &new), "action"), ["created"]);
}

fn a_paused_registration_is_placed_nowhere(target: &Target) {
    let name = target.name("paused");
    let mut body = simple(&name);
    body["paused"] = json!(true);
    assert_eq!(target.register(&body).json()["paused"], true);
    let placed = target.manager.send_json("POST", "/api/mng", &body).expect_status(200).json();
    assert_eq!(placed["nodes"], json!([]));
    let resumed = patch(target, &name, &json!({"paused": null})).expect_status(200).json();
    assert_eq!(resumed.get("paused"), None);
    assert_eq!(resumed["version"], 2);
}
