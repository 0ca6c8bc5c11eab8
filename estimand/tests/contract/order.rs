//! An old value never replaces a newer one, in whatever order deliveries arrive; and what DELETE deletes.

use estimand_testkit::http::Http;
use serde_json::{Value, json};

use crate::answers::wrong_field;
use crate::target::Target;

on_every_target!(
    an_older_write_never_replaces_a_newer_one,
    a_later_epoch_begins_anew,
    a_late_failure_does_not_spoil_a_newer_value,
    a_redelivered_batch_changes_nothing,
    plain_writes_take_the_order_of_arrival,
    post_and_put_say_what_they_did,
    a_delete_deletes_once,
    a_name_or_a_single_node_is_deleted,
    an_order_is_taken_from_agents_and_operators_only,
    the_epochs_that_were_given_are_names_and_numbers,
);

fn ordered(target: &Target, name: &str, epoch: u64, sequence: u64, value: impl Into<Value>) -> String {
    let written = target.put(&json!({
        "dataName": name, "nodeName": "n", "dataValue": value.into(), "epoch": epoch, "sequence": sequence,
    }));
    written["outcome"].as_str().unwrap().to_owned()
}

fn an_order_is_taken_from_agents_and_operators_only(target: &Target) {
    let name = target.name("order");
    let ordered = json!({"dataName": name, "nodeName": "n", "dataValue": 1, "epoch": 1, "sequence": 1});
    let anybody = Http::new(&format!("http://{}", target.data_address)).showing(None);
    let refused = anybody.send_json("PUT", "/api/data", &ordered).expect_status(403).json();
    assert_eq!(refused["errors"][0]["field"], "epoch", "{refused}");
    let refused = anybody.send_json("POST", "/api/data/batch", &json!([ordered])).expect_status(403).json();
    assert_eq!(refused["errors"][0]["field"], "[0].epoch", "{refused}");
    let plain = json!({"dataName": name, "nodeName": "n", "dataValue": 2});
    anybody.send_json("PUT", "/api/data", &plain).expect_status(201);
}

fn the_epochs_that_were_given_are_names_and_numbers(target: &Target) {
    let put = |body: &Value| target.data.send_json("PUT", "/api/data/epochs", body);
    for (body, field) in [(json!({"a b": 1}), "a b"), (json!({"a": -1}), "a"), (json!({"a": "1"}), "a")] {
        wrong_field(&put(&body), field);
    }
    put(&json!({})).expect_status(200);
}

fn an_older_write_never_replaces_a_newer_one(target: &Target) {
    let name = target.name("order");
    assert_eq!(ordered(target, &name, 5, 10, "ten"), "created");
    let newest = target.one(&name, "n");
    assert_eq!(ordered(target, &name, 5, 9, "nine"), "superseded");
    assert_eq!(ordered(target, &name, 5, 10, "ten again"), "superseded", "a redelivery is harmless");
    assert_eq!(ordered(target, &name, 4, 99, "before the restart"), "superseded");
    assert_eq!(target.one(&name, "n"), newest, "not even its revision changed");
    assert_eq!(ordered(target, &name, 5, 11, "eleven"), "replaced");
    assert_eq!(target.one(&name, "n")["dataValue"], "eleven");
}

fn a_later_epoch_begins_anew(target: &Target) {
    let name = target.name("order");
    ordered(target, &name, 1, i64::MAX as u64, 1);
    assert_eq!(ordered(target, &name, 2, 0, 2), "replaced");
    assert_eq!(target.one(&name, "n")["dataValue"], 2);
}

