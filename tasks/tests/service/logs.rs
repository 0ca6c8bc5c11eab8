//! Logs: read on, followed, and in parts.

use std::time::{Duration, Instant};

use serde_json::json;

use estimand_testkit::wait;

use crate::support::{PATIENCE, Running, World, node, refused, simple, sqlite, texts, with};

on_each_engine!(
    a_log_is_read_on_from_where_a_reader_stopped,
    a_log_is_read_by_time_text_attempt_and_from_its_end,
    raw_is_byte_for_byte_what_was_written,
    unfinished_lines_are_shown_until_they_end,
    a_log_of_many_lines_is_removed_beside_other_writes,
);

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
    refused(running.get(&format!("/api/tasks/{id}/logs?stream=other")), 400);

    // A line that comes later is waited for.
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| (running.log(&id, "from=4&waitMs=30000"), Instant::now()));
        running.writes(&id, 1, 4, &[("STDOUT", "five")]);
        let written = Instant::now();
        let (page, at) = waiting.join().unwrap();
        assert_eq!(texts(&page), ["five"]);
        assert!(at.saturating_duration_since(written) < Duration::from_secs(25));
    });
    // The end of the task ends the wait of a reader.
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| running.log(&id, "from=5&waitMs=60000"));
        running.ends(&id, 1, &json!({ "exit": 0 }));
        let end = json!({ "lines": [], "next": 5, "over": true, "openRevision": 0 });
        assert_eq!(waiting.join().unwrap(), end);
    });
    // A line after the end is late, and changes nothing.
    running.writes(&id, 1, 5, &[("STDOUT", "six")]);
    assert_eq!(running.task(&id)["lines"], 5);
    running.stop();
}

