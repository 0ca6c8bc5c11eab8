//! Swaps: what a binding served before, rolling back to it, parts of values under a bound name, and gaps.

use estimand_testkit::http::Response;
use estimand_testkit::wait::PATIENCE;
use serde_json::{Value, json};

use crate::answers::{fields_of, problem, wrong_field, wrong_input};
use crate::target::Target;

on_every_target!(
    a_binding_serves_a_part_of_each_value,
    a_bound_part_is_watched,
    a_bound_part_has_a_past_and_a_gauge,
    every_swap_is_kept,
    a_rollback_binds_to_what_was_before,
    nobody_undoes_what_they_do_not_know_of,
    a_gap_is_said,
    a_swap_that_would_serve_nothing_needs_force,
    wrong_swaps_are_refused,
);

fn put(target: &Target, name: &str, body: &Value) -> Response {
    target.data.send_json("PUT", &format!("/api/bindings/{name}"), body)
}

fn bind(target: &Target, name: &str, to: &str) -> Value {
    put(target, name, &json!({"to": to})).expect_status(200).json()
}

fn roll_back(target: &Target, name: &str) -> Response {
    target.data.request("POST", &format!("/api/bindings/{name}/rollback"), &[], b"")
}

fn unbind(target: &Target, name: &str) {
    target.data.request("DELETE", &format!("/api/bindings/{name}"), &[], b"").expect_status(204);
}

fn history(target: &Target, name: &str, query: &str) -> Vec<Value> {
    let answer = target.data.get(&format!("/api/bindings/{name}/history{query}")).expect_status(200);
    serde_json::from_slice(&answer.body).unwrap()
}

fn a_binding_serves_a_part_of_each_value(target: &Target) {
    let (stable, estimator) = (target.name("capability"), target.name("estimator"));
    target.write(&estimator, "n1", json!({"value": 0.5, "spread": {"low": 0.25}}));
    target.write(&estimator, "n2", json!({"spread": 1}));
    let bound = put(target, &stable, &json!({"to": estimator, "field": "/value"})).expect_status(200).json();
    assert_eq!((&bound["to"], &bound["field"]), (&json!(estimator), &json!("/value")));
    assert_eq!(target.data.get(&format!("/api/bindings/{stable}")).json(), bound);

    let own = target.one(&estimator, "n1");
    let mut expected = own.clone();
    (expected["dataName"], expected["dataValue"]) = (json!(stable), json!(0.5));
    assert_eq!(target.query(&format!("dataName={stable}")), [expected.clone()]);
    assert_eq!(target.one(&stable, "n1"), expected);
    assert_eq!(target.query(&format!("dataName={stable}&dataNode=n1&state=fresh")), [expected]);
    assert_eq!(target.query(&format!("dataName={stable}&dataNode=n2")), Vec::<Value>::new());
    let path = format!("/api/data/{stable}/n1");
    assert_eq!(target.data.request("GET", &path, &[("Accept", "text/plain")], b"").text(), "0.5");
    let missing = problem(&target.data.get(&format!("/api/data/{stable}/n2")), 404);
    let says = |words: &str| missing["detail"].as_str().unwrap().contains(words);
    assert!(missing["type"] == "not-found" && says(&estimator) && says("/value"), "{missing}");

    // A value with the part is there from then on, and one without it is gone.
    target.write(&estimator, "n2", json!({"value": 0.75}));
    assert_eq!(target.values(&format!("dataName={stable}")), [0.5, 0.75]);
    target.write(&estimator, "n1", json!("down"));
    assert_eq!(target.values(&format!("dataName={stable}")), [0.75]);
    // Another part of the same values is another binding; a part may be asked for of a part.
    target.write(&estimator, "n1", json!({"value": 0.5, "spread": {"low": 0.25}}));
    put(target, &stable, &json!({"to": estimator, "field": "/spread"})).expect_status(200);
    assert_eq!(target.values(&format!("dataName={stable}")), [json!({"low": 0.25})]);
    assert_eq!(target.values(&format!("dataName={stable}&field=/low")), [0.25]);
    let named = problem(&target.data.get(&format!("/api/data/{stable}/n1?field=/value")), 404);
    assert!(named["detail"].as_str().unwrap().contains("`/low`"), "the rest is not shown: {named}");
    assert_eq!(bind(target, &stable, &estimator)["field"], Value::Null);
    assert_eq!(target.values(&format!("dataName={stable}")).len(), 2);
}

