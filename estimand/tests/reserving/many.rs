//! Many clients at once: nothing is promised twice, and everybody is told what is so.

use std::collections::BTreeSet;
use std::sync::Barrier;
use std::thread;

use serde_json::{Value, json};

use crate::plane::{Plane, seconds};

const CLIENTS: usize = 64;

#[test]
fn sixty_four_clients_at_once_never_book_twice() {
    let plane = Plane::start();
    let cpu = plane.processors();
    plane.grant("ada", "1000000");
    // There is room for half of them: each takes the whole node for a slot, in a window of so many slots.
    let room = CLIENTS as u64 / 2;
    let from = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs() + 1_200;
    let instant = |at: u64| chrono::DateTime::from_timestamp(at as i64, 0).unwrap().to_rfc3339();
    let asked = json!({ "resources": { "cpu": cpu }, "duration": 1, "from": instant(from), "by": instant(from + room),
        "value": 1000, "user": "ada" });
    let begin = Barrier::new(CLIENTS);
    let answers: Vec<(u16, Value)> = thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|_| {
                scope.spawn(|| {
                    begin.wait();
                    let answer = plane.reserve(&asked);
                    (answer.status, answer.json())
                })
            })
            .collect();
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    });
    let mut starts = BTreeSet::new();
    for (status, answer) in &answers {
        match status {
            201 => assert!(starts.insert(seconds(&answer["start"])), "a start was given twice: {answer}"),
            409 => assert_eq!(answer["type"], "infeasible", "{answer}"),
            _ => panic!("{status}: {answer}"),
        }
    }
    assert_eq!(starts, (from..from + room).collect(), "each slot is given once");
    let promises =
        plane.http.get("/api/capacity/promises?state=PROMISED&limit=1000").expect_status(200).json();
    assert_eq!(promises["promises"].as_array().unwrap().len(), starts.len());
    plane.check_money();
}

#[test]
fn the_same_request_again_is_the_same_reservation() {
    let plane = Plane::start();
    plane.processors();
    plane.grant("ada", "10");
    let asked =
        json!({ "resources": { "cpu": 0.1 }, "duration": 5, "from": "10m", "value": 9, "user": "ada" });
    let ask = |document: &Value| {
        let headers = [("Idempotency-Key", "mine"), ("Content-Type", "application/json")];
        plane.http.request("POST", "/api/reservations", &headers, document.to_string().as_bytes())
    };
    let begin = Barrier::new(8);
    let ids: BTreeSet<String> = thread::scope(|scope| {
        let clients: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    begin.wait();
                    estimand_testkit::wait::until_ok(estimand_testkit::wait::PATIENCE, "an answer", || {
                        let answer = ask(&asked);
                        match answer.status {
                            200 | 201 => Ok(answer.json()["id"].as_str().unwrap().to_owned()),
                            _ => Err(answer),
                        }
                    })
                })
            })
            .collect();
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    });
    assert_eq!(ids.len(), 1);
    assert_eq!(plane.all("PENDING,PROMISED").len(), 1);
    let mut other = asked.clone();
    other["width"] = json!(2);
    ask(&other).expect_problem(409);
    plane.check_money();
}

#[test]
fn what_finds_no_place_on_a_node_is_not_offered() {
    let plane = Plane::start();
    plane.processors();
    plane.grant("ada", "1000000");
    let from = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs() + 1_200;
    let instant = |at: u64| chrono::DateTime::from_timestamp(at as i64, 0).unwrap().to_rfc3339();
    let asked = |width: u64, slots: u64| {
        json!({ "resources": { "cpu": 0.001 }, "width": width, "duration": 1, "from": instant(from),
            "by": instant(from + slots), "value": 1000, "user": "ada" })
    };
    // A node has 256 places for tasks, and processors for more of these.
    let too_wide = plane.reserve(&asked(257, 1)).expect_problem(409);
    assert!(too_wide["detail"].as_str().unwrap().contains("`tasks`"), "{too_wide}");
    plane.reserve(&asked(256, 1)).expect_status(201);
    let mut dry = asked(1, 1);
    dry["dryRun"] = json!(true);
    let full = plane.http.send_json("POST", "/api/reservations", &dry).expect_problem(409);
    assert_eq!(full["type"], "infeasible", "{full}");

    // A request that may begin later begins later, also if many ask at once.
    let begin = Barrier::new(CLIENTS);
    thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                begin.wait();
                let made = plane.reserve(&asked(1, 2)).expect_status(201).json();
                assert_eq!(seconds(&made["start"]), from + 1, "{made}");
            });
        }
    });
    plane.check_money();
}
