//! Reads that select: by labels of nodes, by patterns of names, in an order, the first few.

use estimand_testkit::http::EventReader;
use estimand_testkit::wait::{self, PATIENCE};
use serde_json::{Value, json};

use crate::answers::{column, wrong_field, wrong_input};
use crate::fake::Fake;
use crate::target::Target;

on_every_target!(
    values_of_nodes_with_labels_are_read,
    a_selection_that_finds_nothing_says_why,
    a_watch_follows_the_labels,
    names_are_read_by_pattern,
    values_come_in_the_order_asked_for,
    nodes_are_given_as_a_list_and_in_pieces,
    values_are_chosen_by_what_they_say,
    a_thousand_nodes_fit_into_a_query_and_more_into_a_body,
    values_are_read_and_written_a_line_each,
    selections_are_checked,
);

/// A node with these labels; the data service knows them when this returns.
fn labelled<'t>(target: &'t Target, labels: &Value) -> Fake<'t> {
    let fake = Fake::new(target);
    fake.set_labels(labels.clone());
    fake.beat().expect_status(200);
    let (probe, node) = (target.name("probe"), fake.node.clone());
    target.write(&probe, &node, 1);
    let (key, value) = labels.as_object().unwrap().iter().next().unwrap();
    let query = format!("/api/data?dataName={probe}&nodes={key}={}", value.as_str().unwrap());
    wait::until_ok(PATIENCE, "the data service to know the labels", || {
        let answer = target.data.get(&query);
        if answer.text().contains(&node) { Ok(()) } else { Err(answer.to_string()) }
    });
    fake
}

/// The content of the next event, which must be of this kind.
#[track_caller]
fn next(events: &mut EventReader, kind: &str) -> Value {
    let event = events.next_news(PATIENCE);
    assert_eq!(event.event, kind, "{event:?}");
    event.json()
}

fn values_of_nodes_with_labels_are_read(target: &Target) {
    let zone = target.name("zone");
    let nodes = ["a", "b", "c"].map(|own| labelled(target, &json!({ "zone": zone, "own": own })));
    let names = [target.name("value"), target.name("value")];
    for (at, node) in nodes.iter().enumerate() {
        target.write(&names[0], &node.node, at);
        target.write(&names[1], &node.node, 10 + at);
    }
    target.write(&names[0], &target.name("nobody"), 7);
    let read =
        |selector: &str| target.values(&format!("dataName={},{}&nodes={selector}", names[0], names[1]));
    assert_eq!(read(&format!("zone={zone}")), [0, 1, 2, 10, 11, 12]);
    assert_eq!(read(&format!("zone={zone},own%20in%20(a,c)")), [0, 2, 10, 12]);
    assert_eq!(read(&format!("zone={zone},own!=a")), [1, 2, 11, 12]);
    let one = format!("dataName={}&nodes=zone={zone}&dataNode=", names[0]);
    assert_eq!(target.values(&format!("{one}{}", nodes[1].node)), [1]);
    // A change of labels is followed.
    let changes = json!({ "zone": null, "own": "d" });
    target.manager.send_json("PATCH", &nodes[0].path("/labels"), &changes).expect_status(200);
    wait::until_ok(PATIENCE, "the new labels", || match read(&format!("zone={zone},own=d")) {
        values if values == [0, 10] => Ok(()),
        values => Err(json!(values).to_string()),
    });
}

fn a_selection_that_finds_nothing_says_why(target: &Target) {
    labelled(target, &json!({ "known": "x" }));
    for (query, hint) in [
        ("dataName=a&nodes=never=a", "no node has a label never"),
        ("dataName=a&nodes=known=never", "no node has labels that match known=never"),
        ("dataName=never_*", "no data name that has values matches never_*"),
    ] {
        let answer = target.data.get(&format!("/api/data?{query}")).expect_status(200);
        assert_eq!(answer.json(), json!([]), "{query}");
        assert!(answer.header("estimand-hint").is_some_and(|said| said.contains(hint)), "{query}: {answer}");
    }
}

