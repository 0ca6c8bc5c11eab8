//! Summaries, for pages that look every few seconds: of names without their values, and of registrations without their
//! instances.

use estimand_testkit::wait::{self, PATIENCE};
use serde_json::{Value, json};

use crate::fake::Fake;
use crate::target::Target;

on_every_target!(names_are_summed_up, instances_are_summed_up);

/// The entry of a name in a list; none if it is not there.
fn entry(list: &Value, name: &str) -> Option<Value> {
    list.as_array().unwrap().iter().find(|one| one["dataName"] == name).cloned()
}

fn names_are_summed_up(target: &Target) {
    let (name, alias, part) =
        (target.name("summed"), target.name("summed_alias"), target.name("summed_part"));
    let list = || target.data.get("/api/data/names").expect_status(200).json();
    assert_eq!(entry(&list(), &name), None);
    target.write(&name, "n1", json!({ "a": 1 }));
    target.write(&name, "n2", 2);
    let own = entry(&list(), &name).unwrap();
    assert_eq!(
        (&own["values"], &own["states"]["fresh"], &own["boundTo"]),
        (&json!(2), &json!(2), &Value::Null)
    );
    assert!(own["changedAt"].is_string(), "{own}");
    let failed = json!({ "dataName": name, "nodeName": "n1", "state": "failed" });
    target.put(&failed);
    let own = entry(&list(), &name).unwrap();
    assert_eq!(own["states"], json!({ "fresh": 1, "stale": 0, "failed": 1, "node-lost": 0 }));
    for (bound, body) in [(&alias, json!({ "to": name })), (&part, json!({ "to": name, "field": "/a" }))] {
        target.data.send_json("PUT", &format!("/api/bindings/{bound}"), &body).expect_status(200);
    }
    let all = list();
    let of = |bound: &str| entry(&all, bound).unwrap();
    assert_eq!((&of(&alias)["boundTo"], &of(&alias)["values"]), (&json!(name), &json!(2)));
    // A value without the part is not served.
    assert_eq!(of(&part)["values"], 1);
    let sorted: Vec<&str> =
        all.as_array().unwrap().iter().map(|one| one["dataName"].as_str().unwrap()).collect();
    assert!(sorted.is_sorted(), "{sorted:?}");
}

fn instances_are_summed_up(target: &Target) {
    let (fake, name) = (Fake::known(target), target.name("summed_run"));
    let summary = || {
        let list = target.manager.get("/api/mng/instances/summary").expect_status(200).json();
        entry(&list, &name)
    };
    assert_eq!(summary(), None);
    target.register(&fake.registration(&name));
    let shown = wait::until(PATIENCE, "an instance", || {
        fake.follow();
        summary()
    });
    assert_eq!(shown, json!({ "dataName": name, "instances": 1, "absent": 0, "troubled": 0 }));
    let absent = json!({
        "dataName": name, "version": 1, "doing": "unavailable", "runs": 1, "failures": 0, "timeouts": 0, "overruns": 0,
        "failing": 0, "note": "there is no sensor",
    });
    fake.beat_with(&json!({ "statuses": [absent] })).expect_status(200);
    let shown = wait::until(PATIENCE, "the absence", || summary().filter(|shown| shown["absent"] == 1));
    assert_eq!(shown, json!({ "dataName": name, "instances": 1, "absent": 1, "troubled": 0 }));
    let failing = json!({
        "dataName": name, "version": 1, "doing": "idle", "runs": 7, "failures": 7, "timeouts": 0, "overruns": 0,
        "failing": 7, "lastError": "it ended with exit 3", "stderrTail": "no such sensor",
    });
    fake.beat_with(&json!({ "statuses": [failing] })).expect_status(200);
    let shown = wait::until(PATIENCE, "the failure", || summary().filter(|shown| shown["troubled"] == 1));
    let first = &shown["first"];
    assert_eq!((&first["nodeName"], &first["stderrTail"]), (&json!(fake.node), &json!("no such sensor")));
    assert!(first["trouble"].as_str().unwrap().contains("it ended with exit 3"), "{shown}");
}
