//! A user's share of reservations: what one of them asks for is bounded, and takes nothing from the others.

use estimand_testkit::http::Http;
use estimand_testkit::wait::{self, PATIENCE};
use serde_json::{Value, json};

use crate::plane::Plane;

fn limit(plane: &Plane, user: &str, limits: &Value) {
    plane.http.send_json("PATCH", &format!("/api/users/{user}"), limits).expect_status(200);
}

fn asked(width: u64, padding: usize) -> Value {
    let note = "x".repeat(padding);
    json!({ "resources": { "cpu": 0.001 }, "width": width, "duration": 1, "from": "20m", "value": 100,
        "task": { "command": "/bin/true", "environment": { "NOTE": note } } })
}

/// A user's part of a kind: how much they have, and may have.
fn share(http: &Http, user: &str, kind: &str) -> (u64, u64) {
    let shares = http.get("/api/shares").expect_status(200).json();
    let shares = shares.as_array().unwrap().iter().find(|one| one["user"] == user).unwrap().clone();
    let share = &shares["shares"][kind];
    (share["used"].as_u64().unwrap(), share["limit"].as_u64().unwrap())
}

#[test]
fn a_user_has_a_share_of_reservations_units_and_documents() {
    let plane = Plane::start();
    plane.processors();
    let [eve, bob] = ["eve", "bob"].map(|name| {
        plane.grant(name, "1000");
        plane.user(name)
    });
    let reserve = |http: &Http, asked: &Value| http.send_json("POST", "/api/reservations", asked);
    limit(&plane, "eve", &json!({ "reservations": 2, "units": 10, "reservationBytes": "1MiB" }));
    let is_limited = || if share(&eve, "eve", "reservations").1 == 2 { Some(()) } else { None };
    wait::until(PATIENCE, "the limits to be heard of", is_limited);

    let first = reserve(&eve, &asked(3, 10)).expect_status(201).json();
    reserve(&eve, &asked(1, 10)).expect_status(201);
    let mut dry = asked(1, 10);
    dry["dryRun"] = json!(true);
    for refused in [reserve(&eve, &asked(1, 10)), reserve(&eve, &dry)] {
        let problem = refused.expect_problem(409);
        assert_eq!(problem["type"], "share-full", "{problem}");
        assert!(problem["detail"].as_str().unwrap().contains("users set eve --reservations"), "{problem}");
    }
    assert_eq!((share(&eve, "eve", "reservations"), share(&eve, "eve", "units")), ((2, 2), (4, 10)));
    // Others have theirs, and what is given up is free again.
    reserve(&bob, &asked(1, 10)).expect_status(201);
    let cancel = |made: &Value| {
        let path = format!("/api/reservations/{}/cancel", made["id"].as_str().unwrap());
        eve.request("POST", &path, &[], b"").expect_status(200);
    };
    let widen = |width: u64| {
        let path = format!("/api/reservations/{}/change", first["id"].as_str().unwrap());
        eve.send_json("POST", &path, &json!({ "width": width }))
    };
    assert_eq!(widen(10).expect_problem(409)["type"], "share-full");
    widen(5).expect_status(200);
    cancel(&first);
    assert_eq!(reserve(&eve, &asked(10, 10)).expect_problem(409)["type"], "share-full");

    // Documents that are kept although they are cancelled: her own oldest make room, and bob's stay.
    let kept = |http: &Http| {
        let page = http.get("/api/reservations?limit=1000").expect_status(200).json();
        page["reservations"].as_array().unwrap().len()
    };
    let mut last = json!(null);
    for _ in 0..12 {
        last = reserve(&eve, &asked(1, 200_000)).expect_status(201).json();
        cancel(&last);
        assert!(kept(&eve) <= 7, "a MiB has room for five of 200 kB");
    }
    eve.get(&format!("/api/reservations/{}", last["id"].as_str().unwrap())).expect_status(200);
    eve.get(&format!("/api/reservations/{}", first["id"].as_str().unwrap())).expect_status(404);
    assert_eq!((kept(&eve), kept(&bob)), (6, 1));
    plane.check_money();

    // The counts follow from what is stored, and so they are there after a restart.
    let mut plane = plane;
    plane.services.kill9();
    plane.services.restart_on_same_port();
    plane.processors();
    wait::until_ok(PATIENCE, "her limits to be heard of", || {
        let share = share(&eve, "eve", "reservations");
        if share.1 == 2 { Ok(()) } else { Err(format!("{share:?}")) }
    });
    let next = reserve(&eve, &asked(1, 200_000)).expect_status(201).json();
    assert_eq!(kept(&eve), 6, "{next}");
    assert_eq!(
        (share(&plane.http, "eve", "reservations").0, share(&plane.http, "bob", "reservations").0),
        (2, 1)
    );
}