fn a_bound_part_is_watched(target: &Target) {
    let (stable, one, two) = (target.name("capability"), target.name("estimator"), target.name("estimator"));
    target.write(&one, "n", json!({"value": 1}));
    target.write(&two, "n", json!({"value": 2}));
    target.write(&two, "m", 7);
    put(target, &stable, &json!({"to": one, "field": "/value"})).expect_status(200);
    let mut events = target.data.sse(&format!("/api/data/watch?dataName={stable}"), &[]);
    let mut next = |kind: &str| {
        let event = events.next_news(PATIENCE);
        assert_eq!(event.event, kind, "{event:?}");
        let content = event.json();
        json!([content["dataName"], content["nodeName"], content["dataValue"], content["values"]])
    };
    let values = |shown: Value| -> Vec<Value> {
        shown[3].as_array().unwrap().iter().map(|value| value["dataValue"].clone()).collect()
    };
    assert_eq!(values(next("snapshot")), [1]);
    target.write(&one, "n", json!({"value": 3}));
    assert_eq!(next("change"), json!([stable, "n", 3, null]));
    target.write(&one, "n", json!({"other": 3}));
    assert_eq!(next("delete"), json!([stable, "n", null, null]));
    put(target, &stable, &json!({"to": two, "field": "/value"})).expect_status(200);
    assert_eq!(values(next("snapshot")), [2]);
    target.write(&one, "n", json!({"value": 4}));
    target.write(&two, "m", json!({"value": 5}));
    assert_eq!(next("change"), json!([stable, "m", 5, null]));
    roll_back(target, &stable).expect_status(200);
    assert_eq!(values(next("snapshot")), [4]);
}

fn a_bound_part_has_a_past_and_a_gauge(target: &Target) {
    let (stable, estimator) = (target.name("capability"), target.name("estimator"));
    target.register(&json!({"dataName": estimator, "cmd": "true", "max-Time": 5, "history": {"max": 9}}));
    for value in [json!({"value": 1}), json!(2), json!({"value": 3})] {
        target.write(&estimator, "n", value);
    }
    put(target, &stable, &json!({"to": estimator, "field": "/value"})).expect_status(200);
    let answer = target.data.get(&format!("/api/data/history?dataName={stable}")).expect_status(200);
    let past: Vec<Value> = serde_json::from_slice(&answer.body).unwrap();
    let shown: Vec<Value> = past.iter().map(|row| json!([row["dataName"], row["dataValue"]])).collect();
    assert_eq!(shown, [json!([stable, 1]), json!([stable, 3])]);
    let metrics = target.data.get("/metrics").expect_status(200);
    for line in [
        format!("estimand_value{{data_name=\"{stable}\",node=\"n\"}} 3"),
        format!("estimand_binding{{data_name=\"{stable}\",to=\"{estimator}\",field=\"/value\"}} 1"),
    ] {
        assert!(metrics.text().lines().any(|one| one == line), "{line}");
    }
}

fn every_swap_is_kept(target: &Target) {
    let (stable, one, two) = (target.name("capability"), target.name("estimator"), target.name("estimator"));
    let never = problem(&target.data.get(&format!("/api/bindings/{stable}/history")), 404);
    assert!(never["detail"].as_str().unwrap().contains(&stable), "{never}");
    let first = bind(target, &stable, &one);
    assert!(!fields_of(&first).contains("before"), "{first}");
    let second = put(target, &stable, &json!({"to": two, "field": "/value"})).expect_status(200).json();
    assert_eq!(second["before"], json!({"to": one}));
    // A binding that changes nothing is no swap.
    put(target, &stable, &json!({"to": two, "field": "/value"})).expect_status(200);
    roll_back(target, &stable).expect_status(200);
    unbind(target, &stable);

    let kept = history(target, &stable, "");
    let shown: Vec<Value> =
        kept.iter().map(|swap| json!([swap["action"], swap["to"], swap["field"]])).collect();
    let expected = [
        json!(["unbound", one, null]),
        json!(["rolled-back", one, null]),
        json!(["bound", two, "/value"]),
        json!(["bound", one, null]),
    ];
    assert_eq!(shown, expected);
    assert_eq!(fields_of(&kept[2]), ["action", "at", "by", "field", "revision", "to"].into());
    assert_eq!((&kept[2]["revision"], &kept[2]["at"]), (&second["revision"], &second["since"]));
    let revisions: Vec<u64> = kept.iter().map(|swap| swap["revision"].as_u64().unwrap()).collect();
    assert!(revisions.is_sorted_by(|later, earlier| later > earlier), "{revisions:?}");
    // Somebody on this machine, as the registry has it.
    assert!(kept.iter().all(|swap| swap["by"].as_str().unwrap().contains("127.0.0.1")), "{kept:?}");
    assert_eq!(history(target, &stable, "?limit=2"), kept[..2]);
}

