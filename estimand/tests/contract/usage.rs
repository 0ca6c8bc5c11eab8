//! The usage of tasks: each attempt's as its agent tells it, and all of them added up.

use estimand_testkit::wait::{self, PATIENCE};
use serde_json::{Value, json};

use crate::answers::{unknown_input, wrong_field, wrong_input};
use crate::fake::Fake;
use crate::limits::Submitter;
use crate::target::Target;
use crate::tasks::{assigned, document, submit, task, tell};

on_every_target!(what_attempts_used_is_kept_and_added_up, usage_is_added_up_by_what_can_be_named);

const MIB: u64 = 1 << 20;

fn used(seconds: u64, peak: u64) -> Value {
    json!({ "ranUs": seconds * 1_000_000, "cpuUserUs": seconds * 400_000, "cpuSystemUs": seconds * 100_000,
        "memoryPeak": peak * MIB, "memoryMean": peak * MIB / 2, "memoryCache": MIB, "memoryLimit": 64 * MIB,
        "diskRead": 512, "diskWritten": 4096 })
}

/// Tells the end of an attempt; an agent of the version before does not say what it used.
fn end(target: &Target, id: &str, attempt: u64, ending: &Value, used: Option<Value>) {
    let mut stage = json!({ "ended": { "ending": ending } });
    if let Some(used) = used {
        stage["ended"]["used"] = used;
    }
    let report = json!({ "id": id, "attempt": attempt, "at": 1, "stage": stage });
    tell(target, &json!({ "reports": [report] })).expect_status(200);
}

fn group(target: &Target, by: &str, name: &str) -> Value {
    let report = target.tasks.get(&format!("/api/usage?by={by}")).expect_status(200).json();
    let groups = report["groups"].as_array().unwrap();
    groups.iter().find(|group| group["name"] == name).unwrap_or_else(|| panic!("{name}: {report}")).clone()
}

fn what_attempts_used_is_kept_and_added_up(target: &Target) {
    let (fake, mark) = (Fake::known(target), target.name("study"));
    let mut asked = document(&fake);
    asked["labels"] = json!({ "study": mark });
    asked["user"] = json!(mark.to_lowercase());
    asked["resources"] = json!({ "cpu": 1.5, "memory": 512 });
    asked["retries"] = json!({ "count": 2, "backOff": "1ms" });
    let id = submit(target, &asked)["id"].as_str().unwrap().to_owned();
    let attempts = [
        (json!("outOfMemory"), Some(used(2, 64))),
        (json!({ "signal": 9 }), None),
        (json!({ "exit": 0 }), Some(used(6, 20))),
    ];
    for ((ending, used), number) in attempts.into_iter().zip(1..) {
        wait::until(PATIENCE, "the attempt to be assigned", || {
            (assigned(&fake, &id)["attempt"] == number).then_some(())
        });
        end(target, &id, number, &ending, used);
    }
    let over = task(target, &id);
    assert_eq!(over["state"], "SUCCEEDED", "{over}");
    let expected = json!([{ "attempt": 1, "usage": used(2, 64) }, { "attempt": 3, "usage": used(6, 20) }]);
    assert_eq!(over["used"], expected, "{over}");
    let listed = target.tasks.get(&format!("/api/tasks?labels=study%3D{mark}")).expect_status(200).json();
    assert_eq!(listed["tasks"][0]["used"], json!([expected[1]]), "{listed}");
    let events = target.tasks.get(&format!("/api/tasks/events?id={id}")).expect_status(200).json();
    let ends: Vec<&Value> =
        events["events"].as_array().unwrap().iter().map(|event| &event["cause"]["used"]).collect();
    assert!(ends.contains(&&used(2, 64)) && ends.contains(&&used(6, 20)), "{events}");

    // Another task with the same label, which nobody has measured.
    let other = submit(
        target,
        &json!({ "command": "/bin/true", "nodes": "node=nowhere", "labels": { "study": mark } }),
    );
    let sum = json!({ "attempts": 2, "ranUs": 8_000_000, "cpuUs": 4_000_000,
        "memoryByteSeconds": (2 * 32 + 6 * 10) * MIB, "memoryPeak": 64 * MIB, "diskRead": 1024, "diskWritten": 8192 });
    let of_label = group(target, "label:study", &mark);
    let expected = json!({ "name": mark, "tasks": 2, "askedCpuUs": 12_000_000,
        "askedMemoryByteSeconds": 8 * 512, "used": sum });
    assert_eq!(of_label, expected);
    let of_user = group(target, "user", &mark.to_lowercase());
    assert_eq!((&of_user["tasks"], &of_user["used"]), (&json!(1), &sum));
    for id in [&id, other["id"].as_str().unwrap()] {
        target.tasks.request("POST", &format!("/api/tasks/{id}/cancel"), &[], b"").expect_status(200);
        target.tasks.request("DELETE", &format!("/api/tasks/{id}"), &[], b"").expect_status(204);
    }
    let report = target.tasks.get("/api/usage?by=label:study").expect_status(200).json();
    assert!(!report["groups"].to_string().contains(&mark), "only kept tasks count: {report}");
}

fn usage_is_added_up_by_what_can_be_named(target: &Target) {
    wrong_field(&target.tasks.get("/api/usage"), "by");
    wrong_input(&target.tasks.get("/api/usage?by=team"), "by", "team", "label:");
    wrong_field(&target.tasks.get("/api/usage?by=label:"), "by");
    unknown_input(&target.tasks.get("/api/usage?by=user&of=x"), "of", "by");
}

pub fn a_user_sees_their_own(target: &Target) {
    let [alice, bob] = [Submitter::new(target), Submitter::new(target)];
    let array = alice.submit(&json!({ "count": 3 })).expect_status(201).json()["id"].clone();
    bob.submit(&json!({})).expect_status(201);
    let report = alice.http.get("/api/usage?by=array").expect_status(200).json();
    assert_eq!((&report["all"]["tasks"], &report["groups"][0]["name"]), (&json!(3), &array), "{report}");
    let report = bob.http.get("/api/usage?by=user").expect_status(200).json();
    let groups = report["groups"].as_array().unwrap();
    assert_eq!((groups.len(), &groups[0]["name"], &groups[0]["tasks"]), (1, &json!(bob.user), &json!(1)));
}
