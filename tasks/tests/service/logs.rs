//! Logs: read on, followed, and in parts.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::{Running, World, node, refused, simple, sqlite, texts, with};

#[test]
fn a_log_is_read_on_from_where_a_reader_stopped() {
    let (world, (_folder, store)) = (World::start(&[node("n1", 1, &json!({}))]), sqlite());
    let running = Running::start(&store, &world);
    let id = running.submit(&simple());
    running.wait_for(&id, "PLACED");
    running.writes(&id, 1, 0, &[("STDOUT", "one"), ("STDERR", "two\u{0}"), ("STDOUT", "three")]);
    // Delivered again, with one more.
    running.writes(&id, 1, 1, &[("STDERR", "two\u{0}"), ("STDOUT", "three"), ("STDOUT", "four")]);
    let page = running.log(&id, "limit=2");
    assert_eq!((texts(&page), &page["next"]), (vec!["one".to_owned(), "two\u{fffd}".to_owned()], &json!(2)));
    let page = running.log(&id, "from=2");
    assert_eq!(
        (texts(&page), &page["next"], &page["over"]),
        (vec!["three".into(), "four".into()], &json!(4), &json!(false))
    );
    assert_eq!(texts(&running.log(&id, "stream=stderr")), ["two\u{fffd}"]);
    refused(running.get(&format!("/api/tasks/{id}/logs?stream=raw")), 400);

    // A line that comes later is waited for.
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| (running.log(&id, "from=4&waitMs=30000"), Instant::now()));
        running.writes(&id, 1, 4, &[("STDOUT", "five")]);
        let written = Instant::now();
        let (page, at) = waiting.join().unwrap();
        assert_eq!(texts(&page), ["five"]);
        assert!(at.saturating_duration_since(written) < Duration::from_secs(5));
    });
    // The end of the task ends the wait of a reader.
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| running.log(&id, "from=5&waitMs=60000"));
        running.ends(&id, 1, &json!({ "exit": 0 }));
        assert_eq!(waiting.join().unwrap(), json!({ "lines": [], "next": 5, "over": true }));
    });
    // A line after the end is late, and changes nothing.
    running.writes(&id, 1, 5, &[("STDOUT", "six")]);
    assert_eq!(running.task(&id)["lines"], 5);
    running.stop();
}

#[test]
fn a_log_is_read_by_time_text_attempt_and_from_its_end() {
    let (world, (_folder, store)) = (World::start(&[node("n1", 1, &json!({}))]), sqlite());
    let running = Running::start(&store, &world);
    let id = running.submit(&with(&json!({ "retries": { "count": 1, "backOff": "10ms" } })));
    running.wait_for(&id, "PLACED");
    // A line a second from 1970 on.
    let line = |at: u64, text: String| json!({ "at": at * 1_000_000, "stream": if at.is_multiple_of(2) { "STDOUT" } else { "STDERR" }, "text": text });
    let write = |attempt: u32, first: u64, lines: Vec<serde_json::Value>| {
        let log = json!({ "id": id, "attempt": attempt, "first": first, "lines": lines });
        running.post("/api/tasks/news", &json!({ "logs": [log] })).expect_status(200);
    };
    for piece in 0..3 {
        write(
            1,
            piece * 400,
            (piece * 400..(piece + 1) * 400).map(|at| line(at, format!("<{at}>"))).collect(),
        );
    }
    running.ends(&id, 1, &json!({ "exit": 1 }));
    running.wait_for(&id, "PLACED");
    write(2, 0, vec![line(9_000, "partly, ".to_owned()), line(9_001, "<7> again".to_owned())]);

    let read = |query: &str| texts(&running.log(&id, query));
    assert_eq!(read("since=1970-01-01T00:00:05Z&until=1970-01-01T00:00:08Z"), ["<5>", "<6>", "<7>"]);
    assert_eq!(read("since=1970-01-01T00:00:05Z&until=1970-01-01T00:00:08Z&stream=stdout"), ["<6>"]);
    assert_eq!(read("since=10m"), [""; 0], "all of it is older");
    assert_eq!(read("contains=%3C7%3E"), ["<7>", "<7> again"]);
    assert_eq!(read("contains=%3C7%3E&attempt=1"), ["<7>"]);
    assert_eq!(read("tail=3"), ["<1199>", "partly, ", "<7> again"]);
    assert_eq!(read("tail=2&contains=%3C7"), ["<799>", "<7> again"]);
    let page = running.log(&id, "tail=1");
    assert_eq!(page["next"], 1202, "from where to follow it");
    let page = running.log(&id, "contains=99%3E&limit=2");
    assert_eq!((texts(&page), &page["next"]), (vec!["<99>".to_owned(), "<199>".to_owned()], &json!(200)));

    let raw = running.get(&format!("/api/tasks/{id}/logs?format=raw")).expect_status(200);
    assert_eq!(raw.header("content-type"), Some("text/plain; charset=utf-8"));
    assert_eq!(raw.text().lines().count(), 1202);
    assert!(raw.text().starts_with("<0>\n<1>\n") && raw.text().ends_with("partly, \n<7> again\n"), "{raw}");
    let headers = [("Accept", "text/plain")];
    let path = format!("/api/tasks/{id}/logs?attempt=2");
    let plain = running.serving.http.request("GET", &path, &headers, b"").expect_status(200);
    assert_eq!(plain.text(), "partly, \n<7> again\n");
    for wrong in ["since=soon", "tail=501", "tail=1&limit=2", "format=xml", "attempt=x"] {
        refused(running.get(&format!("/api/tasks/{id}/logs?{wrong}")), 400);
    }
    running.stop();
}
