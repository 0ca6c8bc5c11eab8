//! Watching: first the snapshot, then each change, and no gap and no repetition across connections.

use estimand_testkit::http::{Event, EventReader};
use estimand_testkit::wait::PATIENCE;
use serde_json::{Value, json};
use std::sync::mpsc::{TryRecvError, channel};
use std::thread;
use std::time::Duration;

use crate::answers::{column, revision_of, unknown_input, wrong_field, wrong_input};
use crate::target::Target;

on_every_target!(
    a_watch_tells_all_there_is_and_each_change,
    a_change_of_state_is_an_event,
    a_watch_resumes_without_gap_or_repetition,
    a_watch_begun_amid_writes_misses_nothing,
    a_watch_is_quiet_about_other_names,
    a_revision_that_is_gone_begins_anew,
    a_swap_begins_anew,
    a_swap_that_was_missed_is_told_before_what_came_before_it,
    a_bound_name_is_watched_under_its_own_name,
    a_batch_arrives_in_order,
    a_watch_says_that_all_has_been_sent,
    everything_is_watched_with_a_star,
    wrong_watches_are_refused,
);

fn watch(target: &Target, names: &str) -> EventReader {
    target.data.sse(&format!("/api/data/watch?dataName={names}"), &[])
}

fn resume(target: &Target, names: &str, id: &str) -> EventReader {
    target.data.sse(&format!("/api/data/watch?dataName={names}"), &[("Last-Event-ID", id)])
}

/// The next event, which must be of this kind; its id and its content.
#[track_caller]
fn next(events: &mut EventReader, kind: &str) -> (String, Value) {
    let event: Event = events.next_news(PATIENCE);
    assert_eq!(event.event, kind, "{event:?}");
    let content = event.json();
    let id = event.id.clone().unwrap_or_else(|| panic!("no id: {event:?}"));
    assert_eq!(id, content["revision"].to_string(), "an event's id is its revision");
    (id, content)
}

/// The snapshot that a watch begins with, or begins anew with.
#[track_caller]
fn snapshot(events: &mut EventReader, reason: Option<&str>) -> (String, Vec<Value>) {
    let (id, content) = next(events, "snapshot");
    if let Some(reason) = reason {
        assert_eq!(content["reason"], reason);
    }
    (id, content["values"].as_array().unwrap().clone())
}

fn a_watch_tells_all_there_is_and_each_change(target: &Target) {
    let name = target.name("watch");
    target.write(&name, "n1", 1);
    target.write(&name, "n2", 2);
    let mut events = watch(target, &name);
    let (_, values) = snapshot(&mut events, None);
    assert_eq!(values, target.query(&format!("dataName={name}")));

    target.write(&name, "n2", 3);
    assert_eq!(next(&mut events, "change").1, target.one(&name, "n2"));
    target.write(&name, "n3", 4);
    assert_eq!(next(&mut events, "change").1, target.one(&name, "n3"));
    let deleted = target.delete(&format!("dataName={name}&dataNode=n1"));
    let (_, gone) = next(&mut events, "delete");
    assert_eq!(gone, json!({"dataName": name, "nodeName": "n1", "revision": deleted["revision"]}));
}

fn a_change_of_state_is_an_event(target: &Target) {
    let (name, node) = (target.name("watch"), target.name("node"));
    target.write(&name, &node, 1);
    let mut events = watch(target, &name);
    snapshot(&mut events, None);
    let mut state = || next(&mut events, "change").1["state"].as_str().unwrap().to_owned();
    target.put(&json!({"dataName": name, "nodeName": node, "state": "failed"}));
    assert_eq!(state(), "failed");
    for marked in ["node-lost", "fresh"] {
        let body = json!({"nodeName": node, "state": marked});
        target.data.send_json("PUT", "/api/data/state", &body).expect_status(200);
    }
    assert_eq!(state(), "node-lost");
    assert_eq!(state(), "failed");
    target.put(&json!({"dataName": name, "nodeName": node, "dataValue": 2, "validFor": 0.2}));
    assert_eq!(state(), "fresh");
    assert_eq!(state(), "stale");
}

fn a_watch_resumes_without_gap_or_repetition(target: &Target) {
    let name = target.name("watch");
    let mut events = watch(target, &name);
    let (mut last, _) = snapshot(&mut events, None);
    let mut seen = Vec::new();
    for round in 0..4 {
        for step in 0..5 {
            target.write(&name, "n", round * 5 + step);
            // Something else changes too, so that revisions of this name have gaps.
            target.write(&target.name("noise"), "n", 0);
        }
        // Some of them are seen on this connection, the others on the next one.
        for _ in 0..=round {
            let (id, change) = next(&mut events, "change");
            seen.push(change["dataValue"].clone());
            last = id;
        }
        drop(events);
        events = resume(target, &name, &last);
    }
    while seen.len() < 20 {
        seen.push(next(&mut events, "change").1["dataValue"].clone());
    }
    assert_eq!(json!(seen), json!((0..20).collect::<Vec<_>>()));
}