fn a_watch_follows_the_labels(target: &Target) {
    let zone = target.name("zone");
    let (one, other) =
        (labelled(target, &json!({ "zone": zone })), labelled(target, &json!({ "zone": "-" })));
    let name = target.name("value");
    target.write(&name, &one.node, 1);
    target.write(&name, &other.node, 2);
    let mut events = target.data.sse(&format!("/api/data/watch?dataName={name}&nodes=zone={zone}"), &[]);
    let nodes = |event: &Value| column(event["values"].as_array().unwrap(), "nodeName");
    let snapshot = next(&mut events, "snapshot");
    assert_eq!(nodes(&snapshot), [one.node.as_str()]);
    target.write(&name, &other.node, 3);
    target.write(&name, &one.node, 4);
    assert_eq!(next(&mut events, "change")["dataValue"], 4);
    target.manager.send_json("PATCH", &other.path("/labels"), &json!({ "zone": zone })).expect_status(200);
    let snapshot = next(&mut events, "snapshot");
    assert_eq!(snapshot["reason"], "labels");
    assert_eq!(nodes(&snapshot).len(), 2);
    target.write(&name, &other.node, 5);
    assert_eq!(next(&mut events, "change")["dataValue"], 5);
}

fn names_are_read_by_pattern(target: &Target) {
    let stem = target.name("stem");
    for (name, value) in [("one", 1), ("two", 2), ("of_one", 3)] {
        target.write(&format!("{stem}.{name}"), "n", value);
    }
    target.data.send_json(
        "PUT",
        &format!("/api/bindings/{stem}.stable"),
        &json!({ "to": format!("{stem}.two") }),
    );
    let read = |names: &str| target.values(&format!("dataName={}", names.replace('@', &stem)));
    // A bound name is served like any other.
    assert_eq!(read("@.*"), [3, 1, 2, 2]);
    assert_eq!(read("@.*one"), [3, 1]);
    assert_eq!(read("@.two,@.*o*,@.two"), [2, 3, 1]);
    assert_eq!(read("@.*&dataNode=m"), [] as [i32; 0]);
    let mut events = target.data.sse(&format!("/api/data/watch?dataName={stem}.s*,{stem}.one"), &[]);
    assert_eq!(next(&mut events, "snapshot")["values"].as_array().unwrap().len(), 2);
    target.write(&format!("{stem}.two"), "n", 4);
    let change = next(&mut events, "change");
    assert_eq!((&change["dataName"], &change["dataValue"]), (&json!(format!("{stem}.stable")), &json!(4)));
    target.write(&format!("{stem}.surprise"), "n", 5);
    assert_eq!(next(&mut events, "change")["dataName"], format!("{stem}.surprise"));
}

fn values_come_in_the_order_asked_for(target: &Target) {
    let name = target.name("load");
    for (node, value) in [
        ("a", json!({ "one": 2 })),
        ("b", json!({ "one": 10 })),
        ("c", json!({ "one": "text" })),
        ("d", json!({ "other": 1 })),
        ("e", json!({ "one": 2 })),
    ] {
        target.write(&name, node, value);
    }
    let nodes = |query: &str| column(&target.query(&format!("dataName={name}&{query}")), "nodeName");
    assert_eq!(nodes("sort=/one"), ["a", "e", "b", "c", "d"]);
    assert_eq!(nodes("sort=-/one"), ["b", "a", "e", "c", "d"]);
    assert_eq!(nodes("sort=-/one&limit=2"), ["b", "a"]);
    assert_eq!(nodes("limit=2"), ["a", "b"]);
    assert_eq!(nodes("sort=/one&field=/other"), ["d"]);
    assert_eq!(nodes("field=/one&sort=-/one&limit=1"), ["b"]);
    let plain = target.name("plain");
    for (node, value) in [("a", 2), ("b", 10), ("c", -1)] {
        target.write(&plain, node, value);
    }
    assert_eq!(target.values(&format!("dataName={plain}&sort=value")), [-1, 2, 10]);
    assert_eq!(target.values(&format!("dataName={plain}&sort=-value&limit=1")), [10]);
}

