//! Credits come and are accounted for; and what is wrong with a request about reservations.

use serde_json::json;

use crate::answers::{unknown_input, wrong_field};
use crate::target::Target;

on_every_target!(credits_are_granted_once_a_key, wrong_questions_about_reservations_are_refused);

fn credits_are_granted_once_a_key(target: &Target) {
    let (service, user) = (&target.reservations, target.name("user"));
    let grant = |amount: &str| {
        let body = json!({ "user": user, "amount": amount }).to_string();
        let headers = [("Content-Type", "application/json"), ("Idempotency-Key", user.as_str())];
        service.request("POST", "/api/credits/grants", &headers, body.as_bytes())
    };
    assert_eq!(grant("2.5").expect_status(201).json(), json!({ "user": user, "balance": "2.5" }));
    assert_eq!(grant("2.50").expect_status(200).json()["balance"], "2.5");
    assert!(grant("3").expect_problem(409)["detail"].as_str().unwrap().contains("2.5 credits"));
    let more = json!({ "user": user, "amount": 1 });
    service.send_json("POST", "/api/credits/grants", &more).expect_status(201);
    let accounts = service.get(&format!("/api/credits?user={user}")).expect_status(200).json();
    assert_eq!(accounts["accounts"], json!([{ "user": user, "balance": "3.5" }]));
    let first = service.get(&format!("/api/credits/journal?user={user}&limit=1")).expect_status(200).json();
    assert_eq!(
        (&first["entries"][0]["amount"], &first["entries"][0]["reason"]),
        (&json!("1"), &json!("grant"))
    );
    let path = format!("/api/credits/journal?user={user}&limit=5&before={}", first["next"]);
    let rest = service.get(&path).expect_status(200).json();
    assert_eq!(
        (&rest["entries"][0]["amount"], rest["entries"].as_array().unwrap().len()),
        (&json!("2.5"), 1)
    );
    let never = service.get("/api/credits?user=nobody-ever").expect_status(200).json();
    assert_eq!(never["accounts"][0]["balance"], "0");
}

fn wrong_questions_about_reservations_are_refused(target: &Target) {
    let service = &target.reservations;
    for (path, field) in [
        ("/api/reservations?limit=many", "limit"),
        ("/api/reservations?state=LATE", "state"),
        ("/api/reservations/prices", "resources"),
        ("/api/reservations/prices?resources=cpu&duration=1h", "resources"),
        ("/api/reservations/prices?resources=cpu=1&duration=0", "duration"),
        ("/api/reservations/prices?resources=cpu=1&duration=1h&width=x", "width"),
        ("/api/credits/journal?before=now", "before"),
    ] {
        wrong_field(&service.get(path), field);
    }
    unknown_input(&service.get("/api/reservations?color=red"), "color", "state, user, before, limit");
    unknown_input(&service.get("/api/credits?color=red"), "color", "user");
    service.get("/api/reservations/r999999").expect_problem(404);
    service.request("POST", "/api/reservations/r999999/cancel", &[], b"").expect_problem(404);
    let post = |path: &str, body: serde_json::Value| service.send_json("POST", path, &body);
    wrong_field(&post("/api/reservations", json!({ "duration": 5, "resources": {} })), "resources");
    wrong_field(&post("/api/reservations", json!({ "resources": { "cpu": 1 } })), "duration");
    wrong_field(&post("/api/credits/grants", json!({ "user": "(held)", "amount": 1 })), "user");
    wrong_field(&post("/api/credits/grants", json!({ "user": "ada", "amount": 1e300 })), "amount");
    wrong_field(&post("/api/reservations/r1/bid", json!({ "value": "much" })), "value");
}
