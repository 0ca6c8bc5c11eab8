//! Trials that run as tasks on a real agent.

use chrono::{DateTime, FixedOffset};
use estimand_testkit::sale_plane::SalePlane;
use estimand_testkit::wait::{self, PATIENCE};
use serde_json::{Value, json};

use crate::repeats::trials;

/// Waits until a study is over, and its tasks are gone.
fn wait_until_over(plane: &SalePlane, id: &str) -> Value {
    let over = wait::until_ok(PATIENCE, "the study to be over", || {
        let study = plane.http.get(&format!("/api/studies/{id}")).expect_status(200).json();
        if study["state"] == "OVER" { Ok(study) } else { Err(study) }
    });
    wait::until_ok(PATIENCE, "its tasks to be gone", || {
        let tasks = plane.http.get("/api/tasks?labels=estimand-study").expect_status(200).json();
        if tasks["tasks"].as_array().unwrap().is_empty() { Ok(()) } else { Err(tasks) }
    });
    over
}

#[test]
fn trials_run_as_tasks_and_go_on_after_a_kill() {
    let mut plane = SalePlane::start(&[]);
    let script = "echo \"$ESTIMAND_TASK_PARAMETERS\" | grep -q '\"x\":{x}' || exit 3; \
                  [ {n} = 2 ] && exit 7; echo 'estimand-progress {\"step\": 1, \"values\": {\"loss\": 9}}'; \
                  echo 'estimand-progress {\"values\": {\"loss\": {x}, \"other\": 1}}'";
    let study = json!({ "id": "s", "direction": "minimize", "sampler": "random", "seed": 3, "stop": { "trials": 6 },
        "parameters": [{ "name": "x", "type": "float", "low": 0.25, "high": 0.75, "step": 0.125 },
            { "name": "n", "type": "integer", "low": 1, "high": 2 }],
        "task": { "command": ["/bin/sh", "-c", script] }, "parallel": 2, "objective": "loss" });
    plane.http.send_json("POST", "/api/studies", &study).expect_status(201);
    wait::until_ok(PATIENCE, "a result", || {
        let study = plane.http.get("/api/studies/s").expect_status(200).json();
        let running = study["trials"]["running"].as_u64().unwrap();
        assert!(running <= 2, "{study}");
        let ended =
            ["complete", "failed"].iter().map(|state| study["trials"][state].as_u64().unwrap()).sum::<u64>();
        if ended > 0 { Ok(()) } else { Err(study) }
    });
    plane.services.kill9();
    plane.services.restart_on_same_port();
    let over = wait_until_over(&plane, "s");
    assert_eq!(over["reason"], "trials", "{over}");
    let all = trials(&plane.http, "s");
    assert_eq!(all.len(), 6);
    for trial in all {
        if trial["parameters"]["n"] == 2 {
            assert_eq!(trial["state"], "FAILED", "{trial}");
            assert!(trial["reason"].as_str().unwrap().contains("\"exit\":7"), "{trial}");
        } else {
            assert_eq!((&trial["state"], &trial["value"]), (&json!("COMPLETE"), &trial["parameters"]["x"]));
            assert_eq!(trial["lastStep"], 1, "{trial}");
        }
    }
}

#[test]
fn a_trial_that_leads_nowhere_is_ended_and_so_are_those_of_a_study_that_is_stopped() {
    let plane = SalePlane::start(&[]);
    let script = "for step in 1 2; do echo \"estimand-progress {\\\"step\\\": $step, \\\"values\\\": {\\\"value\\\": $step}}\"; done; sleep 1000";
    let study = |id: &str, more: &Value| {
        let mut study = json!({ "id": id, "direction": "minimize", "sampler": "random", "stop": { "trials": 1 },
            "parameters": [{ "name": "x", "type": "float", "low": 0, "high": 1 }],
            "task": { "command": ["/bin/sh", "-c", script] } });
        study.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        plane.http.send_json("POST", "/api/studies", &study).expect_status(201);
    };
    study("pruned", &json!({ "pruner": { "name": "plateau", "patience": 1 } }));
    let over = wait_until_over(&plane, "pruned");
    assert_eq!(over["trials"]["pruned"], 1, "{over}");
    assert_eq!(trials(&plane.http, "pruned")[0]["value"], 2.0);

    study("stopped", &json!({}));
    wait::until_ok(PATIENCE, "its task to say something", || {
        let all = trials(&plane.http, "stopped");
        if all.first().is_some_and(|trial| trial["lastStep"] == 2) { Ok(()) } else { Err(json!(all)) }
    });
    plane.http.request("POST", "/api/studies/stopped/stop", &[], b"").expect_status(200);
    wait::until_ok(PATIENCE, "its trial to end", || {
        let trial = trials(&plane.http, "stopped")[0].clone();
        if trial["state"] == "FAILED" { Ok(()) } else { Err(trial) }
    });
    wait_until_over(&plane, "stopped");

    study("deleted", &json!({}));
    wait::until_ok(PATIENCE, "its task", || {
        let tasks = plane.http.get("/api/tasks?labels=estimand-study").expect_status(200).json();
        if tasks["tasks"].as_array().unwrap().len() == 1 { Ok(()) } else { Err(tasks) }
    });
    plane.http.request("DELETE", "/api/studies/deleted", &[], b"").expect_status(204);
    wait::until_ok(PATIENCE, "its task to be gone", || {
        let tasks = plane.http.get("/api/tasks?labels=estimand-study").expect_status(200).json();
        if tasks["tasks"].as_array().unwrap().is_empty() { Ok(()) } else { Err(tasks) }
    });
}

