//! The interface of the registry, asked over real connections, on SQLite.

#![allow(clippy::unwrap_used)]

mod support;

use std::sync::Barrier;

use estimand_store::{Connection, StoreUrl};
use serde_json::{Value, json};
use support::{Running, refused, simple, sqlite, with};

#[test]
fn what_is_registered_is_read_back_in_order_of_name() {
    let (_folder, store) = sqlite();
    let service = Running::start(&store);
    assert_eq!(service.get("/api/registry").expect_status(200).text(), "[]");
    let created = service.post(&simple("b")).expect_status(201);
    assert_eq!(created.header("location"), Some("/api/registry/b"));
    assert_eq!(created.header("etag"), Some("\"1\""));
    assert_eq!(created.header("estimand-hint"), None);
    service.post(&simple("a")).expect_status(201);

    let one = service.get("/api/registry/b").expect_status(200);
    assert_eq!((one.json(), one.header("etag")), (created.json(), Some("\"1\"")));
    let (body, at) = (one.json(), one.json()["createdAt"].clone());
    assert_eq!(
        body,
        json!({
            "dataName": "b", "cmd": "cat /proc/loadavg", "max-Time": 5, "kind": "collector", "mode": "exec",
            "format": "auto", "replicas": "all", "version": 1, "createdAt": at, "updatedAt": at,
        })
    );
    let all = service.get("/api/registry/").expect_status(200).json();
    let names: Vec<_> = all.as_array().unwrap().iter().map(|one| one["dataName"].as_str().unwrap()).collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!(all[1], body);
    service.stop();
}

#[test]
fn what_is_not_there_or_no_name_is_refused() {
    let (_folder, store) = sqlite();
    let service = Running::start(&store);
    for path in ["/api/registry/a", "/api/registry/a/history"] {
        assert!(refused(service.get(path), 404).contains("`a`"));
    }
    refused(service.delete("a"), 404);
    refused(service.put(&simple("a")), 404);
    for path in ["/api/registry/1a", "/api/registry/a%20b/history"] {
        assert!(refused(service.get(path), 400).starts_with("dataName: is not a data name"));
    }
    refused(service.delete("-"), 400);
    assert!(refused(service.get("/api/registry?name=a"), 400).contains("name"));
    service.stop();
}

#[test]
fn a_taken_name_says_since_when_and_what_to_do() {
    let (_folder, store) = sqlite();
    let service = Running::start(&store);
    let created = service.post(&simple("a")).expect_status(201).json();
    let detail = refused(service.post(&simple("a")), 409);
    for part in ["`a`", created["createdAt"].as_str().unwrap(), "version 1", "PUT /api/registry"] {
        assert!(detail.contains(part), "{detail}");
    }
    service.stop();
}

#[test]
fn everything_that_is_wrong_is_said_at_once() {
    let (_folder, store) = sqlite();
    let service = Running::start(&store);
    let body =
        with("a", &json!({ "version": 3, "createdAt": "x", "updatedAt": null, "max-Time": -1, "nodess": 1 }));
    let problem = service.post(&body).expect_status(400).json();
    let fields: Vec<_> =
        problem["errors"].as_array().unwrap().iter().map(|e| e["field"].as_str().unwrap()).collect();
    assert_eq!(fields, ["version", "createdAt", "max-Time", "nodess"]);
    refused(service.post(&with("a", &json!({ "version": 1 }))), 400);
    refused(service.post(&json!([])), 400);
    let large = with("a", &json!({ "env": { "X": "x".repeat(64 * 1024) } }));
    refused(service.post(&large), 413);
    refused(service.put(&large), 413);
    assert_eq!(service.get("/api/registry").text(), "[]");
    service.stop();
}

#[test]
fn replacing_grows_the_version_and_only_a_real_change_counts() {
    let (_folder, store) = sqlite();
    let service = Running::start(&store);
    let first = service.post(&simple("a")).expect_status(201).json();
    // The body of a GET may be sent back, and changes nothing.
    let same = service.put(&first).expect_status(200);
    assert_eq!((same.json(), same.header("etag")), (first.clone(), Some("\"1\"")));

    let second = service.put(&with("a", &json!({ "max-Time": 6, "version": 1 }))).expect_status(200).json();
    assert_eq!((&second["version"], &second["max-Time"]), (&json!(2), &json!(6)));
    assert_eq!(second["createdAt"], first["createdAt"]);
    assert!(second["updatedAt"].as_str() > first["updatedAt"].as_str());

    let detail = refused(service.put(&with("a", &json!({ "max-Time": 7, "version": 1 }))), 409);
    assert!(detail.contains("version 2, not 1") && detail.contains("/api/registry/a/history"), "{detail}");
    // Sent a second time because its answer was lost: it is so already.
    service.put(&with("a", &json!({ "max-Time": 6, "version": 1 }))).expect_status(200);
    service.put(&with("a", &json!({ "max-Time": 7 }))).expect_status(200);
    assert_eq!(
        service.trail("a"),
        [(3, "replaced".to_owned()), (2, "replaced".to_owned()), (1, "created".to_owned())]
    );
    service.stop();
}

