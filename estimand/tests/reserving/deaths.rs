//! Services are killed at any moment while clients reserve: what was acknowledged is there, what is in the ledger is paid for,
//! and no credit is lost.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use estimand_testkit::http::Http;
use estimand_testkit::wait::{self, PATIENCE};
use serde_json::{Value, json};

use crate::plane::Plane;

const ROUNDS: u64 = 4;

/// Reserves again and again until it is told to end, and tells when the first reservation is made; the answers that said so.
fn reserve_on(http: &Http, client: u32, first: &AtomicBool, end: &AtomicBool) -> Vec<Value> {
    let mut made = Vec::new();
    let mut number = 0;
    while !end.load(Ordering::Relaxed) {
        number += 1;
        let asked = json!({ "resources": { "cpu": 0.01 }, "duration": 1, "from": "20m", "value": 1000, "user": "ada" });
        let key = format!("{client} {number}");
        let headers = [("Idempotency-Key", key.as_str()), ("Content-Type", "application/json")];
        if let Ok(answer) =
            http.try_request("POST", "/api/reservations", &headers, asked.to_string().as_bytes())
            && matches!(answer.status, 200 | 201)
        {
            made.push(answer.json());
            first.store(true, Ordering::Relaxed);
        }
    }
    made
}

/// Everything fits together: promises that live are those of reservations that are promised, and the credits add up.
fn check(plane: &Plane, acknowledged: &[Value]) {
    wait::until_ok(PATIENCE, "every order to be finished", || {
        let pending = plane.all("PENDING");
        if pending.is_empty() { Ok(()) } else { Err(json!(pending)) }
    });
    let promised: BTreeSet<String> =
        plane.all("PROMISED").iter().map(|one| one["promise"].as_str().unwrap().to_owned()).collect();
    for made in acknowledged {
        assert!(promised.contains(made["promise"].as_str().unwrap()), "it was acknowledged: {made}");
    }
    let live = plane.http.get("/api/capacity/promises?state=PROMISED&limit=1000").expect_status(200).json();
    let live: BTreeSet<String> = live["promises"]
        .as_array()
        .unwrap()
        .iter()
        .map(|promise| promise["id"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(live, promised);
    plane.check_money();
}

#[test]
fn all_services_are_killed_while_clients_reserve() {
    let mut plane = Plane::start();
    plane.processors();
    plane.grant("ada", "1000000");
    let mut acknowledged = Vec::new();
    for round in 0..ROUNDS {
        let first = AtomicBool::new(false);
        let end = AtomicBool::new(false);
        let http = &plane.http;
        let pid = plane.services.pid();
        acknowledged.extend(thread::scope(|scope| {
            let clients: Vec<_> = (0..8)
                .map(|client| {
                    let first = &first;
                    let end = &end;
                    scope.spawn(move || reserve_on(http, client + 100 * round as u32, first, end))
                })
                .collect();
            wait::until(PATIENCE, "a reservation to be made", || first.load(Ordering::Relaxed).then_some(()));
            // At another moment of an order each time.
            wait::pass(Duration::from_millis(37 * round));
            let pid = rustix::process::Pid::from_raw(pid as i32).unwrap();
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
            end.store(true, Ordering::Relaxed);
            clients.into_iter().flat_map(|client| client.join().unwrap()).collect::<Vec<_>>()
        }));
        plane.services.kill9();
        plane.services.restart_on_same_port();
        plane.processors();
        check(&plane, &acknowledged);
    }
    assert!(!acknowledged.is_empty());
}
