//! A reservation is told, and charged, what its task had: by the task's record, whatever was planned and whoever was away.

use std::time::Duration;

use estimand_testkit::wait::{self, PATIENCE};
use serde_json::{Value, json};

use crate::plane::{Plane, credits, seconds};

/// Milliseconds since 1970.
fn millis(instant: &Value) -> u64 {
    let at = chrono::DateTime::parse_from_rfc3339(instant.as_str().unwrap()).unwrap();
    u64::try_from(at.timestamp_millis()).unwrap()
}

/// The milliseconds of its window that a task was on its node, and those before its first beginning, by its record.
pub fn record(plane: &Plane, task: &str, window: (u64, u64)) -> (u64, u64) {
    let task = plane.http.get(&format!("/api/tasks/{task}")).expect_status(200).json();
    let within = |at: u64| at.clamp(window.0 * 1_000, window.1 * 1_000);
    let mut had = 0;
    let mut begun = None;
    let mut first = None;
    for transition in task["transitions"].as_array().unwrap() {
        let at = within(millis(&transition["at"]));
        // It may be told when the task is to end already.
        if matches!(transition["cause"]["event"].as_str().unwrap(), "prepare" | "start") {
            begun.get_or_insert(at);
        }
        first = first.or(begun);
        if matches!(transition["to"].as_str().unwrap(), "SUCCEEDED" | "FAILED" | "CANCELLED") {
            had += begun.take().map_or(0, |begun| at - begun);
        }
    }
    (had, first.map_or((window.1 - window.0) * 1_000, |first| first - window.0 * 1_000))
}

/// A reservation that is over says and costs what the records of its tasks say, where an early end is refunded.
#[track_caller]
pub fn check(plane: &Plane, over: &Value, tasks: &[String]) {
    check_by(plane, over, tasks, true);
}

#[track_caller]
fn check_by(plane: &Plane, over: &Value, tasks: &[String], is_refunded: bool) {
    let window = (seconds(&over["start"]), seconds(&over["end"]));
    let units = over["width"].as_u64().unwrap();
    let guarantee = |field: &str| over["guarantee"][field].as_u64().unwrap_or(0);
    let records = tasks.iter().map(|task| record(plane, task, window));
    let (had, missed) =
        records.fold((0, 0), |(had, missed), (more, late)| (had + more, missed + late / 1_000));
    assert_eq!((guarantee("hadSeconds"), guarantee("missedSeconds")), (had / 1_000, missed), "{over}");
    assert_eq!(over["guarantee"]["kept"], missed == 0, "{over}");
    let ends = tasks.iter().map(|task| {
        let task = plane.http.get(&format!("/api/tasks/{task}")).expect_status(200).json();
        millis(&task["endedAt"]).div_ceil(1_000)
    });
    let promised = (window.1 - window.0) * units;
    let ended = ends.max().unwrap().clamp(window.0, window.1);
    let left = if missed < promised { window.1 - ended } else { 0 };
    assert_eq!(guarantee("givenBackSeconds"), left, "{over}");
    let price = credits(&over["price"]);
    let part =
        |time: u64| u64::try_from(u128::from(price) * u128::from(time) / u128::from(promised)).unwrap();
    let paid = if is_refunded {
        part(promised - missed - left * units) + part(left * units).div_ceil(20)
    } else {
        part(promised - missed)
    };
    assert_eq!(price - over.get("refund").map_or(0, credits), paid, "{over}");
    plane.check_money();
}

fn asked(cpu: f64, from: &str, duration: u64, script: &str) -> Value {
    json!({ "resources": { "cpu": cpu }, "duration": duration, "from": from, "value": 1000, "user": "ada",
        "task": { "command": ["/bin/sh", "-c", script] } })
}

/// Reserves, and waits until its task is submitted.
fn reserve(plane: &Plane, asked: &Value) -> (Value, String) {
    let made = plane.reserve(asked).expect_status(201).json();
    let id = made["id"].as_str().unwrap();
    let task =
        wait::until(PATIENCE, "its task", || plane.reservation(id)["task"].as_str().map(str::to_owned));
    (made, task)
}

fn pass_until(at: u64) {
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
    wait::pass(Duration::from_secs(at).saturating_sub(now));
}

fn started(terms: &[&str]) -> Plane {
    let plane = Plane::selling(terms);
    plane.processors();
    plane.grant("ada", "100");
    plane
}

