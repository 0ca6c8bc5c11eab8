//! The registry's requests to the data service: histories that it should keep, and questions about its bindings.

#![allow(clippy::unwrap_used)]

mod support;

use serde_json::json;
use support::{ANY_PORT, Recording, Running, refused, simple, sqlite, with};

#[test]
fn histories_are_told_before_the_answer_and_after_a_start() {
    let (_folder, store) = sqlite();
    let (service, data) = (Running::start(&store), Recording::start(ANY_PORT, Vec::new()));
    service.tells(data.serving.address);
    data.wait_for(&json!({}));

    service.post(&with("a", &json!({ "history": { "keep": "1h", "max": 10 } }))).expect_status(201);
    let first = json!({ "a": { "keep": "1h", "max": 10 } });
    assert_eq!(data.last(), Some(first.clone()));
    service.post(&with("b", &json!({ "history": { "max": 2 } }))).expect_status(201);
    let both = json!({ "a": { "keep": "1h", "max": 10 }, "b": { "max": 2 } });
    assert_eq!(data.last(), Some(both));
    service.put(&simple("a")).expect_status(200);
    assert_eq!(data.last(), Some(json!({ "b": { "max": 2 } })));
    service.delete("b").expect_status(204);
    assert_eq!(data.last(), Some(json!({})));
    service.post(&with("a2", &json!({ "history": { "max": 3 } }))).expect_status(201);
    service.stop();

    let fresh = Recording::start(ANY_PORT, Vec::new());
    let service = Running::start(&store);
    service.tells(fresh.serving.address);
    fresh.wait_for(&json!({ "a2": { "max": 3 } }));
    service.stop();
    data.stop();
    fresh.stop();
}

#[test]
fn a_data_service_that_is_away_is_told_when_it_is_back() {
    let (_folder, store) = sqlite();
    let (service, data) = (Running::start(&store), Recording::start(ANY_PORT, Vec::new()));
    let address = data.serving.address;
    service.tells(address);
    data.wait_for(&json!({}));
    data.stop();

    service.post(&with("a", &json!({ "history": { "max": 2 } }))).expect_status(201);
    let back = Recording::start(address, Vec::new());
    back.wait_for(&json!({ "a": { "max": 2 } }));
    service.stop();
    back.stop();
}

#[test]
fn a_name_that_serves_the_values_of_another_one_is_taken() {
    let (_folder, store) = sqlite();
    let bound = json!({ "dataName": "a", "to": "b", "since": "2026-01-01T00:00:00Z", "revision": 4 });
    let (service, data) = (Running::start(&store), Recording::start(ANY_PORT, vec![bound]));
    service.tells(data.serving.address);
    let detail = refused(service.post(&simple("a")), 409);
    assert!(detail.contains("`a` is bound to `b`"), "{detail}");
    service.post(&simple("b")).expect_status(201);
    service.stop();
    data.stop();
}