fn a_rollback_binds_to_what_was_before(target: &Target) {
    let (stable, one, two) = (target.name("capability"), target.name("estimator"), target.name("estimator"));
    target.write(&one, "n", 1);
    target.write(&two, "n", json!({"value": 2}));
    assert_eq!(problem(&roll_back(target, &stable), 404)["type"], "not-found");
    bind(target, &stable, &one);
    let refused = problem(&roll_back(target, &stable), 409);
    assert!(refused["detail"].as_str().unwrap().contains(&one), "{refused}");
    put(target, &stable, &json!({"to": two, "field": "/value"})).expect_status(200);
    let value = || target.values(&format!("dataName={stable}"));
    for expected in [1, 2, 1] {
        let rolled = roll_back(target, &stable).expect_status(200).json();
        assert_eq!(value(), [expected], "{rolled}");
        assert_eq!(target.data.get(&format!("/api/bindings/{stable}")).json(), rolled);
    }
    unbind(target, &stable);
    roll_back(target, &stable).expect_status(200);
    assert_eq!(value(), [1], "what it served at last");
    roll_back(target, &stable).expect_status(200);
    assert_eq!(value(), [2]);
    // A name that has values of its own by now cannot be bound again.
    unbind(target, &stable);
    target.write(&stable, "n", 7);
    problem(&roll_back(target, &stable), 409);
    assert_eq!(value(), [7]);
}

fn nobody_undoes_what_they_do_not_know_of(target: &Target) {
    let (stable, one, two) = (target.name("capability"), target.name("estimator"), target.name("estimator"));
    let other = target.name("estimator");
    let from = |to: &str, from: &str| put(target, &stable, &json!({"to": to, "from": from}));
    problem(&from(&one, &two), 409);
    problem(&target.data.get(&format!("/api/bindings/{stable}")), 404);
    bind(target, &stable, &one);
    let swapped = from(&two, &one).expect_status(200).json();
    assert_eq!(from(&two, &one).expect_status(200).json(), swapped, "an answer that was lost is given again");
    let refused = problem(&from(&other, &one), 409);
    assert!(refused["detail"].as_str().unwrap().contains(&two), "it says what is served: {refused}");
    let path = format!("/api/bindings/{stable}/rollback");
    let guarded = |from: &str| target.data.send_json("POST", &path, &json!({"from": from}));
    problem(&guarded(&one), 409);
    assert_eq!(guarded(&two).expect_status(200).json()["to"], json!(one));
    problem(&guarded(&two), 409);
}

fn a_gap_is_said(target: &Target) {
    let stable = target.name("capability");
    let [full, half, none, objects] = ["full", "half", "none", "objects"].map(|stem| target.name(stem));
    for node in ["n1", "n2", "n3"] {
        target.write(&full, node, 1);
        target.write(&objects, node, json!({"value": 1}));
    }
    target.write(&half, "n2", 1);
    target.write(&half, "n9", 1);
    target.write(&objects, "n3", json!({"other": 1}));
    let hint = |body: Value| {
        let answer = put(target, &format!("{stable}?force=true"), &body).expect_status(200);
        answer.header("estimand-hint").unwrap_or_default().to_owned()
    };
    let check = |body: Value, says: &[&str]| {
        let said = hint(body);
        assert!(!said.is_empty() && says.iter().all(|part| said.contains(part)), "{said}");
    };
    check(json!({"to": none}), &[&none, "no value", "yet"]);
    assert_eq!(hint(json!({"to": full})), "");
    check(json!({"to": half}), &[&half, "2 of 3", "n1, n3"]);
    check(json!({"to": full}), &[&full, "1 of 2 (n9)"]);
    assert_eq!(hint(json!({"to": full})), "", "the same again opens no gap");
    check(json!({"to": none}), &[&none, "no value", "3 (n1, n2, n3)"]);
    check(json!({"to": none}), &[&none, "yet"]);
    assert_eq!(hint(json!({"to": full})), "");
    check(json!({"to": objects, "field": "/value"}), &[&objects, "/value", "1 of 3", "n3"]);
    check(json!({"to": objects, "field": "/\u{e9}"}), &["no value", "2 (n1, n2)"]);
    let rolled = roll_back(target, &stable).expect_status(200);
    assert_eq!(rolled.header("estimand-hint"), None);
    bind(target, &stable, &half);
    bind(target, &stable, &full);
    let rolled = roll_back(target, &stable).expect_status(200);
    assert!(rolled.header("estimand-hint").is_some_and(|hint| hint.contains("2 of 3")), "{rolled}");
}

