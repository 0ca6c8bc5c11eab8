//! Reads: one value, the values of a name, of several names from one revision, of all; and how a reader
//! chooses among them.

use std::collections::BTreeSet;
use std::thread;

use serde_json::{Value, json};

use crate::answers::{column, fields_of, problem, revision_of};
use crate::target::Target;

on_every_target!(
    a_value_has_the_promised_shape,
    any_json_comes_back_to_the_letter,
    text_is_just_the_value,
    values_come_in_the_order_of_their_nodes,
    both_spellings_of_a_node_are_taken,
    several_names_come_in_the_order_asked,
    all_names_are_asked_for_with_a_star,
    several_names_are_one_snapshot,
    revisions_only_grow,
    max_age_is_the_readers_choice,
    provenance_explains_a_value,
    names_may_be_percent_encoded,
);

fn a_value_has_the_promised_shape(target: &Target) {
    let name = target.name("shape");
    let write = json!({
        "dataName": name, "nodeName": "n1", "dataValue": {"free": [1, 2]},
        "collectedAt": "2026-01-31T23:59:59.25+01:00", "validFor": "1m30s",
    });
    let written = target.put(&write);
    assert_eq!(written["outcome"], "created");
    let value = target.one(&name, "n1");
    let expected =
        ["dataName", "nodeName", "dataValue", "collectedAt", "receivedAt", "validFor", "state", "revision"];
    assert_eq!(fields_of(&value), expected.into());
    assert_eq!(value["collectedAt"], "2026-01-31T22:59:59.250000Z");
    assert_eq!(value["validFor"], 90);
    assert_eq!(value["dataValue"], json!({"free": [1, 2]}));
    assert_eq!(value["revision"], written["revision"]);
    assert!(value["receivedAt"].as_str().unwrap() > "2026-01-31T22:59:59.250000Z", "{value}");

    let plain = target.name("shape");
    target.write(&plain, "n1", 1);
    let value = target.one(&plain, "n1");
    assert_eq!((&value["validFor"], &value["state"]), (&Value::Null, &json!("fresh")));
    assert_eq!(value["collectedAt"], value["receivedAt"], "without a time it is when it arrived");
    assert_eq!(target.query(&format!("dataName={plain}")), [value]);
}

fn any_json_comes_back_to_the_letter(target: &Target) {
    let name = target.name("letter");
    let texts = [
        "null",
        "true",
        "0",
        "-0.0",
        "1e308",
        "12345678901234567890123.10",
        "\"\"",
        "\"\\u0000\\ud83e\\udd80\"",
        "\"grüße 🦀\"",
        "[]",
        "{}",
        "[[[{\"\":[]}]]]",
        "{\"z\":1,\"a\":2}",
    ];
    for text in texts {
        let body = format!("{{\"dataName\":\"{name}\",\"nodeName\":\"n\",\"dataValue\": {text} }}");
        target.data.request("PUT", "/api/data", &[], body.as_bytes());
        let answer = target.data.get(&format!("/api/data/{name}/n")).expect_status(200);
        assert!(answer.text().contains(&format!("\"dataValue\":{text},\"collectedAt\"")), "{text}: {answer}");
    }
}

fn text_is_just_the_value(target: &Target) {
    let name = target.name("text");
    let text = |accept: &str| {
        let path = format!("/api/data/{name}/n");
        let answer = target.data.request("GET", &path, &[("Accept", accept)], b"").expect_status(200);
        (answer.header("content-type").unwrap().to_owned(), answer.text().to_owned())
    };
    for (value, expected) in [
        (json!("a \"b\"\nü"), "a \"b\"\nü"),
        (json!(0.25), "0.25"),
        (json!(null), "null"),
        (json!({"a": [1]}), "{\"a\":[1]}"),
    ] {
        target.write(&name, "n", value);
        let (kind, body) = text("text/plain");
        assert_eq!(body, expected);
        assert!(kind.starts_with("text/plain"), "{kind}");
    }
    assert_eq!(text("application/json").0, "application/json");
    assert_eq!(text("*/*").0, "application/json");
    let path = format!("/api/data/{name}/other");
    let answer = target.data.request("GET", &path, &[("Accept", "text/plain")], b"");
    problem(&answer, 404);
}

fn values_come_in_the_order_of_their_nodes(target: &Target) {
    let name = target.name("sorted");
    for node in ["n2", "N1", "n10", "n1", "a.b-c_d"] {
        target.write(&name, node, node);
    }
    let values = target.query(&format!("dataName={name}"));
    assert_eq!(column(&values, "nodeName"), ["N1", "a.b-c_d", "n1", "n10", "n2"]);
}

fn both_spellings_of_a_node_are_taken(target: &Target) {
    let name = target.name("spelling");
    target.write(&name, "n1", 1);
    target.write(&name, "n2", 2);
    let of_node = target.query(&format!("dataName={name}&dataNode=n2"));
    assert_eq!(target.query(&format!("dataName={name}&nodeName=n2")), of_node);
    assert_eq!(target.query(&format!("nodeName=n2&dataName={name}")), of_node);
    assert_eq!(of_node[0]["dataValue"], 2);
    target.delete(&format!("dataName={name}&nodeName=n2"));
    assert_eq!(target.values(&format!("dataName={name}")), [1]);
}

