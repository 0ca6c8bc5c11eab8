//! Lists of which all are reserved or none, bundles of several resources, and widths that are open.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::lines::Connection;
use crate::plane::{Plane, credits, seconds};

fn send(plane: &Plane, list: &Value) -> estimand_testkit::http::Response {
    plane.http.send_json("POST", "/api/reservations/lists", list)
}

#[test]
fn all_of_a_list_are_reserved_or_none() {
    let plane = Plane::start();
    let cpu = plane.processors();
    plane.grant("ada", "10");
    let one = json!({ "resources": { "cpu": cpu }, "duration": 10, "from": "20m", "by": "21m" });
    let list = |count: usize, value: f64| json!({ "allOrNone": vec![one.clone(); count], "value": value, "user": "ada" });
    let mut dry = list(3, 1.0);
    dry["dryRun"] = json!(true);
    let quotes = send(&plane, &dry).expect_status(200).json();
    let price = credits(&quotes["price"]);
    let each: Vec<u64> =
        quotes["quotes"].as_array().unwrap().iter().map(|one| credits(&one["price"])).collect();
    assert_eq!((each.len(), each.iter().sum::<u64>(), &quotes["covered"]), (3, price, &json!(true)));

    // A window of 60 s has room for six of ten seconds.
    let full = send(&plane, &list(7, 100.0)).expect_problem(409);
    assert_eq!(full["type"], "infeasible", "{full}");
    assert!(full["detail"].as_str().unwrap().starts_with("request 7 of the list: "), "{full}");
    assert_eq!(full["errors"][0]["field"], "allOrNone[6].by");
    let dear = send(&plane, &list(3, (price - 1) as f64 / 1e6)).expect_problem(409);
    assert_eq!(dear["type"], "price-above-value", "{dear}");
    assert!(dear["errors"][0]["expected"].as_str().unwrap().starts_with("at least "), "{dear}");
    assert_eq!((plane.balance("ada"), plane.all("").len()), (10_000_000, 0), "nothing was reserved");

    let value = price as f64 / 1e6;
    let headers = [("Idempotency-Key", "all three"), ("Content-Type", "application/json")];
    let keyed = |list: &Value| {
        plane.http.request("POST", "/api/reservations/lists", &headers, list.to_string().as_bytes())
    };
    let made = keyed(&list(3, value)).expect_status(201).json();
    assert_eq!(made["price"], quotes["price"]);
    assert_eq!(keyed(&list(3, value)).expect_status(200).json(), made, "the same list again");
    keyed(&list(2, value)).expect_problem(409);
    let made = made["reservations"].as_array().unwrap();
    let starts: Vec<u64> = made.iter().map(|one| seconds(&one["start"])).collect();
    assert!(starts.windows(2).all(|pair| pair[1] == pair[0] + 10), "{starts:?}");
    assert!(made.iter().all(|one| one["state"] == "PROMISED" && one["list"] == made[0]["id"]), "{made:?}");
    let worth: u64 = made.iter().map(|one| credits(&one["document"]["value"])).sum();
    assert_eq!((worth, plane.balance("ada")), (price, 10_000_000 - price));
    // Each is a reservation of its own then.
    let cancel = format!("/api/reservations/{}/cancel", made[1]["id"].as_str().unwrap());
    assert_eq!(plane.http.request("POST", &cancel, &[], b"").expect_status(200).json()["state"], "CANCELLED");
    assert_eq!(plane.all("PROMISED").len(), 2);
    plane.check_money();
}

#[test]
fn the_prices_of_a_bundle_add_up() {
    let plane = Plane::start();
    plane.processors();
    let quote = |resources: Value| {
        let asked =
            json!({ "resources": resources, "duration": 36, "from": "20m", "value": 9, "dryRun": true });
        credits(&plane.reserve(&asked).expect_status(200).json()["price"])
    };
    // A hundredth of an hour, at a credit for a processor and a hundredth of one for a GiB.
    assert_eq!(quote(json!({ "cpu": 1 })), 10_000);
    assert_eq!(
        quote(json!({ "cpu": 1, "memory": "1MiB" })),
        10_001,
        "what has a price is not free of charge"
    );
    assert_eq!(quote(json!({ "cpu": 1, "memory": "64MiB" })), 10_007, "6.25 more, rounded once");
    let many: serde_json::Map<_, _> = (0..10_000).map(|number| (format!("r{number}"), json!(1))).collect();
    let refused =
        plane.reserve(&json!({ "resources": many, "duration": 10, "value": 9 })).expect_problem(400);
    assert!(refused["errors"][0]["message"].as_str().unwrap().contains("more than 32"), "{refused}");
}

