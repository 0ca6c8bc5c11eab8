//! Facts parsed from values, and the errors for values that cannot be parsed.
#![allow(clippy::unwrap_used)]

use estimand_api::names::NodeName;
use serde_json::{Value as Json, json};

use super::*;

fn value(name: &str, node: &str, data: impl Into<Json>, state: &str) -> Value {
    let at = "2026-11-21T12:00:00.000000Z";
    serde_json::from_value(json!({
        "dataName": name, "nodeName": NodeName::parse(node).unwrap(), "dataValue": data.into(), "collectedAt": at,
        "receivedAt": at, "validFor": null, "state": state, "revision": 7,
    }))
    .unwrap()
}

fn names() -> Names {
    Names::new(None, None, None).unwrap()
}

#[test]
fn all_facts_of_all_nodes_are_read() {
    let values = [
        value("data_distribution", "b", json!(["2", "1", "2"]), "fresh"),
        value("data_distribution", "a", json!({ "items": ["2"], "path": "/x" }), "node-lost"),
        value("data_load", "b", json!(2), "fresh"),
        value("node_capability", "b", json!({ "value": 3.5, "spread": 0.5, "samples": 9 }), "stale"),
        value("node_capability", "a", json!(4), "fresh"),
        value("node_capability", "c", json!(0), "failed"),
        value("another", "d", json!("nonsense"), "fresh"),
    ];
    let facts = Facts::of(&values, 12, &names()).unwrap();
    assert_eq!(facts.revision, 12);
    let item = |name: &str, on: &[&str]| Item {
        name: name.to_owned(),
        on: on.iter().map(|node| (*node).to_owned()).collect(),
    };
    assert_eq!(facts.items, [item("1", &["b"]), item("2", &["a", "b"])]);
    let seen: Vec<_> = facts
        .nodes
        .iter()
        .map(|node| (node.name.as_str(), node.load, node.capability.map(|of| of.value), node.state))
        .collect();
    assert_eq!(
        seen,
        [
            ("a", None, Some(4.0), State::NodeLost),
            ("b", Some(2.0), Some(3.5), State::Stale),
            ("c", None, Some(0.0), State::Failed),
        ]
    );
    let estimate = facts.node("b").unwrap().capability.unwrap();
    assert_eq!((estimate.spread, estimate.samples), (0.5, Some(9)));
}

#[test]
fn other_names_are_read_if_they_are_given() {
    let names = Names::new(Some("files"), None, Some("speed")).unwrap();
    let values = [value("files", "n", json!([]), "fresh"), value("speed", "n", json!(1), "fresh")];
    assert_eq!(Facts::of(&values, 1, &names).unwrap().nodes.len(), 1);
}

#[track_caller]
fn refused(values: &[Value], expected: &str) {
    assert_eq!(Facts::of(values, 1, &names()).unwrap_err().to_string(), expected);
}

#[test]
fn missing_values_are_named_with_a_remedy() {
    let held = value("data_distribution", "n", json!(["a"]), "fresh");
    refused(
        &[],
        "`data_distribution` has no values, so it is unknown which items each node holds; register a collector for it, \
         or bind the name to it with `estimand bind data_distribution …`",
    );
    refused(
        &[held],
        "`node_capability` has no values, so the capability of each node is unknown; \
         bind it to an estimate with `estimand bind node_capability …`",
    );
}

#[test]
fn an_invalid_value_is_quoted_with_the_expected_form() {
    let held = value("data_distribution", "n", json!(["a"]), "fresh");
    let held_wrong = |data: Json| value("data_distribution", "n", data, "fresh");
    let able = value("node_capability", "n", json!(1), "fresh");
    let able_wrong = |data: Json| value("node_capability", "n", data, "fresh");
    let list = r#"expected the names of the items it holds: ["a",…] or {"items":["a",…]}"#;
    refused(&[held_wrong(json!(5)), able.clone()], &format!("`data_distribution` of node n is 5; {list}"));
    refused(
        &[held_wrong(json!({ "items": ["a", 1] })), able.clone()],
        &format!("`data_distribution` of node n is 1; {list}"),
    );
    let long = json!("x".repeat(500));
    let shown = format!("\"{}…", "x".repeat(79));
    refused(&[held_wrong(long), able.clone()], &format!("`data_distribution` of node n is {shown}; {list}"));
    let number = r#"expected a number, 0 or more, or {"value":…,"spread":…,"samples":…} of such numbers"#;
    for (data, given) in [
        (json!("fast"), "\"fast\""),
        (json!(-1), "-1"),
        (json!({ "speed": 1 }), r#"{"speed":1}"#),
        (json!({ "value": 1, "spread": "wide" }), "\"wide\""),
        (json!(null), "null"),
    ] {
        refused(
            &[held.clone(), able_wrong(data)],
            &format!("`node_capability` of node n is {given}; {number}"),
        );
    }
    refused(
        &[held, able, value("data_load", "n", json!([]), "fresh")],
        "`data_load` of node n is []; expected a number, 0 or more",
    );
}
