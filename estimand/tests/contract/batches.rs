//! Batches: many writes, all of them or none, one acknowledgement.

use serde_json::{Value, json};

use crate::answers::{problem, revision_of, wrong_field};
use crate::target::Target;

on_every_target!(
    a_batch_counts_what_it_did,
    a_bad_item_is_named_and_nothing_is_written,
    a_bound_name_refuses_the_whole_batch,
    a_batch_may_be_as_large_as_promised,
    past_the_limits_nothing_is_done,
    an_empty_batch_does_nothing,
    a_value_of_a_slot_that_moved_is_dropped,
);

fn item(name: &str, node: &str, value: impl Into<Value>) -> Value {
    json!({"dataName": name, "nodeName": node, "dataValue": value.into()})
}

fn send(target: &Target, batch: &Value) -> estimand_testkit::http::Response {
    target.data.send_json("POST", "/api/data/batch", batch)
}

fn a_batch_counts_what_it_did(target: &Target) {
    let name = target.name("batch");
    target.write(&name, "n1", 0);
    let ordered = json!({"dataName": name, "nodeName": "n3", "dataValue": 3, "epoch": 1, "sequence": 1});
    let batch = json!([item(&name, "n1", 1), item(&name, "n2", 2), ordered, ordered, item(&name, "n2", 22)]);
    let done = send(target, &batch).expect_status(200).json();
    let counts = ["created", "replaced", "superseded"].map(|count| done[count].as_u64().unwrap());
    assert_eq!(counts, [2, 2, 1], "{done}");
    assert_eq!(target.values(&format!("dataName={name}")), [1, 22, 3], "the last of the same wins");
    let read = target.data.get(&format!("/api/data?dataName={name}"));
    assert!(revision_of(&read) >= done["revision"].as_u64().unwrap());
}

fn a_value_of_a_slot_that_moved_is_dropped(target: &Target) {
    let (name, other) = (target.name("moved"), target.name("moved"));
    let of = |name: &str, node: &str, epoch: u64| {
        let provenance = json!({"version": 1});
        json!({"dataName": name, "nodeName": node, "dataValue": epoch, "epoch": epoch, "sequence": 1, "provenance": provenance})
    };
    let plain = json!({"dataName": name, "nodeName": "plain", "dataValue": 0});
    let batch = json!([of(&name, "n1", 1), of(&name, "n2", 2), plain, of(&other, "n1", 1)]);
    send(target, &batch).expect_status(200);
    let said = json!({"timeToLive": 3600, "nodes": ["n1", "n2"], "names": {name.as_str(): ["n2"]}});
    let put = |body: &Value| target.data.send_json("PUT", "/api/data/producers", body);
    assert_eq!(put(&said).expect_status(200).json(), json!({"dropped": 1}));
    assert_eq!(target.values(&format!("dataName={name}")), [2, 0]);
    // A value that is not known to be renewed anywhere has its time to live.
    assert_eq!(target.values(&format!("dataName={other}")), [1]);
    assert_eq!(put(&said).expect_status(200).json(), json!({"dropped": 0}));
    for (body, field) in [
        (json!({"timeToLive": -1, "nodes": [], "names": {}}), "timeToLive"),
        (json!({"timeToLive": 1, "nodes": ["a b"], "names": {}}), "nodes"),
        (json!({"timeToLive": 1, "nodes": [], "names": {"a b": "all"}}), "names.a b"),
        (json!({"timeToLive": 1, "nodes": [], "names": {"a": "some"}}), "names.a"),
        (json!({"timeToLive": 1, "nodes": [], "names": {}, "x": 1}), "x"),
    ] {
        wrong_field(&put(&body), field);
    }
}

fn a_bad_item_is_named_and_nothing_is_written(target: &Target) {
    let name = target.name("batch");
    for (bad, field) in [
        (json!({"dataName": name, "nodeName": "n"}), "[2].dataValue"),
        (json!({"dataName": name, "nodeName": "no node", "dataValue": 1}), "[2].nodeName"),
        (json!({"dataName": name, "nodeName": "n", "dataValue": 1, "extra": 1}), "[2].extra"),
        (
            json!({"dataName": name, "nodeName": "n", "dataValue": 1, "collectedAt": "then"}),
            "[2].collectedAt",
        ),
        (json!(7), "[2]"),
    ] {
        let batch = json!([item(&name, "n1", 1), item(&name, "n2", 2), bad, item(&name, "n3", 3)]);
        wrong_field(&send(target, &batch), field);
    }
    assert_eq!(target.values(&format!("dataName={name}")), Vec::<Value>::new());
}

fn a_bound_name_refuses_the_whole_batch(target: &Target) {
    let (name, bound) = (target.name("batch"), target.name("bound"));
    let to = json!({"to": name});
    target.data.send_json("PUT", &format!("/api/bindings/{bound}"), &to).expect_status(200);
    let refused = problem(&send(target, &json!([item(&name, "n1", 1), item(&bound, "n2", 2)])), 409);
    let detail = refused["detail"].as_str().unwrap();
    assert!(detail.contains("[1]") && detail.contains(&bound), "{detail}");
    assert_eq!(target.values(&format!("dataName={name}")), Vec::<Value>::new());
}

fn a_batch_may_be_as_large_as_promised(target: &Target) {
    let name = target.name("batch");
    let items: Vec<Value> = (0..10_000).map(|place| item(&name, &format!("n{place}"), place)).collect();
    let done = send(target, &json!(items)).expect_status(200).json();
    assert_eq!(done["created"], 10_000);
    assert_eq!(target.query(&format!("dataName={name}")).len(), 10_000);
    assert_eq!(target.delete(&format!("dataName={name}"))["deleted"], 10_000);

    let large = item(&name, "n", "x".repeat(64 * 1024 - 2));
    let done = send(target, &json!(vec![large; 100])).expect_status(200).json();
    assert_eq!((&done["created"], &done["replaced"]), (&json!(1), &json!(99)));
    target.delete(&format!("dataName={name}"));
}

fn past_the_limits_nothing_is_done(target: &Target) {
    let name = target.name("batch");
    let items: Vec<Value> = (0..10_001).map(|place| item(&name, &format!("n{place}"), 1)).collect();
    let refused = problem(&send(target, &json!(items)), 413);
    assert!(refused["detail"].as_str().unwrap().contains("10000"), "{refused}");

    let too_large = item(&name, "n", "x".repeat(64 * 1024));
    let refused = problem(&send(target, &json!([item(&name, "n", 1), too_large])), 413);
    let detail = refused["detail"].as_str().unwrap();
    assert!(detail.contains("[1]") && detail.contains("65536"), "{detail}");
    assert_eq!(target.values(&format!("dataName={name}")), Vec::<Value>::new());
}

fn an_empty_batch_does_nothing(target: &Target) {
    let done = send(target, &json!([])).expect_status(200).json();
    assert_eq!((&done["created"], &done["replaced"], &done["superseded"]), (&json!(0), &json!(0), &json!(0)));
}