#[test]
fn versions_grow_over_deletion_and_restart() {
    let (_folder, store) = sqlite();
    let service = Running::start(&store);
    service.post(&simple("a")).expect_status(201);
    let deleted = service.delete("a").expect_status(204);
    assert!(deleted.body.is_empty());
    refused(service.get("/api/registry/a"), 404);
    let again = service.post(&with("a", &json!({ "max-Time": 9 }))).expect_status(201).json();
    assert_eq!(again["version"], 3);
    service.delete("a").expect_status(204);
    service.post(&simple("b")).expect_status(201);
    let before = service.get("/api/registry");
    service.stop();

    let service = Running::start(&store);
    assert_eq!(service.get("/api/registry").text(), before.text());
    let third = service.post(&simple("a")).expect_status(201).json();
    assert_eq!(third["version"], 5);
    let trail = service.get("/api/registry/a/history").expect_status(200).json();
    let actions: Vec<_> = trail.as_array().unwrap().iter().map(|e| (&e["action"], &e["version"])).collect();
    let expected = ["created", "deleted", "created", "deleted", "created"];
    let expected: Vec<(Value, Value)> =
        expected.iter().zip((1..=5).rev()).map(|(a, v)| (json!(a), json!(v))).collect();
    assert_eq!(actions, expected.iter().map(|(a, v)| (a, v)).collect::<Vec<_>>());
    // The entry of a deletion has the deleted registration.
    assert_eq!((&trail[1]["registration"]["max-Time"], &trail[1]["by"]), (&json!(9), &json!("127.0.0.1")));
    service.stop();
}

#[test]
fn a_cycle_of_inputs_is_refused_and_shown() {
    let (_folder, store) = sqlite();
    let service = Running::start(&store);
    let reading = |name: &str, inputs: &[&str]| with(name, &json!({ "kind": "processor", "inputs": inputs }));
    service.post(&reading("a", &["b", "plain"])).expect_status(201);
    service.post(&reading("b", &["c"])).expect_status(201);
    let detail = refused(service.post(&reading("c", &["plain", "a"])), 409);
    assert!(detail.contains("c → a → b → c"), "{detail}");
    service.post(&simple("c")).expect_status(201);
    assert!(refused(service.put(&reading("c", &["b"])), 409).contains("c → b → c"));
    assert_eq!(service.trail("c").len(), 1);
    // The former inputs of a replaced registration are no part of the graph any more.
    service.put(&reading("a", &["plain"])).expect_status(200);
    service.put(&reading("c", &["a"])).expect_status(200);
    service.stop();
}

#[test]
fn a_line_meant_for_a_shell_is_taken_with_a_hint() {
    let (_folder, store) = sqlite();
    let service = Running::start(&store);
    let hint =
        |response: estimand_testkit::http::Response| response.header("estimand-hint").map(str::to_owned);
    let created = service.post(&with("a", &json!({ "cmd": "echo é | wc" }))).expect_status(201);
    let text = hint(created).unwrap();
    assert!(text.is_ascii() && text.ends_with(r#"["sh","-c","echo \u00e9 | wc"]"#), "{text}");
    assert!(hint(service.put(&with("a", &json!({ "cmd": "ls *" }))).expect_status(200)).is_some());
    assert_eq!(
        hint(service.put(&with("a", &json!({ "cmd": ["sh", "-c", "ls *"] }))).expect_status(200)),
        None
    );
    let expression = json!({ "cmd": "x > 1 && x < 2", "mode": "expr" });
    assert_eq!(hint(service.post(&with("b", &expression)).expect_status(201)), None);
    service.stop();
}

#[test]
fn of_many_who_register_one_name_exactly_one_succeeds() {
    const CALLERS: usize = 16;
    let (_folder, store) = sqlite();
    let service = Running::start(&store);
    let barrier = Barrier::new(CALLERS);
    let call = |place: usize| {
        barrier.wait();
        service.post(&with("a", &json!({ "max-Time": place + 1 }))).status
    };
    let call = &call;
    let mut statuses: Vec<u16> = std::thread::scope(|scope| {
        let callers: Vec<_> = (0..CALLERS).map(|place| scope.spawn(move || call(place))).collect();
        callers.into_iter().map(|caller| caller.join().unwrap()).collect()
    });
    statuses.sort_unstable();
    assert_eq!(statuses[0], 201);
    assert!(statuses[1..].iter().all(|status| *status == 409), "{statuses:?}");
    assert_eq!(service.trail("a"), [(1, "created".to_owned())]);
    service.stop();
}

#[test]
fn the_papers_columns_are_filled() {
    let (_folder, store) = sqlite();
    let service = Running::start(&store);
    service.post(&simple("a")).expect_status(201);
    service.post(&with("b", &json!({ "cmd": ["sh", "-c", "a | b"], "max-Time": 0.5 }))).expect_status(201);
    let mut connection = Connection::open(&store.parse::<StoreUrl>().unwrap()).unwrap();
    let rows = connection.load_registrations().unwrap();
    let columns: Vec<_> = rows.iter().map(|row| (row.cmd.as_str(), row.time_max)).collect();
    assert_eq!(columns, [("cat /proc/loadavg", Some(5.0)), (r#"["sh","-c","a | b"]"#, Some(0.5))]);
    service.stop();
}