fn several_names_come_in_the_order_asked(target: &Target) {
    let (one, two, none) = (target.name("several"), target.name("several"), target.name("several"));
    for (name, node) in [(&one, "n1"), (&one, "n2"), (&two, "n1")] {
        target.write(name, node, format!("{name} {node}"));
    }
    let asked = target.query(&format!("dataName={two},{none},{one},{two}"));
    assert_eq!(column(&asked, "dataName"), [&*two, &*one, &*one], "each once, in the order given");
    let of_node = target.query(&format!("dataName={one},{two}&dataNode=n1"));
    assert_eq!(column(&of_node, "nodeName"), ["n1", "n1"]);
}

fn all_names_are_asked_for_with_a_star(target: &Target) {
    let (name, node) = (target.name("star"), target.name("node"));
    target.write(&name, &node, 1);
    let found = |query: &str| column(&target.query(query), "dataName").contains(&name);
    assert!(found("dataName=*"));
    assert!(found("dataName=%2A"), "a client may encode the star");
    assert_eq!(target.values(&format!("dataName=*&dataNode={node}")), [1]);
    target.delete(&format!("dataName={name}"));
    assert!(!found("dataName=*"));
}

fn several_names_are_one_snapshot(target: &Target) {
    let (one, two) = (target.name("together"), target.name("together"));
    let batch = |counter: u32| {
        let item = |name: &str, node: &str| json!({"dataName": name, "nodeName": node, "dataValue": counter});
        json!([item(&one, "n1"), item(&two, "n1"), item(&one, "n2"), item(&two, "n2")])
    };
    target.data.send_json("POST", "/api/data/batch", &batch(0)).expect_status(200);
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for counter in 1..=150 {
                target.data.send_json("POST", "/api/data/batch", &batch(counter)).expect_status(200);
            }
        });
        let mut seen = BTreeSet::new();
        while !writer.is_finished() {
            for query in [format!("dataName={one},{two}"), format!("dataName={one}")] {
                let values = target.values(&query);
                assert!(values.iter().all(|value| *value == values[0]), "half a batch: {values:?}");
                seen.insert(values[0].as_u64());
            }
        }
        assert!(seen.len() > 1, "no change was seen, so nothing was shown");
    });
}

fn revisions_only_grow(target: &Target) {
    let name = target.name("revision");
    let empty = target.data.get(&format!("/api/data?dataName={name}")).expect_status(200);
    let mut last = revision_of(&empty);
    for value in 0..5 {
        let written = target.write(&name, "n", value)["revision"].as_u64().unwrap();
        assert!(written > last, "{written} after {last}");
        for path in [
            format!("/api/data?dataName={name}"),
            format!("/api/data/{name}/n"),
            "/api/data?dataName=*".into(),
        ] {
            assert!(
                revision_of(&target.data.get(&path)) >= written,
                "an acknowledged write is visible: {path}"
            );
        }
        assert_eq!(target.one(&name, "n")["revision"], written);
        last = written;
    }
    let deleted = target.delete(&format!("dataName={name}"));
    assert!(deleted["revision"].as_u64().unwrap() > last);
}

fn max_age_is_the_readers_choice(target: &Target) {
    let (old, new) = (target.name("age"), target.name("age"));
    target.put(&json!({
        "dataName": old, "nodeName": "n", "dataValue": 1, "collectedAt": "2026-01-01T00:00:00Z",
    }));
    target.write(&new, "n", 2);
    let both = |rest: &str| target.values(&format!("dataName={old},{new}{rest}"));
    assert_eq!(both(""), [1, 2], "without a say everything comes");
    assert_eq!(both("&maxAge=1h"), [2]);
    assert_eq!(both("&maxAge=3600"), [2]);
    assert_eq!(both("&maxAge=36500d"), [1, 2]);
    assert_eq!(target.values(&format!("dataName={old}&maxAge=1h")), Vec::<Value>::new());
    target.data.get(&format!("/api/data/{new}/n?maxAge=1h")).expect_status(200);
    let refused = problem(&target.data.get(&format!("/api/data/{old}/n?maxAge=1h")), 404);
    assert_eq!(refused["type"], "not-as-asked");
    assert!(refused["detail"].as_str().unwrap().contains("2026-01-01"), "{refused}");
}

fn provenance_explains_a_value(target: &Target) {
    let name = target.name("explain");
    let provenance =
        json!({"registration": name, "version": 3, "run": {"exit": 0}, "read": [{"revision": 7}]});
    target.put(&json!({"dataName": name, "nodeName": "n", "dataValue": 0.42, "provenance": provenance}));
    let explained =
        |rest: &str| target.data.get(&format!("/api/data/{name}/n?{rest}")).expect_status(200).json();
    assert_eq!(explained("explain=1")["provenance"], provenance);
    assert_eq!(explained("explain=1")["dataValue"], 0.42);
    assert_eq!(explained("explain=0").get("provenance"), None);
    assert_eq!(target.one(&name, "n").get("provenance"), None, "only who asks is told");

    target.write(&name, "n", 0.43);
    assert_eq!(explained("explain=1").get("provenance"), Some(&Value::Null), "a plain write has none");
}

fn names_may_be_percent_encoded(target: &Target) {
    let name = target.name("enc:od.ed-");
    target.write(&name, "n-1.x", 1);
    let encoded: String = name.bytes().map(|byte| format!("%{byte:02X}")).collect();
    assert_eq!(target.values(&format!("dataName={encoded}&dataNode=n%2D1%2Ex")), [1]);
    assert_eq!(target.one(&encoded, "n%2d1%2ex")["dataValue"], 1);
    assert_eq!(target.one(&name, "n-1.x/")["dataValue"], 1, "a slash at the end is accepted");
}
