//! Reservations end to end: real services, a real agent, real processes; priced, paid, promised, run and accounted for.
#![allow(clippy::unwrap_used)]

mod beside;
mod celery;
mod changes;
mod deaths;
mod fidelity;
mod full;
mod had;
mod lines;
mod lists;
mod many;
mod mixture;
mod plane;
mod predicting;
mod shares;
mod users;
mod windows;
mod words;

use estimand_testkit::wait::{self, PATIENCE};
use serde_json::json;

use plane::{Plane, credits, seconds};

#[test]
fn a_time_is_quoted_reserved_changed_and_given_up() {
    let plane = Plane::start();
    let cpu = plane.processors();
    plane.grant("ada", "100");
    let asked = json!({ "resources": { "cpu": cpu }, "duration": 5, "from": "20m", "by": "30m", "value": 50,
        "user": "ada" });
    let mut dry = asked.clone();
    dry["dryRun"] = json!(true);
    let quote = plane.http.send_json("POST", "/api/reservations", &dry).expect_status(200).json();
    assert_eq!(quote["covered"], true);
    let price = credits(&quote["price"]);
    assert!(price > 0 && seconds(&quote["end"]) - seconds(&quote["start"]) == 5, "{quote}");

    let made = plane.reserve(&asked).expect_status(201);
    let location = made.header("location").unwrap().to_owned();
    let made = made.json();
    assert_eq!((&made["state"], &made["price"]), (&json!("PROMISED"), &quote["price"]));
    assert_eq!(plane.http.get(&location).expect_status(200).json(), made);
    assert_eq!(plane.balance("ada"), 100_000_000 - price);
    let promise = plane.http.get(&format!("/api/capacity/promises/{}", made["promise"].as_str().unwrap()));
    let promise = promise.expect_status(200).json();
    assert_eq!((&promise["state"], &promise["from"]), (&json!("PROMISED"), &json!(seconds(&made["start"]))));

    // The same start is not to be had again.
    let from = &made["start"];
    let mut same = asked.clone();
    same["from"] = from.clone();
    same["by"] = made["end"].clone();
    let refused = plane.reserve(&same).expect_problem(409);
    assert_eq!(refused["type"], "infeasible", "{refused}");
    let earliest = refused["errors"][0]["expected"].as_str().unwrap();
    same["by"] = json!(earliest.strip_suffix(" or later").unwrap());
    let next = plane.reserve(&same).expect_status(201).json();
    assert_eq!(next["start"], made["end"], "the deadline that would do is the one that does");

    let id = made["id"].as_str().unwrap();
    let bid = |value: u32| {
        plane.http.send_json("POST", &format!("/api/reservations/{id}/bid"), &json!({ "value": value }))
    };
    assert_eq!(bid(60).expect_status(200).json()["document"]["value"], "60");
    bid(0).expect_problem(409);
    let cancel = || {
        plane
            .http
            .request("POST", &format!("/api/reservations/{id}/cancel"), &[], b"")
            .expect_status(200)
            .json()
    };
    let cancelled = cancel();
    let fee = u64::div_ceil(price, 20);
    assert_eq!((&cancelled["state"], credits(&cancelled["refund"])), (&json!("CANCELLED"), price - fee));
    assert_eq!(cancel(), cancelled, "twice is the same as once");
    assert_eq!(plane.balance("ada"), 100_000_000 - fee - credits(&next["price"]));
    plane.wait_promise(&made, "RELEASED");
    same["by"] = made["end"].clone();
    let again = wait::until_ok(PATIENCE, "the time to be free again", || {
        let answer = plane.reserve(&same);
        if answer.status == 201 { Ok(answer.json()) } else { Err(answer) }
    });
    assert_eq!(again["start"], made["start"]);

    let journal = plane.http.get("/api/credits/journal?user=ada&limit=1000").expect_status(200).json();
    let entries = journal["entries"].as_array().unwrap();
    let sum = entries.iter().fold(0_i64, |sum, entry| {
        let amount = i64::try_from(credits(&entry["amount"])).unwrap();
        if entry["to"] == "ada" { sum + amount } else { sum - amount }
    });
    assert_eq!(sum, i64::try_from(plane.balance("ada")).unwrap());
    plane.check_money();
    let list = plane.http.get("/api/reservations?user=ada&state=PROMISED&limit=1").expect_status(200).json();
    assert_eq!((&list["reservations"][0]["id"], list["next"].is_string()), (&again["id"], true), "{list}");
}