fn nodes_are_given_as_a_list_and_in_pieces(target: &Target) {
    let names = [target.name("load"), target.name("rack")];
    for (at, node) in ["a", "b", "c"].iter().enumerate() {
        target.write(&names[0], node, at);
        target.write(&names[1], node, 10 + at);
    }
    let [load, rack] = &names;
    assert_eq!(target.values(&format!("dataName={load}&dataNode=c,a")), [0, 2]);
    assert_eq!(target.values(&format!("dataName={load}&dataNode=c&dataNode=a&dataNode=c")), [0, 2]);
    assert_eq!(target.values(&format!("dataName={load}&nodeName=b,nowhere")), [1]);
    assert_eq!(target.values(&format!("dataName={load}&dataName={rack}&dataNode=a,b")), [0, 1, 10, 11]);
    assert_eq!(target.values(&format!("dataName={load}&state=stale&state=fresh")), [0, 1, 2]);
    let metrics =
        target.data.get(&format!("/api/data/metrics?dataName={load}&dataNode=a,c")).expect_status(200);
    let numbers = metrics.text().lines().filter(|line| line.starts_with("estimand_value{")).count();
    assert_eq!(numbers, 2, "{metrics}");
    let mut events = target.data.sse(&format!("/api/data/watch?dataName={load}&dataNode=a&dataNode=b"), &[]);
    assert_eq!(next(&mut events, "snapshot")["values"].as_array().unwrap().len(), 2);
    target.write(load, "c", 7);
    target.write(load, "b", 8);
    assert_eq!(next(&mut events, "change")["dataValue"], 8);
}

fn values_are_chosen_by_what_they_say(target: &Target) {
    let (plain, parts) = (target.name("plain"), target.name("parts"));
    for (node, value) in [("a", json!(0.5)), ("b", json!(0.95)), ("c", json!("high"))] {
        target.write(&plain, node, value);
    }
    for (node, one, state) in [("a", 1, "up"), ("b", 2, "up"), ("c", 3, "down")] {
        target.write(&parts, node, json!({ "one": one, "state": state }));
    }
    // No URL has these signs as they are.
    let coded = |query: &str| query.replace('>', "%3E").replace('<', "%3C");
    let read = |name: &str, query: &str| target.values(&format!("dataName={name}&{}", coded(query)));
    assert_eq!(read(&plain, "where=value>0.9"), [0.95]);
    assert_eq!(read(&plain, "where=value>=0.5&sort=-value"), [0.95, 0.5]);
    assert_eq!(read(&plain, "where=value=high"), ["high"]);
    assert_eq!(read(&parts, "where=/one>1,/state=up&field=/one"), [2]);
    assert_eq!(read(&parts, "where=/one>1&where=/state=up&field=/one"), [2]);
    assert_eq!(read(&parts, "where=/one<3&dataNode=b,c&field=/one"), [2]);
    let mut events = target.data.sse(&format!("/api/data/watch?dataName={plain}&where=value%3E0.9"), &[]);
    let snapshot = next(&mut events, "snapshot");
    assert_eq!(column(snapshot["values"].as_array().unwrap(), "nodeName"), ["b"]);
    target.write(&plain, "a", 0.99);
    assert_eq!(next(&mut events, "change")["dataValue"], 0.99);
    target.write(&plain, "b", 0.1);
    assert_eq!(next(&mut events, "delete")["nodeName"], "b");
}

