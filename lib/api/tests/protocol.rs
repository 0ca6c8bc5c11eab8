//! Manager and agent may be of different versions: each side ignores fields that it does not know, and does without
//! those that are newer than the other side. A registration is never read in part.
#![allow(clippy::unwrap_used)]

use std::fmt::Debug;

use estimand_api::assignment::AssignedRegistration;
use estimand_api::node::{Assignment, DesiredState, Heartbeat, HeartbeatAnswer, RunRequest};
use estimand_api::slot::{RunOutcome, SlotActivity};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

const NEW_FIELD: &str = "aNewField";

fn registration() -> Value {
    json!({ "dataName": "a", "cmd": "x", "max-Time": 1, "version": 7, "limits": { "memory": 1 << 20 } })
}

fn heartbeat() -> Value {
    let status = json!({ "dataName": "a", "version": 7, "doing": "running", "runs": 1, "failures": 0, "timeouts": 0,
        "overruns": 0, "failing": 0, "next": { "version": 8, "failures": 1 },
        "lastQuarantined": { "at": "2026-01-01T00:00:00Z", "reason": "r", "value": "1" } });
    json!({ "agent": "a", "boot": 1, "applied": 3, "facts": { "cores": 4 }, "delivery": { "waiting": 2 },
        "stopping": ["b"], "statuses": [status] })
}

fn report() -> Value {
    json!({ "argv": ["x"], "durationMs": 1.0, "cpuMs": 1.0, "maxMemory": 1, "stdout": "", "stdoutBytes": 0,
        "stderr": "", "values": [{ "nodeName": "n", "dataValue": {} }] })
}

/// The pointers of all objects that are not registrations and not values of users.
fn objects(value: &Value, at: String, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            let inner =
                map.iter().filter(|(name, _)| !["registration", "dataValue"].contains(&name.as_str()));
            inner.for_each(|(name, inner)| objects(inner, format!("{at}/{name}"), found));
            found.push(at);
        }
        Value::Array(items) => {
            let inner = items.iter().enumerate();
            inner.for_each(|(place, inner)| objects(inner, format!("{at}/{place}"), found));
        }
        _ => {}
    }
}

#[track_caller]
fn check_ignores_new_fields<T: DeserializeOwned + Serialize + PartialEq + Debug>(
    message: &Value,
    levels: usize,
) {
    let known: T = serde_json::from_value(message.clone()).unwrap();
    let mut places = Vec::new();
    objects(message, String::new(), &mut places);
    assert_eq!(places.len(), levels, "{places:?}");
    for place in places {
        let mut newer = message.clone();
        newer.pointer_mut(&place).unwrap()[NEW_FIELD] = json!({ "deep": [1] });
        let read: T =
            serde_json::from_str(&newer.to_string()).unwrap_or_else(|e| panic!("at `{place}`: {e}"));
        assert_eq!(read, known, "at `{place}`");
        assert!(!serde_json::to_string(&read).unwrap().contains(NEW_FIELD));
    }
}

#[test]
fn a_field_of_a_newer_version_is_ignored_at_every_level() {
    check_ignores_new_fields::<Heartbeat>(&heartbeat(), 6);
    let answer = json!({ "intervalMs": 1000, "leaseMs": 5000, "resend": false });
    check_ignores_new_fields::<HeartbeatAnswer>(&answer, 1);
    let assignment = json!({ "epoch": 1, "leased": true, "registration": registration() });
    check_ignores_new_fields::<Assignment>(&assignment, 1);
    let request = json!({ "id": 1, "registration": registration() });
    check_ignores_new_fields::<RunRequest>(&request, 1);
    let desired = json!({ "revision": 1, "slots": [assignment], "runs": [request] });
    check_ignores_new_fields::<DesiredState>(&desired, 3);
    check_ignores_new_fields::<RunOutcome>(&json!({ "report": report() }), 3);
    check_ignores_new_fields::<RunOutcome>(&json!({ "refused": "no" }), 1);
}