#[test]
fn a_task_that_never_began_as_the_services_were_away_costs_nothing() {
    let mut plane = started(&[]);
    let (made, task) = reserve(&plane, &asked(0.5, "10s", 4, "echo began; sleep 60"));
    plane.services.kill9();
    pass_until(seconds(&made["end"]) + 1);
    plane.services.restart_on_same_port();
    plane.processors();
    let over = plane.wait_state(made["id"].as_str().unwrap(), "OVER");
    assert_eq!((&over["refund"], plane.balance("ada")), (&made["price"], 100_000_000), "{over}");
    assert_eq!(
        (
            &over["guarantee"]["kept"],
            &over["guarantee"]["deliveredSeconds"],
            &over["guarantee"]["hadSeconds"]
        ),
        (&json!(false), &json!(0), &json!(0))
    );
    check(&plane, &over, std::slice::from_ref(&task));
    let log = plane.http.get(&format!("/api/tasks/{task}/logs")).expect_status(200).json();
    assert_eq!(log["lines"], json!([]));
}

#[test]
fn a_task_that_began_late_is_paid_from_then_on() {
    let mut plane = started(&[]);
    let (made, task) = reserve(&plane, &asked(0.5, "4s", 30, "sleep 60"));
    plane.services.kill9();
    pass_until(seconds(&made["start"]) + 3);
    plane.services.restart_on_same_port();
    plane.processors();
    let over = plane.wait_state(made["id"].as_str().unwrap(), "OVER");
    let missed = over["guarantee"]["missedSeconds"].as_u64().unwrap();
    assert!((3..=30).contains(&missed), "{over}");
    check(&plane, &over, &[task]);
}

#[test]
fn a_task_that_cannot_begin_for_a_reason_of_its_own_is_paid() {
    let plane = started(&["--price-early-end", "keep"]);
    let mut asked = asked(0.5, "4s", 4, "true");
    asked["task"]["inputs"] = json!(["no-such-file"]);
    let (made, task) = reserve(&plane, &asked);
    let over = plane.wait_state(made["id"].as_str().unwrap(), "OVER");
    let ended = plane.http.get(&format!("/api/tasks/{task}")).expect_status(200).json();
    assert!(ended["ending"].get("inputMissing").is_some(), "{ended}");
    check_by(&plane, &over, &[task], false);
}

#[test]
fn a_task_that_is_deleted_has_had_what_it_had() {
    let plane = started(&[]);
    // Two of three tasks end long before the last one.
    let mut asked = asked(0.1, "4s", 12, "test $ESTIMAND_TASK_INDEX = 2 && sleep 60; exit 0");
    asked["width"] = json!(3);
    let (made, task) = reserve(&plane, &asked);
    let names: Vec<String> = (0..3).map(|index| format!("{task}.{index}")).collect();
    let window = (seconds(&made["start"]), seconds(&made["end"]));
    let mut deleted = (0, 0);
    for name in &names[..2] {
        wait::until_ok(PATIENCE, "the task to be over", || {
            let found = plane.http.get(&format!("/api/tasks/{name}")).expect_status(200).json();
            if found["state"] == "SUCCEEDED" { Ok(()) } else { Err(found) }
        });
        let (had, missed) = record(&plane, name, window);
        deleted = (deleted.0 + had, deleted.1 + missed / 1_000);
        plane.http.request("DELETE", &format!("/api/tasks/{name}"), &[], b"").expect_status(204);
    }
    let over = plane.wait_state(made["id"].as_str().unwrap(), "OVER");
    let (had, missed) = record(&plane, &names[2], window);
    let guarantee = &over["guarantee"];
    assert_eq!(guarantee["hadSeconds"], (deleted.0 + had) / 1_000, "{over}");
    assert_eq!(guarantee["missedSeconds"].as_u64().unwrap_or(0), deleted.1 + missed / 1_000, "{over}");
    plane.check_money();
}