#[test]
fn an_open_width_is_the_one_that_costs_least_in_its_window() {
    let plane = Plane::start();
    let cpu = plane.processors();
    plane.grant("ada", "100");
    let asked = |by: u64| {
        json!({ "resources": { "cpu": cpu / 8.0 }, "work": 64, "width": "2..8", "from": "20m",
            "by": format!("{}s", 1_200 + by), "value": 50, "user": "ada" })
    };
    // 64 seconds of one unit are 32 of two, 16 of four, 8 of eight.
    for (by, width, length) in [(60, 2, 32), (20, 4, 16), (11, 8, 8)] {
        let made = plane.reserve(&asked(by)).expect_status(201).json();
        let took = seconds(&made["end"]) - seconds(&made["start"]);
        assert!(made["width"].as_u64().unwrap() >= width && took <= length, "{by} s: {made}");
        assert_eq!(
            plane.promise(&made)["units"].as_array().unwrap().len() as u64,
            made["width"].as_u64().unwrap()
        );
        let path = format!("/api/reservations/{}/cancel", made["id"].as_str().unwrap());
        plane.http.request("POST", &path, &[], b"").expect_status(200);
        plane.wait_promise(&made, "RELEASED");
    }
    let tight = plane.reserve(&asked(5)).expect_problem(409);
    assert_eq!(tight["type"], "infeasible", "{tight}");
    plane.check_money();
}

/// Somebody else has everything, gives it back to the ledger, and a moment later it is asked for here.
#[test]
fn nothing_is_refused_for_what_the_ledger_had_before() {
    let plane = Plane::start();
    let cpu = plane.processors();
    plane.grant("ada", "1000");
    let thousandths = (cpu * 1000.0) as u64;
    for round in 0..20 {
        let from = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() + 1_200;
        let id = format!("other-{round}");
        let promise = json!({ "id": id, "resources": { "cpu": thousandths }, "width": 1, "from": from,
            "until": from + 60, "value": 1 });
        plane
            .http
            .send_json("POST", "/api/capacity/promises", &json!({ "allOrNone": [promise] }))
            .expect_status(201);
        let asked = json!({ "resources": { "cpu": cpu }, "duration": 10, "from": "20m", "by": "1220s", "value": 9,
            "user": "ada" });
        // Nothing is promised twice either, however early it is asked for.
        assert_eq!(plane.reserve(&asked).expect_problem(409)["type"], "infeasible");
        plane.http.request("DELETE", &format!("/api/capacity/promises/{id}"), &[], b"").expect_status(200);
        let made = plane.reserve(&asked).expect_status(201).json();
        let path = format!("/api/reservations/{}/cancel", made["id"].as_str().unwrap());
        plane.http.request("POST", &path, &[], b"").expect_status(200);
        plane.wait_promise(&made, "RELEASED");
    }
    plane.check_money();
}

#[test]
fn lists_changes_and_bids_go_over_tcp_too() {
    let plane = Plane::start();
    let cpu = plane.processors();
    plane.grant("ada", "100");
    let token = plane.token(&json!({ "name": "ada", "role": "user" }));
    let mut connection = Connection::showing(&plane, &token);
    let one = json!({ "resources": { "cpu": cpu / 2.0 }, "duration": 5, "from": "20m" });
    let list = json!({ "allOrNone": [one, one], "value": 9 });
    let mut ask = |line: Value, status: u16| {
        connection.say(&line);
        let answer = connection.hear();
        assert_eq!(answer["status"], status, "{line}: {answer}");
        answer["body"].clone()
    };
    let quotes = ask(json!({ "quoteList": list }), 200);
    let made = ask(json!({ "reserveList": list, "key": "both" }), 201);
    assert_eq!(made["price"], quotes["price"]);
    let id = made["reservations"][0]["id"].as_str().unwrap();
    assert_eq!(made["reservations"][0]["user"], "ada");
    let quote = ask(json!({ "change": id, "to": { "duration": 9, "dryRun": true } }), 200);
    let changed = ask(json!({ "change": id, "to": { "duration": 9 } }), 200);
    assert_eq!(changed["price"], quote["price"]);
    assert_eq!(ask(json!({ "bid": id, "value": 7 }), 200)["document"]["value"], "7");
    assert_eq!(ask(json!({ "bid": id, "value": "7.5" }), 200)["document"]["value"], "7.5");
    ask(json!({ "change": id, "to": { "user": "bob" } }), 400);
    ask(json!({ "reserve": { "resources": { "cpu": 1 }, "duration": 5, "value": 9, "user": "bob" } }), 403);
    let token = plane.token(&json!({ "name": "bob", "role": "user" }));
    let mut other = Connection::showing(&plane, &token);
    for line in [
        json!({ "show": id }),
        json!({ "cancel": id }),
        json!({ "bid": id, "value": 99 }),
        json!({ "change": id, "to": { "width": 2 } }),
    ] {
        other.say(&line);
        assert_eq!(other.hear()["status"], 404, "{line}");
    }
    plane.check_money();
}
