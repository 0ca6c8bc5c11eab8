//! Registrations that are wrong: each field has its rule, and the answer says which one was broken how.

use serde_json::{Value, json};

use crate::answers::{column, problem, wrong_field, wrong_input};
use crate::target::Target;

on_every_target!(
    an_interval_is_a_positive_number,
    when_it_runs_is_said_once,
    a_gap_and_a_phase_go_with_what_they_can,
    a_calendar_must_have_a_day,
    a_command_must_be_runnable,
    names_are_checked,
    an_unknown_field_is_named,
    optional_fields_are_checked,
    all_that_is_wrong_is_said_at_once,
    fields_that_the_registry_sets_are_refused,
    too_large_a_registration_is_refused,
);

/// A registration that would be right but for these changes; null removes a field.
fn register(target: &Target, changes: &Value) -> estimand_testkit::http::Response {
    let mut body = json!({"dataName": "bad_registration", "cmd": "true", "max-Time": 5});
    let map = body.as_object_mut().unwrap();
    map.extend(changes.as_object().unwrap().clone());
    map.retain(|_, value| !value.is_null());
    let answer = target.registry.send_json("POST", "/api/registry", &body);
    problem(&target.registry.get("/api/registry/bad_registration"), 404);
    answer
}

fn an_interval_is_a_positive_number(target: &Target) {
    for (interval, given) in [
        (json!(0), "0"),
        (json!(-5), "-5"),
        (json!(-0.0), "-0"),
        (json!(1e300), "1e"),
        (json!(0.009), "0.009"),
        (json!(31_622_401), "31622401"),
        (json!("5"), "5"),
        (json!("NaN"), "NaN"),
        (json!([5]), "5"),
        (json!(true), "true"),
    ] {
        wrong_input(&register(target, &json!({"max-Time": interval})), "max-Time", given, "seconds");
    }
    for not_json in ["NaN", "Infinity", "0x5", "05", "5."] {
        let body = format!("{{\"dataName\":\"bad_registration\",\"cmd\":\"true\",\"max-Time\":{not_json}}}");
        let error =
            wrong_field(&target.registry.request("POST", "/api/registry", &[], body.as_bytes()), "body");
        assert!(error["message"].as_str().unwrap().contains("not JSON"), "{error}");
    }
    // Beyond what a double holds, though its syntax is right.
    let body = "{\"dataName\":\"bad_registration\",\"cmd\":\"true\",\"max-Time\":1e999}";
    problem(&target.registry.request("POST", "/api/registry", &[], body.as_bytes()), 400);
}

fn when_it_runs_is_said_once(target: &Target) {
    let both = wrong_field(&register(target, &json!({"schedule": "* * * * *"})), "schedule");
    assert!(both["message"].as_str().unwrap().contains("max-Time"), "{both}");
    let neither = wrong_field(&register(target, &json!({"max-Time": null})), "max-Time");
    assert!(neither["expected"].as_str().unwrap().contains("schedule"), "{neither}");
    let stream = json!({"max-Time": null, "schedule": "* * * * *", "mode": "stream"});
    wrong_field(&register(target, &stream), "schedule");
}

fn a_gap_and_a_phase_go_with_what_they_can(target: &Target) {
    let gap = |changes: &Value| {
        let mut all = json!({"max-Time": null, "gap": 5});
        all.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        register(target, &all)
    };
    for given in [json!(0), json!(-1), json!(0.001), json!(1e300), json!("soon"), json!(true), json!([1])] {
        let error = wrong_field(&gap(&json!({"gap": given})), "gap");
        assert!(error["expected"].as_str().unwrap().contains("seconds"), "{given}: {error}");
    }
    let both = wrong_field(&register(target, &json!({"gap": 5})), "gap");
    assert!(both["message"].as_str().unwrap().contains("max-Time"), "{both}");
    let both = wrong_field(&gap(&json!({"schedule": "* * * * *"})), "schedule");
    assert!(both["message"].as_str().unwrap().contains("gap"), "{both}");
    // A stream never ends, so that nothing can begin after its end.
    wrong_field(&gap(&json!({"mode": "stream"})), "gap");
    for phase in [json!("random"), json!(""), json!(1), json!(["aligned"])] {
        let error = wrong_field(&register(target, &json!({"phase": phase})), "phase");
        assert!(error["expected"].as_str().unwrap().contains("aligned"), "{phase}: {error}");
    }
    wrong_field(&gap(&json!({"phase": "aligned"})), "phase");
    let calendar = json!({"max-Time": null, "schedule": "* * * * *", "phase": "aligned"});
    wrong_field(&register(target, &calendar), "phase");
}

fn a_calendar_must_have_a_day(target: &Target) {
    for schedule in [
        "0 0 31 2 *",
        "0 0 30 2 *",
        "0 0 31 4,6,9,11 *",
        "",
        "* * * *",
        "* * * * * * * *",
        "61 * * * *",
        "* * * * mon-nonday",
        "every minute",
        "TZ=Nowhere/Land * * * * *",
        "*/0 * * * *",
    ] {
        let error =
            wrong_field(&register(target, &json!({"max-Time": null, "schedule": schedule})), "schedule");
        assert!(error["expected"].as_str().is_some_and(|text| text.contains("cron")), "{schedule}: {error}");
    }
    let never =
        wrong_field(&register(target, &json!({"max-Time": null, "schedule": "0 0 31 2 *"})), "schedule");
    assert!(never["message"].as_str().unwrap().contains("never"), "{never}");
    wrong_field(&register(target, &json!({"max-Time": null, "schedule": 5})), "schedule");
}