#[test]
fn an_early_end_frees_the_rest_for_others() {
    let plane = started(&[]);
    let cpu = plane.processors();
    let (made, task) = reserve(&plane, &asked(cpu, "3s", 600, "exit 0"));
    let over = plane.wait_state(made["id"].as_str().unwrap(), "OVER");
    check(&plane, &over, &[task]);
    assert!(over["guarantee"]["givenBackSeconds"].as_u64().unwrap() > 0, "{over}");
    plane.wait_promise(&made, "RELEASED");
    // The node is free for another one, long before the end of the first.
    let (next, task) = wait::until_ok(PATIENCE, "the capacity to be free", || {
        let answer = plane.reserve(&asked(cpu, "3s", 5, "exit 0"));
        match answer.status {
            201 => {
                let made = answer.json();
                let id = made["id"].as_str().unwrap();
                let task = wait::until(PATIENCE, "its task", || {
                    plane.reservation(id)["task"].as_str().map(str::to_owned)
                });
                Ok((made, task))
            }
            _ => Err(answer),
        }
    });
    assert!(seconds(&next["start"]) < seconds(&made["end"]), "{next} {made}");
    let over = plane.wait_state(next["id"].as_str().unwrap(), "OVER");
    check(&plane, &over, std::slice::from_ref(&task));
    let ended = plane.http.get(&format!("/api/tasks/{task}")).expect_status(200).json();
    assert_eq!(
        (&ended["state"], ended["document"]["promise"].clone()),
        (&json!("SUCCEEDED"), next["promise"].clone())
    );
}

#[test]
fn a_promise_on_which_others_submit_stays_and_one_with_retries_left_too() {
    let plane = started(&[]);
    let open =
        json!({ "resources": { "cpu": 0.1 }, "duration": 600, "from": "2s", "value": 1000, "user": "ada" });
    let open = plane.reserve(&open).expect_status(201).json();
    let task = json!({ "id": "guest", "command": "/bin/true", "promise": open["promise"] });
    plane.http.send_json("POST", "/api/tasks", &task).expect_status(201);
    let mut retried = asked(0.1, "2s", 600, "exit 1");
    retried["task"]["retries"] = json!({ "count": 1, "backOff": "10m" });
    let (retried, tried) = reserve(&plane, &retried);
    for (task, state) in [("guest", "SUCCEEDED"), (tried.as_str(), "QUEUED")] {
        wait::until_ok(PATIENCE, "the attempt to be over", || {
            let found = plane.http.get(&format!("/api/tasks/{task}")).expect_status(200).json();
            if found["attempt"] == 1 && found["state"] == state { Ok(()) } else { Err(found) }
        });
    }
    // Another one is settled meanwhile, so these would have been.
    let (done, _) = reserve(&plane, &asked(0.1, "2s", 600, "exit 0"));
    plane.wait_state(done["id"].as_str().unwrap(), "OVER");
    for made in [&open, &retried] {
        assert_eq!(plane.promise(made)["state"], "ACTIVE");
        assert_eq!(plane.reservation(made["id"].as_str().unwrap())["state"], "ACTIVE");
    }
    let cancel = |made: &Value| {
        let path = format!("/api/reservations/{}/cancel", made["id"].as_str().unwrap());
        plane.http.request("POST", &path, &[], b"").expect_status(200).json()
    };
    for made in [&open, &retried] {
        let cancelled = cancel(made);
        let refund = credits(&cancelled["refund"]);
        assert!(refund > credits(&made["price"]) / 2, "most of its time was left: {cancelled}");
        plane.wait_promise(made, "RELEASED");
    }
    plane.check_money();
}

#[test]
fn a_task_on_a_node_that_is_not_heard_of_is_waited_for_until_its_lease_is_over() {
    let mut plane = started(&[]);
    let mut asked = asked(0.5, "4s", 6, "trap '' TERM; sleep 60");
    asked["task"]["lease"] = json!("7d");
    let (made, task) = reserve(&plane, &asked);
    wait::until_ok(PATIENCE, "the task to run", || {
        let found = plane.http.get(&format!("/api/tasks/{task}")).expect_status(200).json();
        if found["state"] == "RUNNING" { Ok(()) } else { Err(found) }
    });
    plane.agent.kill9();
    wait::until_ok(PATIENCE, "its time to be over, and its node not to be heard of", || {
        let promise = plane.promise(&made);
        let is_silent = promise["tasks"]["silent"] == 1;
        if promise["state"] == "OVER" && is_silent { Ok(()) } else { Err(promise) }
    });
    assert_eq!(plane.reservation(made["id"].as_str().unwrap())["state"], "ACTIVE");
    plane.agent.restart_on_same_port();
    let over = plane.wait_state(made["id"].as_str().unwrap(), "OVER");
    check(&plane, &over, &[task]);
}
