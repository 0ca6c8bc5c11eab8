//! Bindings: a stable name serves another one's values, and is swapped while readers read.

use std::collections::BTreeSet;
use std::thread;

use estimand_testkit::http::Response;
use serde_json::{Value, json};

use crate::answers::{column, problem, wrong_field};
use crate::target::Target;

on_every_target!(
    a_binding_serves_another_names_values,
    a_swap_is_seen_from_one_moment_to_the_next,
    a_binding_is_listed_and_removed,
    a_change_that_contradicts_a_binding_is_refused,
    a_bound_name_takes_no_writes,
    wrong_bindings_are_refused,
);

fn bind(target: &Target, name: &str, to: &str) -> Response {
    target.data.send_json("PUT", &format!("/api/bindings/{name}"), &json!({"to": to}))
}

fn unbind(target: &Target, name: &str) -> Response {
    target.data.request("DELETE", &format!("/api/bindings/{name}"), &[], b"")
}

fn a_binding_serves_another_names_values(target: &Target) {
    let (stable, estimator) = (target.name("capability"), target.name("estimator"));
    target.write(&estimator, "n1", 0.5);
    let bound = bind(target, &stable, &estimator).expect_status(200).json();
    assert_eq!((&bound["dataName"], &bound["to"]), (&json!(stable), &json!(estimator)));
    assert!(bound["since"].is_string() && bound["revision"].is_u64(), "{bound}");

    target.write(&estimator, "n2", 0.6);
    let served = target.query(&format!("dataName={stable}"));
    assert_eq!(column(&served, "dataName"), [&*stable, &*stable], "a reader sees the name it asked for");
    assert_eq!(target.values(&format!("dataName={stable}")), [0.5, 0.6]);
    let own = target.one(&estimator, "n2");
    let mut shown = target.one(&stable, "n2");
    shown["dataName"] = own["dataName"].clone();
    assert_eq!(shown, own, "everything else is the same");
    let text =
        target.data.request("GET", &format!("/api/data/{stable}/n2"), &[("Accept", "text/plain")], b"");
    assert_eq!(text.text(), "0.6");
    assert_eq!(target.values(&format!("dataName={estimator},{stable}&dataNode=n1")), [0.5, 0.5]);

    target.delete(&format!("dataName={estimator}"));
    assert_eq!(target.values(&format!("dataName={stable}")), Vec::<Value>::new());
}

fn a_swap_is_seen_from_one_moment_to_the_next(target: &Target) {
    let (stable, one, two) = (target.name("capability"), target.name("estimator"), target.name("estimator"));
    for node in ["n1", "n2", "n3"] {
        target.write(&one, node, "one");
        target.write(&two, node, "two");
    }
    bind(target, &stable, &one).expect_status(200);
    thread::scope(|scope| {
        let swapper = scope.spawn(|| {
            for turn in 0..60 {
                bind(target, &stable, if turn % 2 == 0 { &two } else { &one }).expect_status(200);
            }
        });
        let mut seen = BTreeSet::new();
        while !swapper.is_finished() {
            let values = target.values(&format!("dataName={stable}"));
            assert_eq!(values.len(), 3, "a reader never finds a gap");
            assert!(values.iter().all(|value| *value == values[0]), "of both at once: {values:?}");
            seen.insert(values[0].as_str().unwrap().to_owned());
        }
        assert_eq!(seen.len(), 2, "no swap was seen, so nothing was shown");
    });
}

fn a_binding_is_listed_and_removed(target: &Target) {
    let (stable, estimator) = (target.name("capability"), target.name("estimator"));
    let path = format!("/api/bindings/{stable}");
    problem(&target.data.get(&path), 404);
    let bound = bind(target, &stable, &estimator).expect_status(200).json();
    assert_eq!(target.data.get(&path).expect_status(200).json(), bound);
    assert_eq!(
        bind(target, &stable, &estimator).expect_status(200).json(),
        bound,
        "the same again is no change"
    );
    let all = target.data.get("/api/bindings").expect_status(200).json();
    assert!(all.as_array().unwrap().contains(&bound), "{all}");

    target.write(&estimator, "n", 1);
    unbind(target, &stable).expect_status(204);
    problem(&target.data.get(&path), 404);
    problem(&unbind(target, &stable), 404);
    assert_eq!(target.values(&format!("dataName={stable}")), Vec::<Value>::new());
    assert_eq!(target.values(&format!("dataName={estimator}")), [1], "its values are its own");
    assert_eq!(target.write(&stable, "n", 2)["outcome"], "created", "the name is free again");
}

fn a_change_that_contradicts_a_binding_is_refused(target: &Target) {
    let (stable, estimator, other) =
        (target.name("capability"), target.name("estimator"), target.name("other"));
    let conflict = |name: &str, to: &str, says: &str| {
        let refused = problem(&bind(target, name, to), 409);
        let detail = refused["detail"].as_str().unwrap();
        assert!(detail.contains(says) && detail.contains(name), "{detail}");
    };
    conflict(&stable, &stable, "itself");
    target.write(&other, "n", 1);
    conflict(&other, &estimator, "values of its own");
    bind(target, &stable, &estimator).expect_status(200);
    conflict(&other, &stable, &estimator);
    conflict(&estimator, &other, &stable);
}

fn a_bound_name_takes_no_writes(target: &Target) {
    let (stable, estimator) = (target.name("capability"), target.name("estimator"));
    target.write(&estimator, "n", 1);
    bind(target, &stable, &estimator).expect_status(200);
    let body = json!({"dataName": stable, "nodeName": "n", "dataValue": 2});
    let failed = json!({"dataName": stable, "nodeName": "n", "state": "failed"});
    for answer in [
        target.data.send_json("POST", "/api/data", &body),
        target.data.send_json("PUT", "/api/data", &body),
        target.data.send_json("PUT", "/api/data", &failed),
        target.data.request("DELETE", &format!("/api/data?dataName={stable}"), &[], b""),
    ] {
        let refused = problem(&answer, 409);
        assert!(
            refused["detail"].as_str().unwrap().contains(&estimator),
            "it says where to write: {refused}"
        );
    }
    assert_eq!(target.values(&format!("dataName={stable}")), [1]);
}

fn wrong_bindings_are_refused(target: &Target) {
    let name = target.name("capability");
    let put = |path: &str, body: &Value| target.data.send_json("PUT", path, body);
    let path = format!("/api/bindings/{name}");
    wrong_field(&put(&path, &json!({})), "to");
    wrong_field(&put(&path, &json!({"to": 7})), "to");
    wrong_field(&put(&path, &json!({"to": "no name"})), "to");
    wrong_field(&put(&path, &json!({"to": "a", "until": "b"})), "until");
    wrong_field(&put("/api/bindings/no%20name", &json!({"to": "a"})), "dataName");
    wrong_field(&put(&path, &json!(["a"])), "body");
    problem(&target.data.get(&path), 404);
}