fn a_watch_begun_amid_writes_misses_nothing(target: &Target) {
    let name = target.name("watch");
    target.write(&name, "n", 0);
    let written = &name;
    thread::scope(|scope| {
        // Dropped when this closure ends, however it does, and then the writer ends too.
        let (_running, ended) = channel::<()>();
        scope.spawn(move || {
            let mut value = 0;
            while ended.try_recv() == Err(TryRecvError::Empty) {
                value += 1;
                target.write(written, "n", value);
            }
        });
        for _ in 0..100 {
            let mut events = watch(target, &name);
            let (_, values) = snapshot(&mut events, None);
            let mut last = values[0]["dataValue"].as_u64().unwrap();
            for _ in 0..5 {
                // Neither a second snapshot nor a gap, however close a write was.
                let now = next(&mut events, "change").1["dataValue"].as_u64().unwrap();
                assert_eq!(now, last + 1);
                last = now;
            }
            // A watch that resumes from the revision of a read misses nothing either.
            let read = target.data.get(&format!("/api/data/{name}/n")).expect_status(200);
            let mut events = resume(target, &name, &revision_of(&read).to_string());
            let first = next(&mut events, "change").1["dataValue"].as_u64().unwrap();
            assert_eq!(first, read.json()["dataValue"].as_u64().unwrap() + 1);
        }
    });
}

fn a_watch_is_quiet_about_other_names(target: &Target) {
    let (name, other) = (target.name("watch"), target.name("watch"));
    let mut events = watch(target, &name);
    snapshot(&mut events, None);
    target.write(&other, "n", 1);
    target.delete(&format!("dataName={other}"));
    target.write(&name, "n", 2);
    assert_eq!(next(&mut events, "change").1["dataValue"], 2, "the first that is heard is the watched one");
}

fn a_revision_that_is_gone_begins_anew(target: &Target) {
    let name = target.name("watch");
    target.write(&name, "n", 1);
    // A revision that was never given out is one from a life of the store that is no more.
    let mut events = resume(target, &name, "9000000000000000");
    let (_, values) = snapshot(&mut events, Some("gone"));
    assert_eq!(values, [target.one(&name, "n")]);
    let written = target.write(&name, "n", 2);
    assert_eq!(next(&mut events, "change").1["revision"], written["revision"]);
}

fn a_swap_begins_anew(target: &Target) {
    let (stable, one, two) = (target.name("capability"), target.name("estimator"), target.name("estimator"));
    target.write(&one, "n1", "one");
    target.write(&two, "n2", "two");
    let path = format!("/api/bindings/{stable}");
    let bind = |to: &str| target.data.send_json("PUT", &path, &json!({"to": to})).expect_status(200);
    bind(&one);
    let mut events = watch(target, &stable);
    let (before, values) = snapshot(&mut events, None);
    assert_eq!(column(&values, "dataValue"), ["one"]);

    bind(&two);
    let (_, values) = snapshot(&mut events, Some("rebound"));
    assert_eq!(
        (column(&values, "dataName"), column(&values, "dataValue")),
        (vec![stable.clone()], vec!["two".into()])
    );
    target.write(&two, "n2", "two again");
    assert_eq!(next(&mut events, "change").1["dataValue"], "two again");
    target.write(&one, "n1", "unheard");

    target.data.request("DELETE", &path, &[], b"").expect_status(204);
    assert_eq!(snapshot(&mut events, Some("rebound")).1, Vec::<Value>::new());
    // A watcher that was away during the swap is told of it too.
    assert_eq!(snapshot(&mut resume(target, &stable, &before), Some("rebound")).1, Vec::<Value>::new());
}

fn a_swap_that_was_missed_is_told_before_what_came_before_it(target: &Target) {
    let (stable, one, two) = (target.name("capability"), target.name("estimator"), target.name("estimator"));
    target.write(&one, "n", "one");
    let path = format!("/api/bindings/{stable}");
    let bind = |to: &str| target.data.send_json("PUT", &path, &json!({"to": to})).expect_status(200);
    bind(&one);
    let (seen, _) = snapshot(&mut watch(target, &stable), None);
    // More changes than are looked at in one go, of what is bound only after them.
    let batch: Vec<Value> = (0..2_000)
        .map(|place| json!({"dataName": two, "nodeName": format!("n{place}"), "dataValue": "two"}))
        .collect();
    target.data.send_json("POST", "/api/data/batch", &json!(batch)).expect_status(200);
    bind(&two);
    let mut events = resume(target, &stable, &seen);
    assert_eq!(snapshot(&mut events, Some("rebound")).1.len(), 2_000, "not a few of them before the swap");
    target.write(&two, "n", "new");
    assert_eq!(next(&mut events, "change").1["dataValue"], "new");
}

