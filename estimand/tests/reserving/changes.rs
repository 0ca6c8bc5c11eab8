//! Reservations that are changed: another window, width or length, all or nothing.

use estimand_testkit::wait::{self, PATIENCE};
use serde_json::{Value, json};

use crate::plane::{Plane, credits, seconds};

fn with(asked: &Value, more: &Value) -> Value {
    let mut asked = asked.clone();
    asked.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    asked
}

#[test]
fn a_change_is_quoted_anew_and_swapped_in_one_step() {
    let plane = Plane::start();
    let cpu = plane.processors();
    plane.grant("ada", "100");
    let asked = json!({ "resources": { "cpu": cpu / 2.0 }, "duration": 10, "from": "20m", "by": "30m", "value": 50,
        "user": "ada" });
    let made = plane.reserve(&asked).expect_status(201).json();
    let (id, price) = (made["id"].as_str().unwrap(), credits(&made["price"]));

    // Twice as long costs twice as much.
    let longer = json!({ "duration": 20 });
    let quote = plane.change(id, &with(&longer, &json!({ "dryRun": true }))).expect_status(200).json();
    assert_eq!((credits(&quote["price"]), credits(&quote["more"])), (2 * price, price), "{quote}");
    assert_eq!(plane.reservation(id), made, "nothing has changed");
    let changed = plane.change(id, &longer).expect_status(200).json();
    assert_eq!((&changed["promise"], &changed["state"]), (&made["promise"], &json!("PROMISED")));
    assert_eq!(credits(&changed["price"]), 2 * price);
    assert_eq!(changed["document"]["duration"], "20s");
    assert_eq!(plane.balance("ada"), 100_000_000 - 2 * price);
    let promise = plane.promise(&changed);
    assert_eq!(promise["until"].as_u64().unwrap() - promise["from"].as_u64().unwrap(), 20, "{promise}");

    // Its own promise is not in its way: it can have the whole node at the same time.
    let wide = json!({ "width": 2, "from": changed["start"], "by": changed["end"] });
    let wide = plane.change(id, &wide).expect_status(200).json();
    assert_eq!((&wide["start"], &wide["width"]), (&changed["start"], &json!(2)));
    assert_eq!(plane.promise(&wide)["units"].as_array().unwrap().len(), 2);

    // The same again changes nothing; what costs less is given back but for a twentieth.
    let before = plane.balance("ada");
    assert_eq!(before, 100_000_000 - 4 * price);
    plane.change(id, &json!({ "width": 2 })).expect_status(200);
    assert_eq!(plane.balance("ada"), before);
    let narrow = plane.change(id, &json!({ "width": 1, "duration": 10 })).expect_status(200).json();
    let fee = u64::div_ceil(3 * price, 20);
    assert_eq!((credits(&narrow["price"]), credits(&narrow["fees"])), (price, fee), "{narrow}");
    assert_eq!(plane.balance("ada"), 100_000_000 - price - fee);
    plane.check_money();
}

#[test]
fn a_refused_change_leaves_everything_as_it_was() {
    let plane = Plane::start();
    let cpu = plane.processors();
    plane.grant("ada", &format!("{}", cpu / 10.0));
    let asked = json!({ "resources": { "cpu": cpu }, "duration": 10, "from": "20m", "by": "30m", "value": 0.5,
        "user": "ada" });
    let made = plane.reserve(&asked).expect_status(201).json();
    let next = with(&asked, &json!({ "from": made["end"], "by": "31m" }));
    let other = plane.reserve(&next).expect_status(201).json();
    assert_eq!(other["start"], made["end"]);
    let (id, balance) = (made["id"].as_str().unwrap(), plane.balance("ada"));
    let window = json!({ "from": made["start"], "by": made["end"] });
    for (change, status, kind) in [
        (json!({ "width": 2 }), 409, "infeasible"),
        (with(&window, &json!({ "duration": 11 })), 409, "infeasible"),
        (json!({ "from": other["start"], "by": other["end"] }), 409, "infeasible"),
        (json!({ "value": 0 }), 409, "price-above-value"),
        (json!({ "duration": "20m", "value": 1000, "by": "55m" }), 409, "too-few-credits"),
        (json!({ "by": "3h" }), 400, "invalid-input"),
        (json!({ "from": "2020-01-01T00:00:00Z" }), 400, "invalid-input"),
        (json!({ "width": 1_u64 << 63 }), 400, "invalid-input"),
        (json!({ "duration": 0 }), 400, "invalid-input"),
        (json!({ "value": "NaN" }), 400, "invalid-input"),
        (json!({ "value": 1e300 }), 400, "invalid-input"),
        (json!({ "resources": { "cpu": 1 } }), 400, "invalid-input"),
        (json!({}), 400, "invalid-input"),
    ] {
        for dry in [true, false] {
            let asked = with(&change, &json!({ "dryRun": dry }));
            let answer = plane.change(id, &asked);
            // A price is no secret to those who cannot pay it.
            if dry && ["price-above-value", "too-few-credits"].contains(&kind) {
                answer.expect_status(200);
                continue;
            }
            let problem = answer.expect_problem(status);
            assert_eq!(problem["type"], kind, "{change}: {problem}");
            assert!(
                problem["errors"][0]["expected"].is_string() || kind == "too-few-credits",
                "{change}: {problem}"
            );
        }
    }
    assert_eq!(plane.reservation(id), made);
    assert_eq!(
        (plane.balance("ada"), plane.promise(&made)["until"].as_u64()),
        (balance, Some(seconds(&made["end"])))
    );
    plane.change("r999", &json!({ "width": 2 })).expect_problem(404);
    plane.http.request("POST", &format!("/api/reservations/{id}/cancel"), &[], b"").expect_status(200);
    let over = plane.change(id, &json!({ "width": 2 })).expect_problem(409);
    assert!(over["detail"].as_str().unwrap().contains("is CANCELLED"), "{over}");
    plane.check_money();
}

#[test]
fn a_changed_width_runs_so_many_tasks() {
    let plane = Plane::start();
    let cpu = plane.processors();
    plane.grant("ada", "100");
    let asked = json!({ "resources": { "cpu": cpu / 4.0 }, "width": 4, "duration": 5, "from": "15s", "value": 100, "user": "ada",
        "task": { "id": "mine", "command": "/bin/true" } });
    let made = plane.reserve(&asked).expect_status(201).json();
    let id = made["id"].as_str().unwrap();
    let task_of = |count: u64| {
        wait::until_ok(PATIENCE, "the array of tasks", || {
            let task = plane.http.get("/api/tasks/mine").json();
            if task["document"]["count"].as_u64() == Some(count) { Ok(()) } else { Err(task) }
        });
    };
    task_of(4);
    plane.change(id, &json!({ "width": 2 })).expect_status(200);
    task_of(2);
    let over = plane.wait_state(id, "OVER");
    assert_eq!(over["task"], "mine");
    crate::had::check(&plane, &over, &["mine.0".to_owned(), "mine.1".to_owned()]);
    for index in 0..2 {
        let task = plane.http.get(&format!("/api/tasks/mine.{index}")).expect_status(200).json();
        assert_eq!(task["ending"], json!({ "exit": 0 }), "{task}");
    }
    plane.http.get("/api/tasks/mine.2").expect_problem(404);
    let begun = plane.change(id, &json!({ "width": 1 })).expect_problem(409);
    assert!(begun["detail"].as_str().unwrap().contains("only one whose time is to come"), "{begun}");
    plane.check_money();
}