/// A runner that only looks once a second takes two for each trial.
#[test]
fn the_next_trial_begins_when_one_has_ended() {
    let plane = SalePlane::start(&[]);
    let study = json!({ "id": "soon", "direction": "minimize", "sampler": "random", "stop": { "trials": 12 },
        "parameters": [{ "name": "x", "type": "float", "low": 0, "high": 1 }],
        "task": { "command": ["/bin/echo", "estimand-progress {\"values\": {\"value\": {x}}}"] } });
    plane.http.send_json("POST", "/api/studies", &study).expect_status(201);
    wait_until_over(&plane, "soon");
    let asked: Vec<DateTime<FixedOffset>> = trials(&plane.http, "soon")
        .iter()
        .map(|trial| DateTime::parse_from_rfc3339(trial["askedAt"].as_str().unwrap()).unwrap())
        .collect();
    let spans = asked.windows(2).map(|pair| pair[1] - pair[0]);
    let least = spans.min().unwrap();
    println!("from one trial to the next: at least {} ms", least.num_milliseconds());
    assert!(least.num_milliseconds() < 1_500, "{asked:?}");
}

/// A user's trials are the user's tasks: a full share has them wait, and a task of somebody else with their labels is none of them.
#[test]
fn trials_of_a_user_stay_within_that_users_shares() {
    const AT_ONCE: usize = 2;
    let plane = SalePlane::start(&[]);
    let eve = plane.client(&plane.user_token("eve"));
    let mallory = plane.client(&plane.user_token("mallory"));
    plane.http.send_json("PATCH", "/api/users/eve", &json!({ "tasks": AT_ONCE })).expect_status(200);
    let study = json!({ "id": "eves", "direction": "minimize", "sampler": "random", "stop": { "trials": 6 },
        "parameters": [{ "name": "x", "type": "float", "low": 0, "high": 1 }], "parallel": 4,
        "task": { "command": ["/bin/sh", "-c", "sleep 0.3; echo 'estimand-progress {\"values\": {\"value\": {x}}}'"] } });
    eve.send_json("POST", "/api/studies", &study).expect_status(201);
    let labels = json!({ "estimand-study": "1", "estimand-trial": "0" });
    let forged = json!({ "command": ["/bin/echo", "estimand-progress {\"values\": {\"value\": -1}}"], "labels": labels });
    mallory.send_json("POST", "/api/tasks", &forged).expect_status(201);
    let over = wait::until_ok(PATIENCE, "the study to be over", || {
        let tasks = eve.get("/api/tasks?state=QUEUED,PLACED,PREPARING,RUNNING").expect_status(200).json();
        let tasks = tasks["tasks"].as_array().unwrap().clone();
        assert!(tasks.len() <= AT_ONCE, "{tasks:?}");
        assert!(tasks.iter().all(|task| task["document"]["user"] == "eve"), "{tasks:?}");
        let study = eve.get("/api/studies/eves").expect_status(200).json();
        if study["state"] == "OVER" { Ok(study) } else { Err(study) }
    });
    assert_eq!(over["trials"]["failed"], 0, "{over}");
    for trial in trials(&eve, "eves") {
        assert_eq!(
            (&trial["state"], &trial["value"]),
            (&json!("COMPLETE"), &trial["parameters"]["x"]),
            "{trial}"
        );
    }
}

/// A task that is refused once would be refused again.
#[test]
fn a_study_whose_tasks_are_refused_is_paused_and_says_why() {
    let plane = SalePlane::start(&[]);
    let eve = plane.client(&plane.user_token("eve"));
    let study = json!({ "id": "eves", "direction": "minimize", "parallel": 1,
        "parameters": [{ "name": "x", "type": "float", "low": 0, "high": 1 }],
        "task": { "command": "/bin/true", "priority": 9 } });
    eve.send_json("POST", "/api/studies", &study).expect_status(201);
    wait::until_ok(PATIENCE, "the study to be paused", || {
        let study = eve.get("/api/studies/eves").expect_status(200).json();
        if study["state"] == "PAUSED" { Ok(()) } else { Err(study) }
    });
    let all = trials(&eve, "eves");
    assert_eq!(all[0]["state"], "FAILED", "{all:?}");
    assert!(all[0]["reason"].as_str().unwrap().contains("priority"), "{all:?}");
}
