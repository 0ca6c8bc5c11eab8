//! Progress: how far tasks say they are, by label and by user.

use std::collections::BTreeSet;

use estimand_testkit::http::Http;
use serde_json::json;

use crate::fake::Fake;
use crate::target::Target;
use crate::tasks::{assigned, document, submit, task, tell};
use crate::users::Caller;

on_every_target!(how_far_a_task_is_is_read_by_label);

fn how_far_a_task_is_is_read_by_label(target: &Target) {
    let (fake, label) = (Fake::known(target), target.name("study"));
    let mut asked = document(&fake);
    asked["labels"] = json!({ "of": label });
    let id = submit(target, &asked)["id"].as_str().unwrap().to_owned();
    assigned(&fake, &id);
    let text = "estimand-progress {\"step\": 3, \"of\": 90, \"values\": {\"genauigkeit \u{1F980}\": 0.91}}";
    let line = json!({ "at": 1_000_000, "stream": "STDOUT", "text": text });
    let log = json!({ "id": id, "attempt": 1, "first": 0, "lines": [line] });
    tell(target, &json!({ "logs": [log], "reports": [] })).expect_status(200);
    let path = format!("/api/tasks/progress?labels=of%3D{label}&waitMs=30000");
    let answer = target.tasks.get(&path).expect_status(200);
    let page = answer.json();
    let [report] = &page["reports"].as_array().unwrap()[..] else { panic!("{page}") };
    let progress = json!({ "attempt": 1, "at": "1970-01-01T00:00:01.000000Z", "step": 3, "of": 90,
        "values": { "genauigkeit \u{1F980}": 0.91 } });
    assert_eq!(task(target, &id)["progress"], progress);
    for field in ["attempt", "at", "step", "of", "values"] {
        assert_eq!(report[field], progress[field]);
    }
    assert_eq!(report["id"], id.as_str());
    assert_eq!(answer.header("estimand-revision"), Some(page["revision"].to_string().as_str()));
    let rest = target.tasks.get(&format!("/api/tasks/progress?labels=of%3D{label}&after={}", page["next"]));
    assert_eq!(rest.expect_status(200).json()["reports"], json!([]));
}

/// A reader sees the progress of their own tasks, an operator that of all.
pub fn of_users(target: &Target, alice: &Caller, bob: &Caller) {
    let begin = target.tasks.get("/api/tasks/progress?limit=1").expect_status(200).json()["revision"].clone();
    let fake = Fake::known(target);
    let own = |caller: &Caller| {
        let document =
            json!({ "command": "/bin/true", "nodes": format!("fake={}", fake.node), "onLoss": "wait" });
        let task = caller.tasks.send_json("POST", "/api/tasks", &document).expect_status(201).json();
        let id = task["id"].as_str().unwrap().to_owned();
        assigned(&fake, &id);
        let line = json!({ "at": 1, "stream": "STDOUT", "text": "estimand-progress {\"step\": 1}" });
        let log = json!({ "id": id, "attempt": 1, "first": 0, "lines": [line] });
        tell(target, &json!({ "logs": [log], "reports": [] })).expect_status(200);
        id
    };
    let (hers, theirs) = (own(alice), own(bob));
    let seen = |http: &Http, more: &str| -> BTreeSet<String> {
        let path = format!("/api/tasks/progress?after={begin}&limit=1000{more}");
        let page = http.get(&path).expect_status(200).json();
        let reports = page["reports"].as_array().unwrap();
        reports.iter().map(|report| report["id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(seen(&alice.tasks, ""), BTreeSet::from([hers.clone()]));
    assert_eq!(seen(&bob.tasks, ""), BTreeSet::from([theirs.clone()]));
    assert!(seen(&target.tasks, "").is_superset(&BTreeSet::from([hers.clone(), theirs])));
    assert_eq!(seen(&bob.tasks, &format!("&id={hers}&user={}", alice.name)), BTreeSet::new());
}
