//! The feed: every event has a revision, one more than the one before; it is read in pages and watched, and what was seen
//! once is gone on from, through restarts.

use estimand_testkit::http::EventReader;
use serde_json::{Value, json};

use crate::support::{PATIENCE, Running, World, node, refused, simple, sqlite, with};

on_each_engine!(
    everything_that_happens_has_a_revision_also_after_a_crash,
    a_watch_goes_on_where_it_broke_off,
    an_event_that_comes_later_is_waited_for,
);

/// All events after a revision, by pages of two.
fn read_on(running: &Running, query: &str, mut after: Value) -> Vec<Value> {
    let mut all = Vec::new();
    loop {
        let page = running
            .get(&format!("/api/tasks/events?limit=2&after={after}&{query}"))
            .expect_status(200)
            .json();
        let events = page["events"].as_array().unwrap();
        if events.is_empty() && page["next"] == page["revision"] {
            return all;
        }
        all.extend(events.iter().cloned());
        after = page["next"].clone();
    }
}

fn told(events: &[Value]) -> Vec<String> {
    let told = |event: &Value| format!("{} {}", event["id"].as_str().unwrap(), event["to"].as_str().unwrap());
    events.iter().map(told).collect()
}

fn revisions(events: &[Value]) -> Vec<u64> {
    events.iter().map(|event| event["revision"].as_u64().unwrap()).collect()
}

/// The next events of a watch, without its own words.
fn changes(watch: &mut EventReader, count: usize) -> Vec<Value> {
    let mut found = Vec::new();
    while found.len() < count {
        let event = watch.next_event(PATIENCE);
        if event.event == "change" {
            assert_eq!(event.id, Some(event.json()["revision"].to_string()));
            found.push(event.json());
        }
    }
    found
}

/// Submits a task, and has it go through everything.
fn goes_through(running: &Running, id: &str) {
    running.submit(&with(&json!({ "id": id, "user": "me", "labels": { "study": id }, "priority": 2 })));
    running.wait_for(id, "PLACED");
    running.report(id, 1, &json!("running"));
    running.ends(id, 1, &json!({ "exit": 7 }));
}

fn delete(running: &Running, id: &str) {
    running.serving.http.request("DELETE", &format!("/api/tasks/{id}"), &[], b"").expect_status(204);
}

fn everything_that_happens_has_a_revision_also_after_a_crash() {
    let (world, (_folder, store)) = (World::start(&[node("n1", 2, &json!({}))]), sqlite());
    let running = Running::start(&store, &world);
    goes_through(&running, "a");
    delete(&running, "a");
    running.submit(&with(&json!({ "id": "waits", "resources": { "gpu": 1 } })));
    running.crash();
    world.elect();
    let running = Running::start(&store, &world);
    running.cancel("waits");

    let events = read_on(&running, "", json!(0));
    let expected =
        ["a QUEUED", "a PLACED", "a RUNNING", "a FAILED", "a DELETED", "waits QUEUED", "waits CANCELLED"];
    assert_eq!(told(&events), expected);
    assert_eq!(revisions(&events), [1, 2, 3, 4, 5, 6, 7]);
    let [submitted, placed, _, failed, deleted, ..] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!((&submitted["cause"]["priority"], submitted.get("from")), (&json!(2), None));
    assert_eq!(
        (&placed["node"], &placed["attempt"], &placed["actor"]),
        (&json!("n1"), &json!(1), &json!("scheduler"))
    );
    assert_eq!((&failed["ending"], &failed["actor"]), (&json!({ "exit": 7 }), &json!({ "agent": "n1" })));
    assert_eq!((&failed["user"], &failed["labels"]), (&json!("me"), &json!({ "study": "a" })));
    assert_eq!((&deleted["from"], &deleted["cause"]), (&json!("FAILED"), &json!({ "event": "delete" })));

    let chosen = |query: &str| told(&read_on(&running, query, json!(0)));
    assert_eq!(chosen("state=deleted,cancelled"), ["a DELETED", "waits CANCELLED"]);
    assert_eq!(chosen("labels=study%3Da&state=FAILED"), ["a FAILED"]);
    assert_eq!(chosen("user=nobody"), Vec::<String>::new());
    assert_eq!(chosen("id=wa*"), ["waits QUEUED", "waits CANCELLED"]);
    assert_eq!(chosen("id=wait"), Vec::<String>::new());

    // A list says where to go on.
    let list = running.get("/api/tasks").expect_status(200);
    assert_eq!(list.header("estimand-revision"), Some("7"));
    // A revision that was never reached is of another store.
    assert!(refused(running.get("/api/tasks/events?after=8"), 410).contains("newest is 7"));
    refused(running.get("/api/tasks/watch?after=8"), 410);
    for (query, field) in
        [("state=HAPPY", "state"), ("after=x", "after"), ("limit=-", "limit"), ("node=n", "node")]
    {
        let answer = running.get(&format!("/api/tasks/events?{query}")).expect_status(400).json();
        assert_eq!(answer["errors"][0]["field"], field);
    }
    running.stop();
}

fn a_watch_goes_on_where_it_broke_off() {
    let (world, (_folder, store)) = (World::start(&[node("n1", 2, &json!({}))]), sqlite());
    let running = Running::start(&store, &world);
    running.submit(&with(&json!({ "id": "before", "resources": { "gpu": 1 } })));
    let mut watch = running.serving.http.sse("/api/tasks/watch", &[]);
    let start = watch.next_event(PATIENCE);
    assert_eq!(
        (start.event.as_str(), start.json(), start.id.as_deref()),
        ("start", json!({ "revision": 1 }), Some("1"))
    );
    let mut ends = running.serving.http.sse("/api/tasks/watch?state=FAILED&after=0", &[]);
    goes_through(&running, "b");
    assert_eq!(told(&changes(&mut watch, 2)), ["b QUEUED", "b PLACED"]);
    assert_eq!(told(&changes(&mut ends, 1)), ["b FAILED"]);
    let settled = ends.next_event(PATIENCE);
    assert_eq!((settled.event.as_str(), settled.json()), ("settled", json!({ "revision": 5 })));
    drop(watch);
    running.crash();

    world.elect();
    let running = Running::start(&store, &world);
    let mut watch = running.serving.http.sse("/api/tasks/watch", &[("Last-Event-ID", "3")]);
    assert_eq!(told(&changes(&mut watch, 2)), ["b RUNNING", "b FAILED"]);
    delete(&running, "b");
    assert_eq!(revisions(&changes(&mut watch, 1)), [6]);
    assert_eq!(running.figure("estimand_task_watchers"), Some(1.0));
    running.stop();
    // The service ends the stream in good order.
    while watch.try_next(PATIENCE).unwrap().is_some() {}
}

fn an_event_that_comes_later_is_waited_for() {
    let (world, (_folder, store)) = (World::start(&[]), sqlite());
    let running = Running::start(&store, &world);
    std::thread::scope(|scope| {
        let waiting =
            scope.spawn(|| running.get("/api/tasks/events?after=0&waitMs=60000").expect_status(200).json());
        running.submit(&simple());
        let page = waiting.join().unwrap();
        assert_eq!((told(page["events"].as_array().unwrap()).len(), &page["next"]), (1, &json!(1)));
    });
    running.stop();
}
