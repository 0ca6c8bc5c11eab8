//! Fields: a part of a value, wherever values are read.

use estimand_testkit::http::{EventReader, Response};
use estimand_testkit::wait::PATIENCE;
use serde_json::{Value, json};

use crate::answers::{column, problem, wrong_input};
use crate::target::Target;

on_every_target!(
    a_part_of_a_value_is_read_on_its_own,
    values_without_the_part_are_left_out,
    a_missing_part_is_answered_with_what_there_is,
    a_malformed_pointer_is_refused_everywhere,
    a_part_of_the_past_is_read,
    a_part_of_each_value_is_watched,
    one_node_is_watched,
);

fn get(target: &Target, name: &str, node: &str, query: &str) -> Response {
    target.data.get(&format!("/api/data/{name}/{node}?{query}"))
}

/// The body as it came, which is to the letter.
fn raw(target: &Target, path: &str) -> String {
    target.data.get(path).expect_status(200).text().to_owned()
}

/// Writes a value as it stands here.
fn write_text(target: &Target, name: &str, node: &str, value: &str) {
    let body = format!(r#"{{"dataName":"{name}","nodeName":"{node}","dataValue":{value}}}"#);
    let answer = target.data.request("PUT", "/api/data", &[], body.as_bytes());
    assert!(matches!(answer.status, 200 | 201), "{answer}");
}

fn a_part_of_a_value_is_read_on_its_own(target: &Target) {
    let name = target.name("part");
    let text = r#"{"value":0.10,"a/b":[1,{"c~":12345678901234567890.0}],"word":"x \"y\"","none":null}"#;
    write_text(target, &name, "n", text);
    let whole = raw(target, &format!("/api/data/{name}/n"));
    for (pointer, part) in [
        ("/value", "0.10"),
        ("/a~1b/1/c~0", "12345678901234567890.0"),
        ("/a~1b/0", "1"),
        ("/a~1b", r#"[1,{"c~":12345678901234567890.0}]"#),
        ("/word", r#""x \"y\"""#),
        ("/none", "null"),
    ] {
        let expected = whole.replace(text, part);
        assert_eq!(raw(target, &format!("/api/data/{name}/n?field={pointer}")), expected, "{pointer}");
        assert_eq!(
            raw(target, &format!("/api/data?dataName={name}&field={pointer}")),
            format!("[{expected}]")
        );
        let of_node = format!("/api/data?dataName={name}&dataNode=n&field={pointer}");
        assert_eq!(raw(target, &of_node), format!("[{expected}]"));
    }
    let plain = |query: &str| {
        let path = format!("/api/data/{name}/n?{query}");
        target
            .data
            .request("GET", &path, &[("Accept", "text/plain")], b"")
            .expect_status(200)
            .text()
            .to_owned()
    };
    assert_eq!(plain("field=/value"), "0.10");
    assert_eq!(plain("field=/word"), "x \"y\"");
    assert_eq!(plain("field=%2Fa~1b%2F0"), "1", "a pointer may be encoded");
    let explained = get(target, &name, "n", "explain=1&field=/value").expect_status(200).json();
    assert_eq!((&explained["dataValue"], &explained["provenance"]), (&json!(0.1), &Value::Null));
}

fn values_without_the_part_are_left_out(target: &Target) {
    let (name, other) = (target.name("part"), target.name("part"));
    target.write(&name, "n1", json!({"value": 1}));
    target.write(&name, "n2", json!({"other": 2}));
    target.write(&name, "n3", 3);
    target.put(&json!({"dataName": other, "nodeName": "n4", "dataValue": {"value": 4}}));
    target.put(&json!({"dataName": other, "nodeName": "n4", "state": "failed"}));
    let names = format!("dataName={name},{other}");
    assert_eq!(target.values(&format!("{names}&field=/value")), [1, 4]);
    assert_eq!(target.values(&format!("{names}&field=/value&state=fresh")), [1]);
    assert_eq!(target.values(&format!("{names}&field=/value&dataNode=n4")), [4]);
    assert_eq!(target.values(&format!("{names}&field=/value&dataNode=n3")), Vec::<Value>::new());
    assert_eq!(target.values(&format!("{names}&field=/nothing")), Vec::<Value>::new());
    let shown = target.query("dataName=*&field=/value");
    assert!(column(&shown, "dataName").contains(&other), "{shown:?}");
    assert_eq!(target.values(&names).len(), 4, "without a field everything is there");
}

fn a_missing_part_is_answered_with_what_there_is(target: &Target) {
    let name = target.name("part");
    target.write(&name, "n", json!({"value": 1, "a/b": [1, 2], "deep": {"x": 1}}));
    target.write(&name, "m", 7);
    let missing = |node: &str, pointer: &str| {
        let answer = problem(&get(target, &name, node, &format!("field={pointer}")), 404);
        assert_eq!(answer["type"], "no-such-field", "{answer}");
        assert_eq!(answer["errors"][0]["field"], "field", "{answer}");
        answer["detail"].as_str().unwrap().to_owned()
    };
    let said = missing("n", "/valu");
    for there in ["`/valu`", "`/value`", "`/a~1b`", "`/deep`", &name] {
        assert!(said.contains(there), "{said}");
    }
    assert!(missing("n", "/deep/y").contains("`/deep/x`"));
    assert!(missing("n", "/a~1b/2").contains("`/a~1b/1`"));
    assert!(missing("m", "/value").contains("nothing"));
    let gone = problem(&get(target, &name, "nowhere", "field=/value"), 404);
    assert_eq!(gone["type"], "not-found", "that there is no value is something else");
}

fn a_malformed_pointer_is_refused_everywhere(target: &Target) {
    let name = target.name("part");
    target.write(&name, "n", 1);
    for path in [
        format!("/api/data?dataName={name}&"),
        format!("/api/data/{name}/n?"),
        format!("/api/data/history?dataName={name}&"),
        format!("/api/data/watch?dataName={name}&"),
    ] {
        let ask = |field: &str| target.data.get(&format!("{path}field={field}"));
        wrong_input(&ask("value"), "field", "value", "`/value`?");
        wrong_input(&ask(""), "field", "", "/value");
        wrong_input(&ask("/a~2"), "field", "/a~2", "~1");
        wrong_input(&ask("/a%00b"), "field", "/a", "/value");
        wrong_input(&ask(&format!("/{}", "x".repeat(600))), "field", "/xxx", "/value");
    }
}

fn a_part_of_the_past_is_read(target: &Target) {
    let name = target.name("part");
    target.register(&json!({"dataName": name, "cmd": "true", "max-Time": 5, "history": {"max": 9}}));
    for value in [json!({"value": 1}), json!({"other": 2}), json!({"value": [3]})] {
        target.write(&name, "n", value);
    }
    let past = |query: &str| -> Vec<Value> {
        let answer = target.data.get(&format!("/api/data/history?dataName={name}{query}")).expect_status(200);
        let rows: Vec<Value> = serde_json::from_slice(&answer.body).unwrap();
        rows.into_iter().map(|mut row| row["dataValue"].take()).collect()
    };
    assert_eq!(past("&field=/value"), [json!(1), json!([3])]);
    assert_eq!(past("&field=/value/0"), [3]);
    assert_eq!(past("").len(), 3);
}

fn watch(target: &Target, query: &str) -> EventReader {
    target.data.sse(&format!("/api/data/watch?{query}"), &[])
}

/// The next event, which must be of this kind; its content.
#[track_caller]
fn next(events: &mut EventReader, kind: &str) -> Value {
    let event = events.next_news(PATIENCE);
    assert_eq!(event.event, kind, "{event:?}");
    event.json()
}

fn a_part_of_each_value_is_watched(target: &Target) {
    let name = target.name("part");
    target.write(&name, "n1", json!({"value": 1}));
    target.write(&name, "n2", json!({"other": 2}));
    let mut events = watch(target, &format!("dataName={name}&field=/value"));
    let first = next(&mut events, "snapshot");
    assert_eq!(json!([first["values"][0]["dataValue"], first["values"][1]]), json!([1, null]));
    target.write(&name, "n2", json!({"value": 3, "other": 2}));
    let change = next(&mut events, "change");
    assert_eq!((&change["nodeName"], &change["dataValue"]), (&json!("n2"), &json!(3)));
    let written = target.write(&name, "n2", json!({"other": 2}));
    let gone = next(&mut events, "delete");
    assert_eq!(gone, json!({"dataName": name, "nodeName": "n2", "revision": written["revision"]}));
    target.delete(&format!("dataName={name}&dataNode=n1"));
    assert_eq!(next(&mut events, "delete")["nodeName"], "n1");
}

fn one_node_is_watched(target: &Target) {
    let (name, other) = (target.name("watch"), target.name("watch"));
    let node = target.name("node");
    target.write(&name, &node, 1);
    target.write(&name, "elsewhere", 2);
    for (query, spelt) in
        [(format!("dataName={name},{other}"), "dataNode"), ("dataName=*".to_owned(), "nodeName")]
    {
        let mut events = watch(target, &format!("{query}&{spelt}={node}"));
        let values = next(&mut events, "snapshot")["values"].as_array().unwrap().clone();
        assert_eq!(column(&values, "nodeName"), [&*node], "{values:?}");
        target.write(&name, "elsewhere", 3);
        target.delete(&format!("dataName={name}&dataNode=elsewhere"));
        target.write(&other, &node, 4);
        assert_eq!(next(&mut events, "change")["dataName"], *other, "the first that is heard is of the node");
        target.delete(&format!("dataName={other}"));
        assert_eq!(next(&mut events, "delete")["dataName"], *other);
        target.write(&name, "elsewhere", 2);
    }
    let get = |query: &str| target.data.get(&format!("/api/data/watch?dataName=a&{query}"));
    wrong_input(&get("dataNode=no%20node"), "dataNode", "no node", "letters");
    problem(&get("dataNode=n&nodeName=n"), 400);
}
