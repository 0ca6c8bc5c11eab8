//! Promises of capacity on every store: given, refused with where there is room, told, given back; and who may ask.

use estimand_testkit::http::Response;
use estimand_testkit::wait::{self, PATIENCE};
use serde_json::{Value, json};

use crate::access::token_with;
use crate::answers::{problem, unknown_input, wrong_field};
use crate::fake::Fake;
use crate::target::Target;

on_every_target!(
    capacity_is_promised_refused_told_and_given_back,
    wrong_promises_are_refused_with_every_error,
    a_reader_sees_what_is_free_and_no_promises,
);

/// Seconds since 1970, far enough off for any machine.
const FROM: u64 = 4_000_000_000;

fn ask(target: &Target, body: &Value) -> Response {
    target.tasks.send_json("POST", "/api/capacity/promises", body)
}

/// A node of a class of its own.
fn of_own_class(target: &Target) -> Fake<'_> {
    let fake = Fake::new(target);
    fake.set_labels(json!({ "fake": fake.node, "class": fake.node }));
    fake.beat().expect_status(200);
    fake
}

fn cpu(fake: &Fake<'_>, cpu: u64) -> Value {
    json!({ "resources": { "cpu": cpu }, "class": fake.node, "from": FROM, "until": FROM + 60 })
}

fn capacity_is_promised_refused_told_and_given_back(target: &Target) {
    let fake = of_own_class(target);
    let key = target.name("promise");
    let body = json!({ "allOrNone": [cpu(&fake, 3000)] });
    // Its heartbeats may be late, and the node lost for a moment.
    let made = wait::until(PATIENCE, "the promise", || {
        fake.beat();
        let headers = [("Idempotency-Key", key.as_str()), ("Content-Type", "application/json")];
        let text = body.to_string();
        let answer = target.tasks.request("POST", "/api/capacity/promises", &headers, text.as_bytes());
        (answer.status == 201).then(|| answer.json())
    });
    let promise = &made["promises"][0];
    assert_eq!((&promise["state"], &promise["units"]), (&json!("PROMISED"), &json!([fake.node])));
    let id = promise["id"].as_str().unwrap();
    let full = ask(target, &json!({ "allOrNone": [cpu(&fake, 2000)] })).expect_problem(409);
    assert_eq!(full["room"]["units"], 0, "{full}");
    let moved = json!({ "ifRevision": 0, "allOrNone": [cpu(&fake, 1)] });
    let moved = ask(target, &moved).expect_problem(409);
    assert!(moved["room"]["revision"].as_u64() >= made["revision"].as_u64(), "{moved}");
    fake.beat().expect_status(200);
    let query =
        format!("/api/capacity/timeline?class={}&from={}&until={}&step=60", fake.node, FROM, FROM + 120);
    let class = target.tasks.get(&query).expect_status(200).json()["classes"][0].clone();
    assert_eq!(class["promised"]["cpu"], json!([3000, 0]), "{class}");
    let path = format!("/api/capacity/promises/{id}");
    let resized = target.tasks.send_json("POST", &format!("{path}/resize"), &json!({ "until": FROM + 30 }));
    assert_eq!(resized.expect_status(200).json()["until"], json!(FROM + 30));
    let query = format!("/api/capacity/promises?after={}&waitMs=30000&limit=1000", made["revision"]);
    let page = target.tasks.get(&query).expect_status(200).json();
    assert!(page["promises"].as_array().unwrap().iter().any(|one| one["id"] == id), "{page}");
    let released = target.tasks.request("DELETE", &path, &[], b"").expect_status(200).json();
    assert_eq!(released["state"], "RELEASED");
    assert_eq!(target.tasks.get(&path).expect_status(200).json(), released);
    several_are_given_back_in_one_step(target, &fake);
}