#[test]
fn a_reserved_task_runs_in_its_time_and_is_paid() {
    let plane = Plane::start();
    let cpu = plane.processors();
    plane.grant("ada", "100");
    let asked = json!({ "resources": { "cpu": cpu / 2.0 }, "width": 2, "duration": 6, "from": "4s", "value": 100, "user": "ada",
        "task": { "command": ["/bin/sh", "-c", "date +%s; exit 3"], "labels": { "study": "x" } } });
    let made = plane.reserve(&asked).expect_status(201).json();
    let id = made["id"].as_str().unwrap().to_owned();
    let task =
        wait::until(PATIENCE, "its task", || plane.reservation(&id)["task"].as_str().map(str::to_owned));
    let over = plane.http.get(&format!("/api/tasks/{task}")).expect_status(200).json();
    assert_eq!(over["document"]["promise"], made["promise"], "{over}");
    let over = plane.wait_state(&id, "OVER");
    had::check(&plane, &over, &[format!("{task}.0"), format!("{task}.1")]);
    for index in 0..2 {
        let log = plane.http.get(&format!("/api/tasks/{task}.{index}/logs")).expect_status(200).json();
        let began: u64 = log["lines"][0]["text"].as_str().unwrap().parse().unwrap();
        assert!((seconds(&made["start"])..seconds(&made["end"])).contains(&began), "{began} {made}");
        let task = plane.http.get(&format!("/api/tasks/{task}.{index}")).expect_status(200).json();
        assert_eq!(task["ending"], json!({ "exit": 3 }), "{task}");
    }
    let accounts = plane.http.get("/api/credits").expect_status(200).json();
    let refund = over.get("refund").map_or(0, credits);
    assert_eq!(
        (credits(&accounts["income"]), &accounts["held"]),
        (credits(&made["price"]) - refund, &json!("0"))
    );
    plane.check_money();
}

#[test]
fn a_task_that_is_refused_gives_everything_back() {
    let plane = Plane::start();
    plane.processors();
    plane.grant("ada", "100");
    let asked = json!({ "resources": { "cpu": 1 }, "duration": 5, "from": "10m", "value": 100, "user": "ada",
        "task": { "command": ["/bin/true"], "after": ["never-made"] } });
    let made = plane.reserve(&asked).expect_status(201).json();
    let cancelled = plane.wait_state(made["id"].as_str().unwrap(), "CANCELLED");
    assert!(cancelled["reason"].as_str().unwrap().contains("never-made"), "{cancelled}");
    assert_eq!((&cancelled["refund"], plane.balance("ada")), (&made["price"], 100_000_000));
    plane.wait_promise(&made, "RELEASED");
    plane.check_money();
}

#[test]
fn lost_capacity_is_given_back() {
    let mut plane = Plane::start();
    let cpu = plane.processors();
    plane.grant("ada", "100");
    let asked =
        json!({ "resources": { "cpu": cpu }, "duration": 60, "from": "20m", "value": 100, "user": "ada" });
    let made = plane.reserve(&asked).expect_status(201).json();
    plane.agent.kill9();
    let broken = plane.wait_state(made["id"].as_str().unwrap(), "BROKEN");
    assert_eq!((&broken["guarantee"]["kept"], &broken["refund"]), (&json!(false), &made["price"]));
    assert_eq!(plane.balance("ada"), 100_000_000);
    plane.check_money();
}