fn a_swap_that_would_serve_nothing_needs_force(target: &Target) {
    let stable = target.name("capability");
    let load = target.name("load");
    let objects = target.name("objects");
    target.write(&objects, "n1", json!({"value": 1}));
    let refused = |name: &str, body: &Value, says: &[&str]| {
        let problem = problem(&put(target, name, body), 409);
        let detail = problem["detail"].as_str().unwrap();
        assert!(
            problem["type"] == "serves-nothing" && says.iter().all(|part| detail.contains(part)),
            "{problem}"
        );
    };
    // Nobody reads values under a name that serves none: it may be bound before the first run.
    put(target, &stable, &json!({"to": load})).expect_status(200);
    put(target, &stable, &json!({"to": target.name("another")})).expect_status(200);
    put(target, &stable, &json!({"to": load})).expect_status(200);
    target.write(&load, "n1", 1);
    target.write(&load, "n2", 2);
    // Two letters in each other's place.
    let slip = load.replace("load", "laod");
    let is_it = format!("is it `{load}`?");
    refused(&stable, &json!({"to": slip}), &[&slip, &stable, "2 nodes", &is_it, "`force`"]);
    refused(&stable, &json!({"to": objects, "field": "/missing"}), &[&objects, "/missing", "2 nodes"]);
    assert_eq!(target.values(&format!("dataName={stable}")), [1, 2]);
    // A binding that is so already, and one that is wrong for another reason, is answered as before.
    put(target, &stable, &json!({"to": load})).expect_status(200);
    let elsewhere = problem(&put(target, &stable, &json!({"to": slip, "from": objects})), 409);
    assert_eq!(elsewhere["type"], "conflict", "{elsewhere}");
    // A rollback empties a name no more easily.
    put(target, &stable, &json!({"to": objects})).expect_status(200);
    target.delete(&format!("dataName={load}"));
    assert_eq!(problem(&roll_back(target, &stable), 409)["type"], "serves-nothing");
    let path = format!("/api/bindings/{stable}/rollback?force=true");
    target.data.request("POST", &path, &[], b"").expect_status(200);
    assert_eq!(target.values(&format!("dataName={stable}")), Vec::<Value>::new());
    put(target, &stable, &json!({"to": objects})).expect_status(200);
    let forced = put(target, &format!("{stable}?force=true"), &json!({"to": slip})).expect_status(200);
    assert!(forced.header("estimand-hint").is_some(), "{forced}");
}

fn wrong_swaps_are_refused(target: &Target) {
    let stable = target.name("capability");
    let put = |body: &Value| put(target, &stable, body);
    wrong_input(&put(&json!({"to": "a", "field": "value"})), "field", "value", "`/value`?");
    wrong_field(&put(&json!({"to": "a", "field": 7})), "field");
    wrong_field(&put(&json!({"to": "a", "field": ""})), "field");
    wrong_field(&put(&json!({"to": "a", "from": "no name"})), "from");
    let both = put(&json!({"to": "no name", "field": "x"}));
    wrong_field(&both, "to");
    wrong_field(&both, "field");
    let path = format!("/api/bindings/{stable}");
    problem(&target.data.get(&path), 404);
    let post = |body: &[u8]| target.data.request("POST", &format!("{path}/rollback"), &[], body);
    wrong_field(&post(br#"{"to": "a"}"#), "to");
    wrong_field(&post(br#"{"from": 7}"#), "from");
    wrong_field(&post(b"[]"), "body");
    wrong_field(&target.data.request("POST", "/api/bindings/no%20name/rollback", &[], b""), "dataName");
    wrong_field(&target.data.get("/api/bindings/no%20name/history"), "dataName");
    wrong_input(&target.data.get(&format!("{path}/history?limit=0")), "limit", "0", "100000");
    wrong_field(&target.data.get(&format!("{path}/history?since=1h")), "since");
    wrong_field(&target.data.request("PUT", &format!("{path}?force=1"), &[], br#"{"to":"a"}"#), "force");
    problem(&target.data.get(&path), 404);
}
