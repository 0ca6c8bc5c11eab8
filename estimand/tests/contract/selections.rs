//! Reads that select: by labels of nodes, by patterns of names, in an order, the first few.

use estimand_testkit::http::EventReader;
use estimand_testkit::wait::{self, PATIENCE};
use serde_json::{Value, json};

use crate::answers::{column, wrong_input};
use crate::fake::Fake;
use crate::target::Target;

on_every_target!(
    values_of_nodes_with_labels_are_read,
    a_selection_that_finds_nothing_says_why,
    a_watch_follows_the_labels,
    names_are_read_by_pattern,
    values_come_in_the_order_asked_for,
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

fn selections_are_checked(target: &Target) {
    for (query, field, given, expected) in [
        ("nodes=%3Da", "nodes", "=a", "labels"),
        ("sort=one", "sort", "one", "pointer"),
        ("limit=0", "limit", "0", "1 to"),
        ("limit=x", "limit", "x", "1 to"),
    ] {
        wrong_input(&target.data.get(&format!("/api/data?dataName=a&{query}")), field, given, expected);
    }
    wrong_input(&target.data.get("/api/data/watch?dataName=a&nodes=a=b=c"), "nodes", "a=b=c", "labels");
}
