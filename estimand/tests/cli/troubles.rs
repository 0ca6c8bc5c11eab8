//! Troubles are told at once and everywhere: failures from the first run on, programs that print nothing, streams
//! that have not answered, programs that lack a capability.

use std::process::Output;

use serde_json::Value;

use crate::session::{NODE, Session};

/// Runs a command, however it ends.
fn output(session: &Session, args: &[&str]) -> Output {
    session.command(args).env("ESTIMAND_SERVER", session.base_url()).output().unwrap()
}

/// Both outputs of a command, and its exit code.
fn said(session: &Session, args: &[&str]) -> (String, String, i32) {
    let output = output(session, args);
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (text(output.stdout), text(output.stderr), output.status.code().unwrap())
}

#[track_caller]
fn has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
}

#[test]
fn a_registration_without_a_good_run_is_told_at_its_first_failure() {
    let session = Session::with_node();
    session.program("hourly", "echo 'no such sensor' >&2; exit 3");
    session.quietly(&["register", "hourly", "--every", "1h", "--", "hourly"]);
    session.until_ran("hourly", NODE, 1);
    let told = "failed in its first run: it ended with exit 3: no such sensor";
    let (list, _, _) = said(&session, &["list"]);
    has(&list, &["0/1", &format!("{NODE}: {told}")]);
    has(&said(&session, &["show", "hourly"]).0, &[told]);
    let (failing, _, code) = said(&session, &["instances", "--failing"]);
    has(&failing, &[told]);
    assert_eq!(code, 1);
    let (nothing, reason, code) = said(&session, &["get", "hourly"]);
    has(&reason, &["`hourly` has no value", NODE, told]);
    assert_eq!((nothing.as_str(), code), ("", 3));
    let (nothing, reason, code) = said(&session, &["get", "hourly", "--json"]);
    has(&reason, &[told]);
    assert_eq!((nothing.as_str(), code), ("[]\n", 3));
    let (_, reason, code) = said(&session, &["get", "horly"]);
    has(&reason, &["`horly` is unknown: no registration produces it and it has no values"]);
    assert_eq!(code, 3);
}

/// Works once, fails once, and then does not end.
const FAILS_LATER: &str = r#"echo >> "$0.runs"
case "$(wc -l < "$0.runs")" in
1) echo 1 ;;
2) echo gone >&2; exit 3 ;;
*) exec sleep 1000 ;;
esac"#;

#[test]
fn a_failure_after_good_runs_is_told_and_calls_for_attention_when_it_lasts() {
    let session = Session::with_node();
    session.program("later", FAILS_LATER);
    session.quietly(&["register", "later", "--gap", "50ms", "--timeout", "1h", "--", "later"]);
    session.plane().until_instance("later", NODE, "to have failed", |one| one["failing"] == 1);
    let told = "failed 1 time in a row: it ended with exit 3: gone";
    has(&said(&session, &["instances"]).0, &[told]);
    has(&said(&session, &["show", "later"]).0, &[told]);
    let (nothing, remark, code) = said(&session, &["instances", "later", "--failing"]);
    assert_eq!((nothing.as_str(), code), ("", 0), "{remark}");
}

#[test]
fn a_program_that_prints_nothing_is_told_with_the_reason_that_it_gives() {
    let session = Session::with_node();
    session.program("mute", "echo 'Cannot open /dev/sensor0' >&2; echo 'Try --help for more.' >&2");
    session.quietly(&["register", "mute", "--every", "1h", "--", "mute"]);
    session.until_ran("mute", NODE, 1);
    let told = "gave no value in its first run: it ended with exit 0 and printed nothing";
    has(&said(&session, &["list"]).0, &["0/1", told]);
    has(&said(&session, &["show", "mute"]).0, &[told]);
    let (failing, _, code) = said(&session, &["instances", "--failing"]);
    has(&failing, &[told]);
    assert_eq!(code, 1);
    let (_, reason, code) = said(&session, &["get", "mute"]);
    has(&reason, &["`mute` has no value", told]);
    assert_eq!(code, 3);
}

#[test]
fn a_stream_tells_what_it_writes_to_standard_error_while_it_lives() {
    let session = Session::with_node();
    session.program("events", "echo 'waiting for the device' >&2; exec sleep 1000");
    session.quietly(&[
        "register",
        "events",
        "--every",
        "1h",
        "--mode",
        "stream",
        "--no-wait",
        "--",
        "events",
    ]);
    let is_told = |one: &Value| one["stderrTail"] == "waiting for the device\n" && one["doing"] == "running";
    session.plane().until_instance("events", NODE, "to tell what its stream writes", is_told);
    let (log, _, _) = said(&session, &["logs", "events"]);
    has(&log, &["waiting for the device\n", "and has not answered yet"]);
    assert!(!log.contains("it has not run yet"), "{log}");
    has(&said(&session, &["instances", "events"]).0, &["has not answered yet"]);
    let (_, reason, code) = said(&session, &["get", "events"]);
    has(&reason, &["`events` has no value", "has not answered yet"]);
    assert_eq!(code, 3);
}

#[test]
fn the_memory_of_a_run_is_that_of_its_program() {
    let session = Session::with_node();
    session.program("small", "sleep 0.3; echo 1");
    session.program("large", "head -c 67108864 /dev/zero | tail -n 1 | wc -c");
    for name in ["small", "large"] {
        session.quietly(&["register", name, "--every", "1h", "--", name]);
        session.until_ran(name, NODE, 1);
    }
    let memory = |name: &str| {
        let instance = session.plane().until_instance(name, NODE, "to have run", |one| one["runs"] == 1);
        instance["lastMemory"].as_u64().unwrap_or_else(|| panic!("{instance}"))
    };
    // A shell that waits; the launcher that it comes from is larger.
    assert!((100_000..3 << 20).contains(&memory("small")), "{} bytes", memory("small"));
    // `tail` keeps its one line of 64 MiB.
    assert!((64 << 20..200 << 20).contains(&memory("large")), "{} bytes", memory("large"));
}
