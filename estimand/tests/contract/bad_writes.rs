//! Writes that are wrong: every wrong field is named, with what was given and what would be right, and nothing
//! is written.

use serde_json::{Value, json};

use crate::answers::{column, problem, wrong_field, wrong_input};
use crate::target::Target;

on_every_target!(
    each_wrong_field_of_a_write_is_named,
    all_that_is_wrong_is_said_at_once,
    names_outside_the_alphabet_are_refused,
    too_large_a_value_is_refused,
    a_failure_is_no_value,
    a_wrong_state_of_a_node_is_refused,
);

fn write(target: &Target, changes: &Value) -> estimand_testkit::http::Response {
    let mut body = json!({"dataName": "bad_write", "nodeName": "n", "dataValue": 1});
    for (field, value) in changes.as_object().unwrap() {
        body[field] = value.clone();
    }
    target.data.send_json("PUT", "/api/data", &body)
}

fn each_wrong_field_of_a_write_is_named(target: &Target) {
    let check = |changes: Value, field: &str, given: &str, expected: &str| {
        wrong_input(&write(target, &changes), field, given, expected);
    };
    check(json!({"dataname": "x"}), "dataname", "x", "`dataName`?");
    check(json!({"ttl": 5}), "ttl", "5", "validFor");
    check(json!({"dataName": 7}), "dataName", "7", "letter");
    check(json!({"nodeName": null}), "nodeName", "null", "letters");
    check(json!({"nodeName": ["n"]}), "nodeName", "n", "letters");
    for valid_for in [json!(0), json!(-1), json!("0s"), json!("soon"), json!(1e300), json!([]), json!("5 s")]
    {
        let given = valid_for.as_str().map_or(valid_for.to_string(), str::to_owned);
        check(json!({"validFor": valid_for}), "validFor", &given[..1], "more than 0");
    }
    for collected_at in
        [json!("now"), json!(""), json!(7), json!("2026-13-01T00:00:00Z"), json!("2026-01-01")]
    {
        let answer = write(target, &json!({"collectedAt": collected_at}));
        let error = wrong_field(&answer, "collectedAt");
        assert!(
            error["expected"].as_str().is_some_and(|text| text.contains("2026-01-31T23:59:59Z")),
            "{error}"
        );
    }
    check(json!({"epoch": -1, "sequence": 1}), "epoch", "-1", "whole number");
    check(json!({"epoch": 1, "sequence": 1.5}), "sequence", "1.5", "whole number");
    check(json!({"epoch": 1, "sequence": u64::MAX}), "sequence", "18446744073709551615", "whole number");
    wrong_field(&write(target, &json!({"epoch": 1})), "epoch");
    wrong_field(&write(target, &json!({"sequence": 1})), "epoch");
    check(json!({"provenance": []}), "provenance", "[]", "object");
    wrong_field(&write(target, &json!({"provenance": {"x": "y".repeat(20_000)}})), "provenance");
    check(json!({"state": "stale"}), "state", "stale", "failed");
    assert_eq!(target.values("dataName=bad_write"), Vec::<Value>::new());
}

fn all_that_is_wrong_is_said_at_once(target: &Target) {
    let body = json!({"nodeName": "no node", "validFor": -1, "extra": true});
    let refused = problem(&target.data.send_json("POST", "/api/data", &body), 400);
    let mut fields = column(refused["errors"].as_array().unwrap(), "field");
    fields.sort();
    assert_eq!(fields, ["dataName", "dataValue", "extra", "nodeName", "validFor"]);
    assert!(refused["detail"].as_str().unwrap().contains("4 more"), "{refused}");
}

fn names_outside_the_alphabet_are_refused(target: &Target) {
    let long_name = "a".repeat(129);
    for name in ["", " a", "a b", "1a", "-a", "a/b", "a,b", "*", "grüße", "a\u{0}", "a\n", "ａ", &long_name]
    {
        let error = wrong_field(&write(target, &json!({"dataName": name})), "dataName");
        assert!(error["expected"].as_str().is_some_and(|text| text.contains("letter")), "{name:?}: {error}");
    }
    let long_node = "n".repeat(254);
    for node in ["", "a b", "a/b", "a:b", "nörd", "🦀", "a\u{0}", &long_node] {
        let error = wrong_field(&write(target, &json!({"nodeName": node})), "nodeName");
        assert!(error["expected"].as_str().is_some_and(|text| text.contains("letters")), "{node:?}: {error}");
    }
    // The longest that are right, as long as the columns are wide.
    let (name, node) = (format!("{}{}", "a".repeat(118), target.name("_")), "n".repeat(253));
    assert!(name.len() <= 128);
    target.write(&name, &node, 1);
    assert_eq!(target.one(&name, &node)["dataValue"], 1);
    // Names differ in case, and a trailing dot or dash counts, in memory as in the database.
    let base = target.name("Case");
    for name in [base.clone(), base.to_lowercase(), format!("{base}."), format!("{base}-")] {
        assert_eq!(target.write(&name, "n", 1)["outcome"], "created", "{name}");
    }
    for node in ["N", "n.", "n-", "n_"] {
        assert_eq!(target.write(&base, node, 1)["outcome"], "created", "{node}");
    }
}

fn too_large_a_value_is_refused(target: &Target) {
    let name = target.name("large");
    let of_bytes = |bytes: usize| json!({"dataName": name, "dataValue": "x".repeat(bytes - 2)});
    let refused = problem(&write(target, &of_bytes(64 * 1024 + 1)), 413);
    let detail = refused["detail"].as_str().unwrap();
    assert!(detail.contains("65537") && detail.contains("65536"), "{detail}");
    assert_eq!(target.values(&format!("dataName={name}")), Vec::<Value>::new());
    write(target, &of_bytes(64 * 1024)).expect_status(201);
    assert_eq!(target.one(&name, "n")["dataValue"].as_str().unwrap().len(), 64 * 1024 - 2);
}

fn a_failure_is_no_value(target: &Target) {
    let fail = |changes: Value| {
        let mut body = json!({"dataName": "bad_write", "nodeName": "n", "state": "failed"});
        body.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        target.data.send_json("POST", "/api/data", &body)
    };
    for changes in [json!({"dataValue": 1}), json!({"validFor": 5}), json!({"provenance": {}})] {
        let error = wrong_field(&fail(changes), "state");
        assert!(error["message"].as_str().unwrap().contains("last good value"), "{error}");
    }
    fail(json!({})).expect_status(200);
}

fn a_wrong_state_of_a_node_is_refused(target: &Target) {
    let put = |body: Value| target.data.send_json("PUT", "/api/data/state", &body);
    wrong_field(&put(json!({"state": "fresh"})), "nodeName");
    wrong_field(&put(json!({"nodeName": "n"})), "state");
    wrong_input(&put(json!({"nodeName": "n", "state": "stale"})), "state", "stale", "node-lost");
    wrong_input(&put(json!({"nodeName": "n m", "state": "fresh"})), "nodeName", "n m", "letters");
    wrong_input(&put(json!({"nodeName": "n", "state": "fresh", "why": 1})), "why", "1", "nodeName");
}
