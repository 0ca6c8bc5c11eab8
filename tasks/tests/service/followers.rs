//! Requests that follow one task, by its log, its end or its events, and the changes that wake them.

use std::io::Write as _;
use std::net::TcpStream;

use estimand_testkit::http::EventReader;
use estimand_testkit::wait;
use serde_json::{Value, json};

use crate::support::{PATIENCE, Running, World, node, simple, sqlite, with};

on_each_engine!(
    a_thousand_followers_of_a_quiet_task_sleep_while_another_changes,
    a_watch_by_task_begins_before_it_and_outlives_it,
    a_follower_of_an_array_hears_that_all_of_it_is_over,
);

const FOLLOWERS: usize = 1_000;
const WAKES: &str = "estimand_task_wakes_total";

/// A connection with a request that is not answered yet.
fn follower(running: &Running, path: &str) -> TcpStream {
    let mut connection = TcpStream::connect(running.serving.address).unwrap();
    connection.write_all(format!("GET {path} HTTP/1.1\r\nHost: tasks\r\n\r\n").as_bytes()).unwrap();
    connection
}

#[track_caller]
fn wait_for_figure(running: &Running, name: &str, expected: usize) {
    let expected = expected as f64;
    wait::until_ok(PATIENCE, &format!("{name} to be {expected}"), || match running.figure(name) {
        Some(figure) if figure == expected => Ok(()),
        other => Err(format!("{other:?}")),
    });
}

#[track_caller]
fn wait_for_wakes(running: &Running, least: usize) {
    wait::until_ok(PATIENCE, &format!("{least} wakes"), || match running.figure(WAKES) {
        Some(wakes) if wakes >= least as f64 => Ok(()),
        other => Err(format!("{other:?}")),
    });
}

/// Counted, not timed.
fn a_thousand_followers_of_a_quiet_task_sleep_while_another_changes() {
    // A connection has two ends here.
    estimand_runtime::open_files::raise_open_files();
    let (world, (_folder, store)) = (World::start(&[node("n1", 4, &json!({}))]), sqlite());
    let running = Running::start(&store, &world);
    let quiet = running.submit(&simple());
    let busy = running.submit(&simple());
    running.wait_for(&quiet, "PLACED");
    running.wait_for(&busy, "PLACED");
    let newest = running.get("/api/tasks").expect_status(200).header("estimand-revision").unwrap().to_owned();
    let paths = [
        format!("/api/tasks/{quiet}/logs?waitMs=60000"),
        format!("/api/tasks/{quiet}?waitMs=60000"),
        format!("/api/tasks/events?id={quiet}&after={newest}&waitMs=60000"),
        format!("/api/tasks/watch?id={quiet}"),
    ];
    let connect = |path: &String| -> Vec<TcpStream> {
        (0..FOLLOWERS / paths.len()).map(|_| follower(&running, path)).collect()
    };
    let connections: Vec<TcpStream> = paths.iter().flat_map(connect).collect();
    let followers = "estimand_task_followers";
    wait_for_figure(&running, followers, FOLLOWERS);
    let before = running.figure(WAKES).unwrap() as usize;

    for line in 0..20 {
        running.writes(&busy, 1, line, &[("STDOUT", "busy")]);
        let open = json!({ "at": line, "stream": "STDERR", "text": "busy" });
        let open = json!({ "id": busy, "attempt": 1, "lines": [open] });
        running.news(json!({ "open": [open] }));
    }
    running.ends(&busy, 1, &json!({ "exit": 0 }));
    let third = running.submit(&simple());
    running.wait_for(&third, "PLACED");
    // A follower that looked while its own task was placed may wake once more; a change of another task wakes no group of them.
    let woken = running.figure(WAKES).unwrap() as usize - before;
    assert!(woken < FOLLOWERS / paths.len(), "{woken} followers were woken by changes of other tasks");
    // A line of their own task wakes each of them, and is the answer to a quarter of them.
    running.writes(&quiet, 1, 0, &[("STDOUT", "a line")]);
    wait_for_wakes(&running, before + FOLLOWERS);
    wait_for_figure(&running, followers, FOLLOWERS * 3 / 4);
    running.ends(&quiet, 1, &json!({ "exit": 0 }));
    wait_for_wakes(&running, before + FOLLOWERS + FOLLOWERS * 3 / 4);
    drop(connections);
    running.stop();
}

/// The events of a watch up to one that leads to a state.
fn states_until(watch: &mut EventReader, last: &str) -> Vec<String> {
    let mut states: Vec<String> = Vec::new();
    while states.last().is_none_or(|state| state != last) {
        let event = watch.next_event(PATIENCE);
        if event.event == "change" {
            states.push(event.json()["to"].as_str().unwrap().to_owned());
        }
    }
    states
}

fn a_watch_by_task_begins_before_it_and_outlives_it() {
    let (world, (_folder, store)) = (World::start(&[node("n1", 4, &json!({}))]), sqlite());
    let running = Running::start(&store, &world);
    let mut watch = running.serving.http.sse("/api/tasks/watch?id=t", &[]);
    assert_eq!(watch.next_event(PATIENCE).event, "start");
    for attempt in 1..=2 {
        running.submit(&simple());
        running.submit(&with(&json!({ "id": "t" })));
        running.wait_for("t", "PLACED");
        running.ends("t", attempt, &json!({ "exit": 0 }));
        running.serving.http.request("DELETE", "/api/tasks/t", &[], b"").expect_status(204);
        assert_eq!(states_until(&mut watch, "DELETED"), ["QUEUED", "PLACED", "SUCCEEDED", "DELETED"]);
    }
    running.stop();
}

fn a_follower_of_an_array_hears_that_all_of_it_is_over() {
    let (world, (_folder, store)) = (World::start(&[node("n1", 4, &json!({}))]), sqlite());
    let running = Running::start(&store, &world);
    let array = json!({ "id": "sweep", "count": 2, "resources": { "gpu": 1 } });
    running.submit(&with(&array));
    let following = |path: &str| -> Value { running.get(path).expect_status(200).json() };
    std::thread::scope(|scope| {
        let array = scope.spawn(|| following("/api/tasks/sweep?waitMs=60000"));
        wait_for_figure(&running, "estimand_task_followers", 1);
        running.cancel("sweep.0");
        let log = scope.spawn(|| following("/api/tasks/sweep.1/logs?waitMs=60000"));
        wait_for_figure(&running, "estimand_task_followers", 2);
        running.cancel("sweep.1");
        assert_eq!(log.join().unwrap()["over"], json!(true));
        assert_eq!(array.join().unwrap()["states"], json!({ "CANCELLED": 2 }));
    });
    running.stop();
}