fn a_bound_name_is_watched_under_its_own_name(target: &Target) {
    let (stable, estimator) = (target.name("capability"), target.name("estimator"));
    let body = json!({"to": estimator});
    target.data.send_json("PUT", &format!("/api/bindings/{stable}"), &body).expect_status(200);
    let both = format!("{stable},{estimator}");
    let mut events = watch(target, &both);
    let (before, _) = snapshot(&mut events, None);
    // The first has no id: where the connection breaks before the second, both come again.
    let under_each_name = |events: &mut EventReader, kind: &str| {
        let first = events.next_news(PATIENCE);
        assert_eq!((first.event.as_str(), &first.id), (kind, &None), "{first:?}");
        let (id, second) = next(events, kind);
        let names = [first.json(), second];
        assert_eq!(names[0]["revision"].to_string(), id);
        assert_eq!(column(&names, "dataName"), [&*stable, &*estimator], "once under each watched name");
    };
    target.write(&estimator, "n", 1);
    under_each_name(&mut events, "change");
    under_each_name(&mut resume(target, &both, &before), "change");
    target.delete(&format!("dataName={estimator}"));
    under_each_name(&mut events, "delete");
}

fn a_batch_arrives_in_order(target: &Target) {
    let (one, two) = (target.name("watch"), target.name("watch"));
    let mut events = watch(target, &format!("{one},{two}"));
    snapshot(&mut events, None);
    let batch: Vec<Value> = (0..1_000)
        .map(|place| json!({"dataName": if place % 2 == 0 { &one } else { &two }, "nodeName": "n", "dataValue": place}))
        .collect();
    target.data.send_json("POST", "/api/data/batch", &json!(batch)).expect_status(200);
    let mut last = 0;
    for place in 0..1_000 {
        let (_, change) = next(&mut events, "change");
        assert_eq!(change["dataValue"], place);
        assert!(change["revision"].as_u64().unwrap() > last);
        last = change["revision"].as_u64().unwrap();
    }
}

/// As an event, which every client of server-sent events passes on; comments they drop.
fn a_watch_says_that_all_has_been_sent(target: &Target) {
    let name = target.name("watch");
    let mut events = watch(target, &name);
    snapshot(&mut events, None);
    // Other checks write at the same time, and what is not the last of all is not settled: so more than once.
    for round in 0.. {
        assert!(round < 1_000, "nothing is ever settled");
        let batch: Vec<Value> =
            ["n", "m"].map(|node| json!({"dataName": name, "nodeName": node, "dataValue": round})).to_vec();
        target.data.send_json("POST", "/api/data/batch", &json!(batch)).expect_status(200);
        next(&mut events, "change");
        let last = next(&mut events, "change").1["revision"].as_u64().unwrap();
        let Ok(Some(event)) = events.try_next(Duration::from_millis(200)) else { continue };
        assert_eq!(event.event, "settled", "{event:?}");
        // It counts the changes of other names that have come meanwhile.
        let settled = event.json()["revision"].as_u64().unwrap();
        assert!(settled >= last, "{settled} {last}");
        assert_eq!(event.id, Some(settled.to_string()));
        break;
    }
}

fn everything_is_watched_with_a_star(target: &Target) {
    let (before, later) = (target.name("watch"), target.name("watch"));
    target.write(&before, "n", 1);
    let mut events = watch(target, "*");
    let (_, values) = snapshot(&mut events, None);
    assert!(column(&values, "dataName").contains(&before));
    target.write(&later, "n", 2);
    // Other checks write at the same time; theirs are heard as well.
    loop {
        let event = events.next_news(PATIENCE);
        if event.json()["dataName"] == *later {
            assert_eq!((event.event.as_str(), &event.json()["dataValue"]), ("change", &json!(2)));
            break;
        }
    }
}

fn wrong_watches_are_refused(target: &Target) {
    let get = |path: &str| target.data.get(path);
    wrong_field(&get("/api/data/watch"), "dataName");
    wrong_field(&get("/api/data/watch?dataName="), "dataName");
    wrong_input(&get("/api/data/watch?dataName=a,b%20c"), "dataName", "b c", "letters");
    unknown_input(&get("/api/data/watch?dataName=a&since=3"), "since", "dataName");
    for id in ["abc", "-1", "1.5", "99999999999999999999"] {
        let headers = [("Last-Event-ID", id)];
        let answer = target.data.request("GET", "/api/data/watch?dataName=a", &headers, b"");
        wrong_input(&answer, "Last-Event-ID", id, "revision");
    }
    let mut events = resume(target, &target.name("watch"), "");
    snapshot(&mut events, None);
}