#[test]
fn a_message_of_an_older_version_has_fewer_fields() {
    let beat: Heartbeat = serde_json::from_value(json!({ "agent": "a", "boot": 1, "applied": 0 })).unwrap();
    assert_eq!(beat, Heartbeat { agent: "a".to_owned(), boot: 1, ..Heartbeat::default() });
    let desired: DesiredState = serde_json::from_value(json!({ "revision": 1, "slots": [] })).unwrap();
    assert_eq!(desired, DesiredState { revision: 1, ..DesiredState::default() });
    let status = json!({ "dataName": "a", "version": 7, "doing": "idle", "runs": 1, "failures": 0, "timeouts": 0,
        "overruns": 0, "failing": 0 });
    let beat = json!({ "agent": "a", "boot": 1, "applied": 0, "statuses": [status] });
    let beat: Heartbeat = serde_json::from_value(beat).unwrap();
    assert_eq!((beat.statuses[0].doing, &beat.statuses[0].next), (SlotActivity::Idle, &None));
}

#[test]
fn a_registration_of_a_newer_version_is_decoded_and_not_supported() {
    for (place, reason) in
        [("", "`aNewField` is not a known field"), ("/limits", "`limits.aNewField` is not a known field")]
    {
        let mut newer = registration();
        newer.pointer_mut(place).unwrap()[NEW_FIELD] = json!("secret");
        let slots =
            json!([{ "epoch": 1, "registration": newer }, { "epoch": 2, "registration": registration() }]);
        let message = json!({ "revision": 1, "slots": slots });
        let desired: DesiredState = serde_json::from_value(message.clone()).unwrap();
        let AssignedRegistration::Unsupported(unsupported) = &desired.slots[0].registration else {
            panic!("{desired:?}");
        };
        assert_eq!(unsupported.reasons, [reason]);
        assert_eq!((unsupported.data_name.as_ref().unwrap().as_str(), unsupported.version), ("a", 7));
        assert!(!format!("{desired:?}").contains("secret"), "{desired:?}");
        // Nothing of it is lost on the agent's disk, and the other assignment is not concerned.
        assert_eq!(serde_json::to_value(&desired).unwrap()["slots"][0], message["slots"][0]);
        assert_eq!(desired.slots[1].registration.supported().unwrap().version, 7);
    }
}

#[test]
fn the_work_of_a_newer_version_is_decoded_and_not_supported() {
    let assigned = |id: &str, work: Value| json!({ "id": id, "attempt": 1, "work": work });
    let newer = assigned("newer", json!({ "command": ["true"], NEW_FIELD: "hush" }));
    let known = assigned("known", json!({ "command": ["true"] }));
    let message = json!({ "revision": 1, "slots": [], "tasks": [newer, known], "taskServer": "http://t" });
    let desired: DesiredState = serde_json::from_value(message.clone()).unwrap();
    let tasks = desired.tasks.as_ref().unwrap();
    let reason = tasks[0].work.supported().unwrap_err();
    assert!(reason.contains("`aNewField`") && !reason.contains("hush"), "{reason}");
    assert!(!format!("{desired:?}").contains("hush"), "{desired:?}");
    assert_eq!(tasks[1].work.supported().unwrap().command, ["true"]);
    assert_eq!(serde_json::to_value(&desired).unwrap(), message, "nothing of it is lost on the agent's disk");
}

#[test]
fn a_registration_that_is_not_understood_at_all_stops_no_other() {
    for strange in [
        json!({}),
        json!({ "dataName": "a name", "version": "x" }),
        json!({ "dataName": "a", "mode": "wasm" }),
    ] {
        let read = AssignedRegistration::from_map(strange.as_object().unwrap().clone());
        assert_eq!((read.version(), read.supported()), (0, None), "{strange}");
        assert_eq!(serde_json::to_value(&read).unwrap(), strange);
    }
}

#[test]
fn an_outcome_is_a_report_or_a_refusal() {
    for (body, error) in [
        (json!({}), "is missing"),
        (json!({ "refused": "no", "report": report() }), "does not go with `refused`"),
        (json!({ "refused": 1 }), "invalid type"),
    ] {
        let read = serde_json::from_value::<RunOutcome>(body.clone()).unwrap_err().to_string();
        assert!(read.contains(error), "{body}: {read}");
    }
    let refused = RunOutcome::Refused("no".to_owned());
    assert_eq!(serde_json::to_value(&refused).unwrap(), json!({ "refused": "no" }));
}