fn a_log_is_read_by_time_text_attempt_and_from_its_end() {
    let (world, (_folder, store)) = (World::start(&[node("n1", 1, &json!({}))]), sqlite());
    let running = Running::start(&store, &world);
    let id = running.submit(&with(&json!({ "retries": { "count": 1, "backOff": "10ms" } })));
    running.wait_for(&id, "PLACED");
    // A line a second from 1970 on.
    let line = |at: u64, text: String| json!({ "at": at * 1_000_000, "stream": if at.is_multiple_of(2) { "STDOUT" } else { "STDERR" }, "text": text });
    let write = |attempt: u32, first: u64, lines: Vec<serde_json::Value>| {
        let log = json!({ "id": id, "attempt": attempt, "first": first, "lines": lines });
        running.news(json!({ "logs": [log] }));
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
    let raw = |query: &str| running.get(&format!("/api/tasks/{id}/logs?{query}")).expect_status(200);
    assert_eq!(raw("stream=RAW&tail=2").text(), "partly, \n<7> again\n");
    assert_eq!(raw("format=raw&tail=2&attempt=1&stream=stdout").text(), "<1196>\n<1198>\n");
    assert_eq!(raw("format=raw&limit=2&from=7").text(), "<7>\n<8>\n");
    assert_eq!(raw("stream=raw&limit=700").text().lines().count(), 700, "more than a page has");
    assert_eq!(texts(&running.log(&id, "stream=raw&format=json&limit=2")), ["<0>", "<1>"]);
    for wrong in ["since=soon", "tail=501", "tail=1&limit=2", "format=xml", "attempt=x", "open=x"] {
        refused(running.get(&format!("/api/tasks/{id}/logs?{wrong}")), 400);
    }
    running.stop();
}

/// Lines with the fields that agents give them.
fn tell_lines(running: &Running, id: &str, first: u64, lines: &serde_json::Value) {
    let log = json!({ "id": id, "attempt": 1, "first": first, "lines": lines });
    running.news(json!({ "logs": [log] }));
}

fn raw_is_byte_for_byte_what_was_written() {
    let (world, (_folder, store)) = (World::start(&[node("n1", 1, &json!({}))]), sqlite());
    let running = Running::start(&store, &world);
    let id = running.submit(&simple());
    running.wait_for(&id, "PLACED");
    let line = |text: &str| json!({ "at": 1, "stream": "STDOUT", "text": text });
    let with = |text: &str, more: serde_json::Value| {
        let mut line = line(text);
        line.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        line
    };
    let lines = json!([
        line("text"),
        with("caf\u{fffd}", json!({ "bytes": "Y2Fm6Qo=" })),
        with("in pieces, ", json!({ "partial": true })),
        line("and \0"),
        with("no end", json!({ "bytes": "bm8gZW5k" })),
    ]);
    tell_lines(&running, &id, 0, &lines);
    // An agent that had no room, and an empty line behind the gap.
    tell_lines(&running, &id, 9, &json!([with("", json!({ "dropped": 4 })), line("last")]));
    running.ends(&id, 1, &json!({ "exit": 0 }));
    let raw = running.get(&format!("/api/tasks/{id}/logs?format=raw")).expect_status(200);
    let expected = [
        &b"text\ncaf\xe9\nin pieces, and \0\nno end"[..],
        b"\n(estimand: 4 lines were dropped here)\n\nlast\n",
    ];
    assert_eq!(raw.body, expected.concat(), "{raw}");
    let page = running.log(&id, "from=1&limit=1");
    assert_eq!(
        (&page["lines"][0]["text"], &page["lines"][0]["bytes"]),
        (&json!("caf\u{fffd}"), &json!("Y2Fm6Qo="))
    );
    running.stop();
}

fn unfinished_lines_are_shown_until_they_end() {
    let (world, (_folder, store)) = (World::start(&[node("n1", 1, &json!({}))]), sqlite());
    let running = Running::start(&store, &world);
    let id = running.submit(&simple());
    running.wait_for(&id, "PLACED");
    let show = |attempt: u64, at: u64, text: &str| {
        let lines = json!([{ "at": at, "stream": "STDERR", "text": text }]);
        let open = json!([{ "id": id, "attempt": attempt, "lines": lines }]);
        running.news(json!({ "open": open }));
    };
    let open = |page: &serde_json::Value| match page["open"].as_array() {
        Some(lines) => lines.iter().map(|line| line["text"].as_str().unwrap().to_owned()).collect(),
        None => vec![],
    };
    show(2, 5, "of another attempt");
    let page = running.log(&id, "");
    assert_eq!((open(&page), &page["openRevision"]), (vec![], &json!(0)));
    // A follower that says what it has seen hears of it,
    let mut known = json!(0);
    for state in ["10%", "20%"] {
        let query = format!("open={known}&waitMs=60000");
        known = std::thread::scope(|scope| {
            let waiting = scope.spawn(|| running.log(&id, &query));
            show(1, 5, state);
            let page = waiting.join().unwrap();
            let shown = (open(&page), texts(&page).len(), &page["next"]);
            assert_eq!(shown, (vec![state.to_owned()], 0, &json!(0)));
            page["openRevision"].clone()
        });
    }
    // and another one waits for lines.
    assert_eq!(open(&running.log(&id, "waitMs=1")), ["20%"]);
    assert_eq!(open(&running.log(&id, "stream=stdout")), [""; 0]);
    let raw = running.get(&format!("/api/tasks/{id}/logs?format=raw")).expect_status(200);
    assert_eq!(raw.text(), "", "it has no place in the log yet");
    // It ends, and is there once. Nobody has to say that it is open no longer.
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| running.log(&id, &format!("open={known}&waitMs=60000")));
        tell_lines(&running, &id, 0, &json!([{ "at": 6, "stream": "STDERR", "text": "10%\r20%" }]));
        let page = waiting.join().unwrap();
        assert_eq!((texts(&page), open(&page)), (vec!["10%\r20%".to_owned()], vec![]));
    });
    show(1, 7, "Really? ");
    assert_eq!(open(&running.log(&id, "from=1")), ["Really? "]);
    running.ends(&id, 1, &json!({ "exit": 0 }));
    assert_eq!(open(&running.log(&id, "from=1")), [""; 0], "nothing of it is open when it is over");
    show(1, 8, "late");
    assert_eq!(open(&running.log(&id, "from=1")), [""; 0]);
    running.stop();
}

/// A flood of empty lines is bounded as one of long ones is, and its removal is one piece beside another.
fn a_log_of_many_lines_is_removed_beside_other_writes() {
    let (world, (_folder, store)) = (World::start(&[node("n1", 1, &json!({}))]), sqlite());
    let running = Running::start(&store, &world);
    let id = running.submit(&simple());
    running.wait_for(&id, "PLACED");
    let empty = json!({ "at": 1, "stream": "STDOUT", "text": "" });
    for piece in 0..5_u64 {
        tell_lines(&running, &id, piece * 2_000, &json!(vec![&empty; 2_000]));
    }
    running.ends(&id, 1, &json!({ "exit": 0 }));
    let left = || {
        let mut connection = estimand_store::Connection::open(&store.parse().unwrap()).unwrap();
        let all = estimand_store::TaskLogRange { task: 1, before: i64::MAX, ..Default::default() };
        (connection.task_log(&all, 10_000, false).unwrap().len(), connection.task_log_to_remove().unwrap())
    };
    assert_eq!(left(), (10_000, None));
    running.serving.http.request("DELETE", &format!("/api/tasks/{id}"), &[], b"").expect_status(204);
    refused(running.get(&format!("/api/tasks/{id}")), 404);
    running.crash();
    // Also by a service that is started anew meanwhile.
    let running = Running::start(&store, &world);
    wait::until_ok(PATIENCE, "its lines to go", || match left() {
        (0, None) => Ok(()),
        (lines, _) => Err(lines),
    });
    running.stop();
}