fn a_thousand_nodes_fit_into_a_query_and_more_into_a_body(target: &Target) {
    let name = target.name("load");
    let node = |number: usize| format!("{name}-node-{number:06}.cluster.example");
    let writes: Vec<Value> =
        (0..1_000).map(|at| json!({ "dataName": name, "nodeName": node(at), "dataValue": at })).collect();
    target.data.send_json("POST", "/api/data/batch", &json!(writes)).expect_status(200);
    let list = |count: usize| (0..count).map(node).collect::<Vec<_>>().join(",");
    // Every second one.
    let half = (0..1_000).map(|at| node(2 * at)).collect::<Vec<_>>().join(",");
    assert_eq!(target.values(&format!("dataName={name}&dataNode={half}")).len(), 500);
    // The manager knows none of them, so that a selector finds nothing, and says why.
    let selector = format!("/api/data?dataName={name}&nodes=node%20in%20({})", list(1_000));
    let answer = target.data.get(&selector).expect_status(200);
    assert_eq!(answer.json(), json!([]), "{answer}");
    assert!(answer.header("estimand-hint").is_some_and(|hint| hint.len() < 300), "{answer}");

    let query = |body: &Value| target.data.send_json("POST", "/api/data/query", body);
    let nodes: Vec<String> = (0..20_000).map(node).collect();
    let body = json!({ "dataName": [name], "dataNode": nodes, "where": "value>=998", "sort": "-value" });
    let answer = query(&body).expect_status(200);
    let found: Vec<Value> =
        answer.json().as_array().unwrap().iter().map(|one| one["dataValue"].clone()).collect();
    assert_eq!(found, [999, 998]);
    assert!(answer.header("estimand-revision").is_some(), "{answer}");
    let selector = format!("node in ({})", list(20_000));
    query(&json!({ "dataName": name, "nodes": selector })).expect_status(200);
    let whole = query(&json!({ "dataName": name, "limit": 3 })).expect_status(200);
    assert_eq!(whole.json().as_array().unwrap().len(), 3);
    for (body, field) in [
        (json!({ "dataNode": "a" }), "dataName"),
        (json!({ "dataName": name, "node": "a" }), "node"),
        (json!({ "dataName": name, "limit": "x" }), "limit"),
        (json!({ "dataName": name, "maxAge": 5 }), "maxAge"),
        (json!({ "dataName": name, "dataNode": [1] }), "dataNode"),
        (json!({ "dataName": name, "dataNode": [] }), "dataNode"),
        (json!({ "dataName": name, "where": "load>1" }), "where"),
    ] {
        wrong_field(&query(&body), field);
    }
}

fn values_are_read_and_written_a_line_each(target: &Target) {
    let name = target.name("lines");
    let lines = format!(
        "{{\"dataName\":\"{name}\",\"nodeName\":\"a\",\"dataValue\":1.10}}\r\n\n{{\"dataName\":\"{name}\",\"nodeName\":\"b\",\"dataValue\":2}}\n"
    );
    let written = |kind: &str| {
        target.data.request("POST", "/api/data/batch", &[("content-type", kind)], lines.as_bytes())
    };
    assert_eq!(written("application/x-ndjson").expect_status(200).json()["created"], 2);
    assert_eq!(written("application/json").status, 400);
    for accept in ["application/x-ndjson", "application/jsonl; q=1, application/json"] {
        let path = format!("/api/data?dataName={name}");
        let answer = target.data.request("GET", &path, &[("accept", accept)], b"").expect_status(200);
        assert_eq!(answer.header("content-type"), Some("application/x-ndjson"), "{answer}");
        let lines: Vec<&str> = answer.text().lines().collect();
        assert!(lines.len() == 2 && lines[0].contains("\"dataValue\":1.10,"), "{answer}");
        assert!(answer.text().ends_with("}\n"), "{answer}");
    }
}

fn selections_are_checked(target: &Target) {
    for (query, field, given, expected) in [
        ("nodes=%3Da", "nodes", "=a", "labels"),
        ("sort=one", "sort", "one", "pointer"),
        ("limit=0", "limit", "0", "1 to"),
        ("limit=x", "limit", "x", "1 to"),
        ("where=load%3E1", "where", "load>1", "comparisons"),
    ] {
        wrong_input(&target.data.get(&format!("/api/data?dataName=a&{query}")), field, given, expected);
    }
    wrong_input(&target.data.get("/api/data/watch?dataName=a&nodes=a=b=c"), "nodes", "a=b=c", "labels");
}