fn several_are_given_back_in_one_step(target: &Target, fake: &Fake<'_>) {
    let batch = json!({ "allOrNone": [cpu(fake, 1000), cpu(fake, 1000)] });
    let made = wait::until(PATIENCE, "two promises", || {
        fake.beat();
        let answer = ask(target, &batch);
        (answer.status == 201).then(|| answer.json())
    });
    let ids: Vec<Value> =
        made["promises"].as_array().unwrap().iter().map(|promise| promise["id"].clone()).collect();
    let release =
        |ids: Value| target.tasks.send_json("POST", "/api/capacity/releases", &json!({ "ids": ids }));
    let released = release(json!([ids[0], "nobody", ids[1], ids[0]])).expect_status(200).json();
    let mut given_back = released["released"].as_array().unwrap().clone();
    given_back.sort_by_key(ToString::to_string);
    let mut expected = ids.clone();
    expected.sort_by_key(ToString::to_string);
    assert_eq!(given_back, expected);
    for id in &ids {
        let path = format!("/api/capacity/promises/{}", id.as_str().unwrap());
        let promise = target.tasks.get(&path).expect_status(200).json();
        assert_eq!((&promise["state"], &promise["revision"]), (&json!("RELEASED"), &released["revision"]));
    }
    assert_eq!(release(json!(ids)).expect_status(200).json()["released"], json!([]), "they are over");
    wrong_field(&release(json!([])), "ids");
    wrong_field(&release(json!([7])), "ids");
}

fn wrong_promises_are_refused_with_every_error(target: &Target) {
    let unknown = ask(target, &json!({ "allOrNone": [{ "untill": 5 }] }));
    unknown_input(&unknown, "allOrNone[0].untill", "until");
    let several = json!({ "allOrNone": [
        { "resources": { "cpu": 0.5 }, "width": 0, "from": 9, "until": 3, "value": -1 },
    ] });
    let several = ask(target, &several);
    for field in ["resources", "width", "until", "value"] {
        wrong_field(&several, &format!("allOrNone[0].{field}"));
    }
    let past = ask(target, &json!({ "allOrNone": [{ "resources": { "cpu": 1 }, "from": 8, "until": 9 }] }));
    assert!([400, 503].contains(&past.status), "the window is over, or no node is known yet: {past}");
    for (path, field) in [
        ("/api/capacity/promises?after=now", "after"),
        ("/api/capacity/promises?state=happy", "state"),
        ("/api/capacity/promises?waitMs=soon", "waitMs"),
        ("/api/capacity/timeline?from=9&until=9", "until"),
        ("/api/capacity/timeline?step=0", "step"),
        ("/api/capacity/timeline?from=0&until=999999999&step=1", "step"),
    ] {
        wrong_field(&target.tasks.get(path), field);
    }
    unknown_input(&target.tasks.get("/api/capacity/promises?user=x"), "user", "state");
    problem(&target.tasks.get("/api/capacity/promises/nobody"), 404);
    problem(&target.tasks.get("/api/capacity/promises?after=999999999999"), 410);
    problem(&target.tasks.request("DELETE", "/api/capacity/promises/nobody", &[], b""), 404);
    let resize = |body: &Value| target.tasks.send_json("POST", "/api/capacity/promises/nobody/resize", body);
    problem(&resize(&json!({ "until": FROM })), 404);
    wrong_field(&resize(&json!({})), "until");
    let on_nothing = json!({ "command": "x", "promise": "nobody" });
    problem(&target.tasks.send_json("POST", "/api/tasks", &on_nothing), 404);
}

fn a_reader_sees_what_is_free_and_no_promises(target: &Target) {
    let token = token_with(target, &json!({ "role": "read" }));
    let shown = format!("Bearer {token}");
    let headers = [("Authorization", shown.as_str()), ("Content-Type", "application/json")];
    let body = json!({ "allOrNone": [{ "resources": { "cpu": 1 }, "until": FROM }] }).to_string();
    let send = |method: &str, path: &str| target.tasks.request(method, path, &headers, body.as_bytes());
    problem(&send("POST", "/api/capacity/promises"), 403);
    problem(&send("POST", "/api/capacity/promises/p/resize"), 403);
    problem(&send("DELETE", "/api/capacity/promises/p"), 403);
    problem(&send("POST", "/api/capacity/releases"), 403);
    let read = |path: &str| target.tasks.request("GET", path, &headers[..1], b"");
    problem(&read("/api/capacity/promises"), 403);
    problem(&read("/api/capacity/promises/p"), 403);
    // It is 503 as long as no node is known.
    assert_ne!(read("/api/capacity/timeline").status, 403);
}
