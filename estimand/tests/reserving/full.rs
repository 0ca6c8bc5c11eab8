//! The ledger keeps a certain number of promises: once it is full nothing is offered, and what it has forgotten is settled.

use estimand_testkit::http::Http;
use estimand_testkit::wait::{self, PATIENCE};
use serde_json::{Value, json};

use crate::beside::{Beside, SLOT};

/// How many promises the ledger keeps, and how many are asked for at once.
const KEPT: u64 = 20_000;
const BATCH: u64 = 1_000;

fn now() -> u64 {
    std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs()
}

/// Promises of a second each, long after all that is for sale; their ids.
fn fill(ledger: &Http, first: u64, count: u64) -> Vec<Value> {
    let begin = now() + 1_000_000 + first;
    let asked = |at: u64| json!({ "resources": { "cpu": 1 }, "from": begin + at, "until": begin + at + 1 });
    let body = json!({ "allOrNone": (0..count).map(asked).collect::<Vec<_>>() });
    let made = ledger.send_json("POST", "/api/capacity/promises", &body).expect_status(201).json();
    made["promises"].as_array().unwrap().iter().map(|promise| promise["id"].clone()).collect()
}

fn left(ledger: &Http) -> u64 {
    let timeline = ledger.get("/api/capacity/timeline").expect_status(200).json();
    timeline["promisesLeft"].as_u64().unwrap()
}

#[test]
fn a_full_ledger_offers_nothing_and_what_it_forgot_is_settled() {
    let beside = Beside::start();
    beside.begin_of_slot();
    let asked = json!({ "resources": { "cpu": 0.01 }, "duration": SLOT, "from": "30m", "value": 1000, "user": "ada" });
    let made = beside.plane.reserve(&asked).expect_status(201).json();
    let balance = beside.plane.balance("ada");
    let mut dry = asked.clone();
    dry["dryRun"] = json!(true);
    let quote = |dry: &Value| beside.plane.http.send_json("POST", "/api/reservations", dry);

    let mut ids = Vec::new();
    while left(&beside.ledger) > BATCH {
        ids.extend(fill(&beside.ledger, ids.len() as u64, BATCH));
    }
    let rest = left(&beside.ledger) - 1;
    ids.extend(fill(&beside.ledger, ids.len() as u64, rest));
    assert_eq!(ids.len() as u64, KEPT - 2);
    let one = json!({ "resources": { "cpu": 0.01 }, "duration": SLOT, "from": "30m" });
    let list = json!({ "allOrNone": [one, one], "value": 5000, "dryRun": true, "user": "ada" });
    wait::until_ok(PATIENCE, "the last one to be offered, and no two", || {
        let two = beside.plane.http.send_json("POST", "/api/reservations/lists", &list);
        let one = quote(&dry);
        let is_right = two.status == 409 && one.status == 200 && one.json()["covered"] == true;
        if is_right { Ok(()) } else { Err(format!("{one} {two}")) }
    });
    ids.extend(fill(&beside.ledger, ids.len() as u64, 1));
    let refused = wait::until_ok(PATIENCE, "nothing to be offered", || {
        let answer = quote(&dry);
        if answer.status == 409 { Ok(answer.json()) } else { Err(answer) }
    });
    assert!(refused["detail"].as_str().unwrap().contains("promises"), "{refused}");
    assert_eq!(beside.plane.reserve(&asked).expect_problem(409)["detail"], refused["detail"]);

    // While the service does not hear of it, its promise is given back, and so many others come and go that it is forgotten.
    beside.proxy.refuse();
    let path = format!("/api/capacity/promises/{}", made["promise"].as_str().unwrap());
    let release = |ids: &[Value]| {
        beside.ledger.send_json("POST", "/api/capacity/releases", &json!({ "ids": ids })).expect_status(200)
    };
    release(std::slice::from_ref(&made["promise"]));
    release(&ids[..BATCH as usize]);
    fill(&beside.ledger, KEPT, BATCH);
    beside.ledger.get(&path).expect_status(404);
    beside.proxy.accept();
    let broken = beside.plane.wait_state(made["id"].as_str().unwrap(), "BROKEN");
    assert_eq!(broken["refund"], made["price"], "{broken}");
    assert_eq!(beside.plane.balance("ada"), balance + crate::plane::credits(&made["price"]));
    beside.plane.check_money();
}

#[test]
fn a_window_off_the_slots_is_promised_to_the_second() {
    let beside = Beside::start();
    beside.begin_of_slot();
    let instant = |at: u64| chrono::DateTime::from_timestamp(at as i64, 0).unwrap().to_rfc3339();
    let from = now() / SLOT * SLOT + 10 * SLOT + 7;
    let price = |from: u64, until: u64| {
        let asked = json!({ "resources": { "cpu": beside.cpu }, "duration": until - from, "from": instant(from),
            "by": instant(until), "value": 1000, "user": "ada" });
        let made = beside.plane.reserve(&asked).expect_status(201).json();
        let promise = beside
            .ledger
            .get(&format!("/api/capacity/promises/{}", made["promise"].as_str().unwrap()))
            .expect_status(200)
            .json();
        assert_eq!((&promise["from"], &promise["until"]), (&json!(from), &json!(until)), "{made}");
        crate::plane::credits(&made["price"])
    };
    let exact = price(from, from + SLOT);
    let whole = price(from - 7 + 2 * SLOT, from - 7 + 4 * SLOT);
    assert_eq!(exact, whole, "it pays for both of the slots that it touches");
    let tight = json!({ "resources": { "cpu": 0.01 }, "duration": SLOT, "from": instant(from + 8 * SLOT),
        "by": instant(from + 9 * SLOT - 1), "value": 1000, "user": "ada" });
    let tight = beside.plane.reserve(&tight).expect_problem(409);
    let would_do = tight["errors"][0]["expected"].as_str().unwrap().strip_suffix(" or later").unwrap();
    assert_eq!(crate::plane::seconds(&json!(would_do)), from + 9 * SLOT, "{tight}");
    beside.plane.check_money();
}