fn a_late_failure_does_not_spoil_a_newer_value(target: &Target) {
    let name = target.name("order");
    let fail = |sequence: u64| {
        target.put(
            &json!({"dataName": name, "nodeName": "n", "state": "failed", "epoch": 1, "sequence": sequence}),
        )
    };
    ordered(target, &name, 1, 5, "five");
    assert_eq!(fail(4)["outcome"], "superseded");
    assert_eq!(target.one(&name, "n")["state"], "fresh");
    assert_eq!(fail(6)["outcome"], "replaced");
    assert_eq!(target.one(&name, "n")["state"], "failed");
    assert_eq!(ordered(target, &name, 1, 5, "five again"), "superseded");
    assert_eq!(target.one(&name, "n")["state"], "failed");
    ordered(target, &name, 1, 7, "seven");
    assert_eq!(target.one(&name, "n")["state"], "fresh");
}

fn a_redelivered_batch_changes_nothing(target: &Target) {
    let name = target.name("order");
    let batch: Vec<Value> = (0..20)
        .map(|place| json!({
            "dataName": name, "nodeName": format!("n{place}"), "dataValue": place, "epoch": 1, "sequence": 1,
        }))
        .collect();
    let send = || target.data.send_json("POST", "/api/data/batch", &json!(batch)).expect_status(200).json();
    assert_eq!(send()["created"], 20);
    let first = target.query(&format!("dataName={name}"));
    assert_eq!(send()["superseded"], 20);
    assert_eq!(target.query(&format!("dataName={name}")), first);
}

fn plain_writes_take_the_order_of_arrival(target: &Target) {
    let name = target.name("order");
    ordered(target, &name, 7, 7, "ordered");
    for value in ["one", "two", "one"] {
        assert_eq!(target.write(&name, "n", value)["outcome"], "replaced");
        assert_eq!(target.one(&name, "n")["dataValue"], value);
    }
    assert_eq!(ordered(target, &name, 7, 6, "old"), "superseded", "a plain write leaves the order as it was");
    assert_eq!(ordered(target, &name, 7, 8, "new"), "replaced");

    let at = |value: &str, instant: &str| {
        target.put(&json!({"dataName": name, "nodeName": "n", "dataValue": value, "collectedAt": instant}));
    };
    at("later", "2026-02-02T00:00:00Z");
    at("earlier", "2026-01-01T00:00:00Z");
    assert_eq!(target.one(&name, "n")["dataValue"], "earlier", "clocks order nothing");
}

fn post_and_put_say_what_they_did(target: &Target) {
    let name = target.name("outcome");
    for (method, node) in [("POST", "n1"), ("PUT", "n2")] {
        let body = json!({"dataName": name, "nodeName": node, "dataValue": 1});
        let first = target.data.send_json(method, "/api/data", &body).expect_status(201).json();
        let second = target.data.send_json(method, "/api/data", &body).expect_status(200).json();
        assert_eq!((&first["outcome"], &second["outcome"]), (&json!("created"), &json!("replaced")));
        assert!(second["revision"].as_u64() > first["revision"].as_u64());
    }
}

fn a_delete_deletes_once(target: &Target) {
    let name = target.name("delete");
    target.write(&name, "n", 1);
    let query = format!("dataName={name}");
    assert_eq!(target.delete(&query)["deleted"], 1);
    assert_eq!(target.delete(&query)["deleted"], 0);
    assert_eq!(target.delete(&format!("{query}&dataNode=n"))["deleted"], 0);
    let written = target.data.send_json(
        "PUT",
        "/api/data",
        &json!({"dataName": name, "nodeName": "n", "dataValue": 2}),
    );
    assert_eq!(written.expect_status(201).json()["outcome"], "created");
}

fn a_name_or_a_single_node_is_deleted(target: &Target) {
    let (name, other) = (target.name("delete"), target.name("delete"));
    for node in ["n1", "n2", "n3"] {
        target.write(&name, node, node);
        target.write(&other, node, node);
    }
    assert_eq!(target.delete(&format!("dataName={name}&dataNode=n2"))["deleted"], 1);
    assert_eq!(target.values(&format!("dataName={name}")), ["n1", "n3"]);
    assert_eq!(target.delete(&format!("dataName={name}"))["deleted"], 2);
    assert_eq!(target.values(&format!("dataName={other}")), ["n1", "n2", "n3"], "no other name is touched");
}