fn a_command_must_be_runnable(target: &Target) {
    for (cmd, says) in [
        (json!(""), "empty"),
        (json!("  "), "empty"),
        (json!([]), "empty"),
        (json!("'' a"), "first word"),
        (json!("echo 'open"), "quote"),
        (json!("a\u{0}b"), "NUL"),
        (json!(7), "a number"),
        (json!(["a", 7]), "word 2"),
        (json!("x".repeat(4097)), "4096"),
    ] {
        let error = wrong_field(&register(target, &json!({"cmd": cmd})), "cmd");
        assert!(error["message"].as_str().unwrap().contains(says), "{cmd}: {error}");
        assert!(error["given"].is_string() && error["expected"].is_string(), "{error}");
    }
    wrong_field(&register(target, &json!({"cmd": null})), "cmd");
}

fn names_are_checked(target: &Target) {
    for name in ["", "a b", "1a", "a/b", "grüße", "*"] {
        wrong_input(&register(target, &json!({"dataName": name})), "dataName", name, "letter");
    }
    wrong_field(&register(target, &json!({"dataName": null})), "dataName");
    for method in ["GET", "DELETE"] {
        for path in
            ["/api/registry/a%20b", "/api/registry/gr%C3%BC%C3%9Fe", "/api/registry/1a", "/api/registry/%2A"]
        {
            wrong_field(&target.registry.request(method, path, &[], b""), "dataName");
        }
    }
    wrong_field(&target.registry.get("/api/registry/a%20b/history"), "dataName");
}

fn an_unknown_field_is_named(target: &Target) {
    wrong_input(&register(target, &json!({"max-time": 5})), "max-time", "5", "`max-Time`?");
    wrong_input(&register(target, &json!({"maxTime": 5})), "maxTime", "5", "`max-Time`?");
    wrong_input(&register(target, &json!({"replica": 2})), "replica", "2", "`replicas`?");
    wrong_input(&register(target, &json!({"completely": "else"})), "completely", "else", "schedule");
    wrong_input(&register(target, &json!({"limits": {"ram": 1}})), "limits.ram", "1", "memory");
    wrong_input(&register(target, &json!({"history": {"most": 1}})), "history.most", "1", "max");
}

fn optional_fields_are_checked(target: &Target) {
    for (changes, field) in [
        (json!({"kind": "collectors"}), "kind"),
        (json!({"mode": "shell"}), "mode"),
        (json!({"format": "xml"}), "format"),
        (json!({"timeout": 0}), "timeout"),
        (json!({"timeout": -1}), "timeout"),
        (json!({"timeout": "long"}), "timeout"),
        (json!({"nodes": "zone=a,,"}), "nodes"),
        (json!({"nodes": 7}), "nodes"),
        (json!({"replicas": 0}), "replicas"),
        (json!({"replicas": "some"}), "replicas"),
        (json!({"replicas": 1.5}), "replicas"),
        (json!({"inputs": ["a"]}), "inputs"),
        (json!({"kind": "processor", "inputs": "a"}), "inputs"),
        (json!({"kind": "processor", "inputs": ["a", "a"]}), "inputs"),
        (json!({"kind": "processor", "inputs": ["a b"]}), "inputs"),
        (json!({"kind": "processor", "inputs": ["bad_registration"]}), "inputs"),
        (json!({"params": {"a b": 1}}), "params"),
        (json!({"params": {"a": []}}), "params"),
        (json!({"params": {"a": 1, "A": 2}}), "params"),
        (json!({"env": {"ESTIMAND_X": "1"}}), "env"),
        (json!({"env": {"A": 1}}), "env"),
        (json!({"env": {"A": "\u{0}"}}), "env"),
        (json!({"history": {}}), "history.keep"),
        (json!({"history": {"max": 0}}), "history.max"),
        (json!({"history": {"keep": "0s"}}), "history.keep"),
        (json!({"limits": {"memory": "lots"}}), "limits.memory"),
        (json!({"limits": {"memory": 1}}), "limits.memory"),
        (json!({"limits": {"cpu": 0}}), "limits.cpu"),
        (json!({"limits": {"processes": 0}}), "limits.processes"),
        (json!({"limits": []}), "limits"),
    ] {
        let error = wrong_field(&register(target, &changes), field);
        let message = error["message"].as_str().unwrap();
        assert!(!message.is_empty(), "{changes}: {error}");
    }
}

fn all_that_is_wrong_is_said_at_once(target: &Target) {
    let body = json!({"cmd": 7, "max-Time": 0, "kind": "x", "extra": 1});
    let refused = problem(&target.registry.send_json("POST", "/api/registry", &body), 400);
    let mut fields = column(refused["errors"].as_array().unwrap(), "field");
    fields.sort();
    assert_eq!(fields, ["cmd", "dataName", "extra", "kind", "max-Time"]);
}

fn fields_that_the_registry_sets_are_refused(target: &Target) {
    for (field, value) in [("version", json!(1)), ("createdAt", json!("2026-01-01T00:00:00Z"))] {
        let error = wrong_field(&register(target, &json!({field: value})), field);
        assert!(error["expected"].as_str().unwrap().contains("PUT"), "{error}");
    }
}

fn too_large_a_registration_is_refused(target: &Target) {
    let refused = problem(&register(target, &json!({"params": {"a": "x".repeat(70_000)}})), 413);
    assert!(refused["detail"].as_str().unwrap().contains("65536"), "{refused}");
}
