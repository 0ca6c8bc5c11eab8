//! The client commands against a running service: what they print, how they end, and what they leave alone.
//!
//! Whole sessions are pinned as transcripts, in which times are blotted out; accept a wanted difference with
//! `cargo insta accept`, or `INSTA_UPDATE=always`.
#![allow(clippy::unwrap_used)]

mod apart;
mod binding;
mod completing;
mod configuration;
mod doctor;
mod engine;
mod first_run;
mod manual;
mod nearest;
mod processes;
mod redact;
mod session;
mod terminal;
mod token;
mod top;
mod troubles;
mod users;

use std::io::{BufRead, BufReader, Read};

use estimand_testkit::process::free_port;
use estimand_testkit::wait::{self, PATIENCE};
use serde_json::{Value, json};

use session::Session;

#[test]
fn a_session_about_registrations() {
    let mut session = Session::start();
    session.run(&["list"]);
    session.run(&["register", "cpu", "--every", "5m", "--history-max", "100", "--", "./cpu", "--percent"]);
    session.run(&["register", "cpu", "--every", "6m", "--", "./other"]);
    session.run(&["register", "cpu", "--every", "6m", "--replace", "--", "ps ax | wc -l"]);
    let more =
        ["--inputs", "cpu", "--timeout", "1m", "--nodes", "zone=a", "--replicas", "2", "--param", "a=b"];
    session.run(&[&["register", "load", "--schedule", "*/5 * * * *"], &more[..], &["--", "./load"]].concat());
    session.run(&["list"]);
    session.run(&["show", "load"]);
    session.run(&["changes", "cpu"]);
    session.run(&["unregister", "cpu", "load"]);
    session.run(&["unregister", "cpu"]);
    session.run(&["show", "cpu"]);
    session.run(&["changes", "cpu"]);
    insta::assert_snapshot!(session.transcript());
}

#[test]
fn a_session_about_changes() {
    let mut session = Session::start();
    let more = ["--history", "1h", "--env", "LANG=C", "--secret", "TOKEN=hush", "--timeout", "1m"];
    session.run(&[&["register", "cpu", "--every", "5m"], &more[..], &["--", "./cpu"]].concat());
    session.run(&["edit", "cpu", "--every", "7m"]);
    session.run(&["edit", "cpu", "--every", "7m"]);
    session.run(&["edit", "cpu", "--schedule", "@daily", "--env", "TZ=UTC", "--unset", "timeout,env.LANG"]);
    session.run(&["edit", "cpu", "--secret", "KEY=hush", "--unset", "env.TOKEN"]);
    session.run(&["edit", "cpu"]);
    session.run(&["edit", "cpu", "--unset", "histori"]);
    session.run(&["edit", "cpu", "--if-version", "1", "--timeout", "2m"]);
    session.run(&["edit", "nothing", "--every", "7m"]);
    session.run(&["pause", "cpu"]);
    session.run(&["pause", "cpu"]);
    session.run(&["list"]);
    session.run(&["show", "cpu"]);
    session.run(&["resume", "cpu", "nothing"]);
    session.run(&["register", "cpu", "--every", "5m", "--replace", "--", "./cpu"]);
    session.run(&["register", "load", "--every", "5m", "--inputs", "cpu", "--", "./load"]);
    session.run(&["bind", "stable", "cpu"]);
    session.run(&["unregister", "cpu"]);
    session.run(&["rename", "cpu", "processor"]);
    session.run(&["rename", "cpu", "processor", "--force"]);
    session.run(&["unregister", "load", "processor"]);
    session.run(&["bind", "other", "processor"]);
    session.run(&["bind", "other", "processor", "--force"]);
    insta::assert_snapshot!(session.transcript());
}

#[test]
fn a_session_about_values() {
    let mut session = Session::start();
    session.run(&["get"]);
    session.run(&["put", "cpu", "n1", "0.42", "--valid-for", "1h"]);
    session.run(&["put", "cpu", "n1", "-1.5"]);
    session.run(&["put", "cpu", "n2", "{\"a\": [1, \"ü\"]}"]);
    session.run(&["put", "cpu", "n3", "42", "--text"]);
    session.run_with_input(&["put", "cpu", "n4", "-"], "from\nstandard input\n");
    session.run(&["get", "cpu"]);
    session.run(&["get", "cpu", "--node", "n3", "--raw"]);
    session.run(&["get", "cpu", "--node", "n2", "--explain"]);
    session.run(&["get", "cpu", "nothing", "--state", "stale,failed"]);
    session.run(&["bind", "stable", "cpu"]);
    session.run(&["bindings"]);
    session.run(&["get", "stable", "--node", "n1"]);
    session.run(&["show", "stable"]);
    session.run(&["put", "stable", "n1", "1"]);
    session.run(&["unbind", "stable"]);
    session.run(&["bindings"]);
    session.run(&["history", "cpu"]);
    session.run(&["delete", "cpu", "n2"]);
    session.run(&["delete", "cpu", "--node", "n1"]);
    session.run(&["delete", "cpu"]);
    session.run(&["delete", "cpu"]);
    insta::assert_snapshot!(session.transcript());
}

#[test]
fn a_session_about_swaps() {
    let mut session = Session::start();
    session.run(&["bind", "capability", "ewma", "--field", "/value"]);
    session.run(&["bind", "capability", "ewma", "--field", "/value", "--force"]);
    for (node, value) in [("n1", 2), ("n2", 1)] {
        let object = json!({"value": value, "spread": 0.5, "samples": 12}).to_string();
        session.quietly(&["put", "ewma", node, &object]);
    }
    session.quietly(&["put", "cpu", "n1", "0.25"]);
    session.run(&["get", "capability"]);
    session.run(&["get", "ewma", "--field", "/spread", "--raw"]);
    session.run(&["get", "ewma", "--node", "n1", "--field", "/sprad"]);
    session.run(&["get", "ewma", "--field", "spread"]);
    session.run(&["bind", "capability", "cpu", "--from", "ewma"]);
    session.run(&["bind", "capability", "cpu", "--from", "ewma"]);
    session.run(&["bind", "capability", "other", "--from", "ewma"]);
    session.run(&["bindings", "capability"]);
    session.run(&["bind", "capability", "--rollback"]);
    session.run(&["show", "capability"]);
    session.run(&["unbind", "capability"]);
    session.run(&["bindings", "capability"]);
    session.run(&["bindings", "capability", "--history"]);
    session.run(&["bind", "capability", "--rollback", "--from", "cpu"]);
    session.run(&["bind", "capability", "--rollback"]);
    session.run(&["bindings", "nothing", "--history"]);
    insta::assert_snapshot!(session.transcript());
}

#[test]
fn a_session_that_plans_a_partition() {
    let mut session = Session::start();
    session.run(&["partition"]);
    session.run(&["job", "birds", "--", "/no/worker"]);
    for (node, items) in [("n1", json!(["a", "b", "c", "d", "e", "f"])), ("n2", json!({"items": ["f"]}))] {
        session.quietly(&["put", "data_distribution", node, &items.to_string()]);
    }
    session.run(&["partition"]);
    for (node, value) in [("n1", "1"), ("n2", "2")] {
        session.quietly(&["put", "fast", node, value]);
    }
    session.quietly(&["bind", "node_capability", "fast"]);
    session.run(&["partition"]);
    session.run(&["partition", "--policy", "optimal", "--lost", "sometimes"]);
    insta::assert_snapshot!(session.transcript());
    let plan: Value = serde_json::from_str(&session.quietly(&["partition", "--json"])).unwrap();
    assert_eq!(plan["moved"], 3, "{plan}");
}

#[test]
fn a_session_that_compares() {
    let mut session = Session::start();
    session.run(&["compare", "capability", "cpu", "ewma"]);
    session.quietly(&["register", "ewma", "--every", "5m", "--history", "1h", "--", "./ewma"]);
    for (node, value) in [("n1", 1), ("n1", 2), ("n2", 1), ("n3", 1)] {
        let object = json!({"value": value, "spread": 0.5, "samples": 12}).to_string();
        session.quietly(&["put", "ewma", node, &object]);
    }
    for (node, value) in [("n1", "0.25"), ("n2", "0.75"), ("n3", "idle")] {
        session.quietly(&["put", "cpu", node, value]);
    }
    session.quietly(&["bind", "capability", "cpu"]);
    session.run(&["compare", "capability", "cpu", "ewma", "nothing"]);
    session.run(&["compare", "anything", "ewma", "cpu", "--field", "/spread", "--since", "2h"]);
    session.run(&["compare", "capability", "cpu", "cpu"]);
    session.run(&["compare", "capability", "cpu"]);
    insta::assert_snapshot!(session.transcript());
    let json = session.quietly(&["compare", "capability", "cpu", "ewma", "--json"]);
    let compared: Value = serde_json::from_str(&json).unwrap();
    let revision =
        session.http().get("/api/data?dataName=cpu").header("estimand-revision").unwrap().to_owned();
    assert_eq!((compared["revision"].to_string(), &compared["boundTo"]), (revision, &json!("cpu")));
    assert_eq!(compared["columns"][1]["nodes"][0]["share"], 0.5);
    assert_eq!(compared["columns"][1]["nodes"][0]["past"]["mean"], 1.5);
    assert_eq!(compared["pairs"][0]["totalVariation"], 0.5);
    assert_eq!(compared["pairs"][0]["nodes"][1], json!({"nodeName": "n2", "difference": -0.5}));
}

#[test]
fn a_history_is_shown() {
    let mut session = Session::start();
    session.quietly(&["register", "cpu", "--every", "5m", "--history", "1h", "--", "./cpu"]);
    for value in ["1", "2", "3"] {
        session.quietly(&["put", "cpu", "n1", value]);
    }
    session.run(&["history", "cpu", "--limit", "2"]);
    session.run(&["history", "cpu", "--node", "n2"]);
    session.run(&["history", "cpu", "--until", "30m"]);
    session.quietly(&["put", "cpu", "n1", "{\"value\": 0.50}"]);
    session.run(&["history", "cpu", "--field", "/value"]);
    session.run(&["history", "cpu", "--field", "/nothing"]);
    insta::assert_snapshot!(session.transcript());
    let all: Vec<Value> = serde_json::from_str(&session.quietly(&["history", "cpu", "--json"])).unwrap();
    assert_eq!(all.iter().map(|one| &one["dataValue"]).take(3).collect::<Vec<_>>(), [1, 2, 3]);
}

/// The codes are documented in `--help`; scripts depend on them.
#[test]
fn exit_codes_tell_scripts_what_happened() {
    let mut session = Session::start();
    session.run(&["put", "cpu", "n1", "1"]);
    session.run(&["frobnicate"]);
    session.run(&["put", "no name", "n1", "1"]);
    session.run(&["register", "x", "--", "./x"]);
    session.run(&["--server", "nonsense", "list"]);
    session.run(&["up", "--json"]);
    session.run(&["show", "nothing"]);
    session.run(&["unbind", "nothing"]);
    session.run(&["bind", "cpu", "other", "--force"]);
    session.run(&["register", "x", "--every", "0s", "--timeout", "0s", "--", "./x"]);
    session.run(&["put", "cpu", "n1", &"x".repeat(70_000)]);
    let nobody = format!("http://127.0.0.1:{}", free_port());
    session.run(&["list", "--server", &nobody]);
    let transcript = session.transcript().replace(&nobody, "http://127.0.0.1:[port]");
    insta::assert_snapshot!(transcript.replace(&"x".repeat(70_000), "[70,000 x]"));
    assert_eq!(session.codes(), [0, 2, 2, 2, 2, 2, 3, 3, 4, 5, 5, 6]);
}

#[test]
fn json_is_what_the_service_answered() {
    let session = Session::start();
    let json = |args: &[&str]| -> Value {
        let out = session.quietly(&[&["--json"], args].concat());
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("{args:?} printed {out}: {error}"))
    };
    assert_eq!(json(&["register", "cpu", "--every", "5s", "--", "./cpu"])["version"], 1);
    assert_eq!(json(&["list"])[0]["dataName"], "cpu");
    assert_eq!(json(&["put", "cpu", "n1", "1"])["outcome"], "created");
    assert_eq!(json(&["get", "cpu"])[0]["dataValue"], 1);
    assert_eq!(json(&["get", "cpu", "--explain"])[0]["provenance"], Value::Null);
    assert!(json(&["show", "cpu"]).is_object());
    assert_eq!(json(&["changes", "cpu"])[0]["action"], "created");
    assert_eq!(json(&["history", "cpu"]), json!([]));
    assert_eq!(json(&["bind", "stable", "cpu"])["to"], "cpu");
    assert_eq!(json(&["bindings"])[0]["dataName"], "stable");
    assert_eq!(json(&["bindings", "stable", "--history"])[0]["action"], "bound");
    assert_eq!(json(&["delete", "cpu"])["deleted"], 1);
    let served: Value = session.http().get("/api/registry").json();
    assert_eq!(json(&["list"]), served);
}

#[test]
fn the_service_is_named_by_option_or_environment() {
    let session = Session::start();
    session.quietly(&["put", "cpu", "n1", "7"]);
    let raw = ["get", "cpu", "--raw"];
    let by_environment = session.command(&raw).env("ESTIMAND_SERVER", session.base_url()).output().unwrap();
    assert_eq!(String::from_utf8(by_environment.stdout).unwrap(), "7\n");
    let mut before = session.command(&["--server", session.base_url(), "get", "cpu", "--raw"]);
    // The option goes before the environment.
    let before = before.env("ESTIMAND_SERVER", "http://127.0.0.1:1").output().unwrap();
    assert_eq!(String::from_utf8(before.stdout).unwrap(), "7\n");
}

#[test]
fn registrations_are_read_from_a_file() {
    let mut session = Session::start();
    let file = session.folder().join("registrations.json");
    let many = json!([
        {"dataName": "a", "cmd": "./a", "max-Time": 300},
        {"dataName": "b", "cmd": ["./b", "x y"], "schedule": "0 * * * *"},
    ]);
    std::fs::write(&file, many.to_string()).unwrap();
    session.quietly(&["register", "--file", file.to_str().unwrap()]);
    session.quietly(&["register", "--file", file.to_str().unwrap(), "--replace"]);
    session.run_with_input(&["register", "--file", "-"], r#"{"dataName":"c","cmd":"./c","max-Time":0}"#);
    session.run(&["list"]);
    insta::assert_snapshot!(session.transcript());
}

#[test]
fn a_watch_follows_until_it_is_ended() {
    let session = Session::start();
    session.quietly(&["put", "cpu", "n1", "1"]);
    let mut watch = session.spawn(&["watch", "cpu", "--json"]);
    let mut lines = BufReader::new(watch.stdout()).lines();
    let mut next = || -> Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
    let first = next();
    assert_eq!((&first["event"], &first["values"][0]["dataValue"]), (&json!("snapshot"), &json!(1)));
    session.quietly(&["put", "cpu", "n1", "2"]);
    let second = next();
    assert_eq!((&second["event"], &second["value"]["dataValue"]), (&json!("change"), &json!(2)));
    session.quietly(&["delete", "cpu"]);
    assert_eq!(next()["event"], "delete");
    // Ctrl-C is an orderly end.
    watch.interrupt();
    assert_eq!(watch.wait(PATIENCE).code(), Some(0));
}

#[test]
fn a_part_of_the_values_of_one_node_is_watched() {
    let session = Session::start();
    for node in ["n1", "n2"] {
        session.quietly(&["put", "cpu", node, "{\"value\": 1}"]);
    }
    let mut watch = session.spawn(&["watch", "cpu", "--node", "n2", "--field", "/value", "--json"]);
    let mut lines = BufReader::new(watch.stdout()).lines();
    let mut next = || -> Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
    let first = next();
    assert_eq!(
        (&first["values"][0]["nodeName"], &first["values"][0]["dataValue"]),
        (&json!("n2"), &json!(1))
    );
    assert_eq!(first["values"].as_array().unwrap().len(), 1);
    session.quietly(&["put", "cpu", "n1", "{\"value\": 2}"]);
    session.quietly(&["put", "cpu", "n2", "{\"value\": 3}"]);
    assert_eq!(next()["value"]["dataValue"], 3);
    session.quietly(&["put", "cpu", "n2", "4"]);
    assert_eq!(next()["event"], "delete");
    watch.interrupt();
    assert_eq!(watch.wait(PATIENCE).code(), Some(0));
}

#[test]
fn a_reader_that_has_gone_ends_a_command_quietly() {
    let session = Session::start();
    let item = |place: usize| json!({"dataName": "cpu", "nodeName": format!("n{place}"), "dataValue": "x".repeat(50)});
    let batch: Vec<Value> = (0..5_000).map(item).collect();
    session.http().send_json("POST", "/api/data/batch", &json!(batch)).expect_status(200);
    for args in [&["get", "cpu"][..], &["get", "cpu", "--json"], &["get", "--raw"], &["completions", "bash"]]
    {
        let mut command = session.spawn(args);
        drop(command.stdout());
        assert_eq!(command.wait(PATIENCE).code(), Some(0), "{args:?}");
        assert_eq!(command.stderr(), "", "{args:?}");
    }
    // A watch notices it at the next event.
    let mut watch = session.spawn(&["watch", "cpu"]);
    let mut stdout = BufReader::new(watch.stdout());
    stdout.read_exact(&mut [0; 100]).unwrap();
    drop(stdout);
    let mut value = 0;
    let ended = wait::until(PATIENCE, "the watch to end", || {
        value += 1;
        session.quietly(&["put", "cpu", "n1", &value.to_string()]);
        watch.ended()
    });
    assert_eq!((ended.code(), watch.stderr()), (Some(0), String::new()));
}

#[test]
fn completions_are_there_for_each_shell() {
    let session = Session::start();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = session.quietly(&["completions", shell]);
        assert!(script.contains("ESTIMAND_COMPLETE"), "{shell} does not ask: {script}");
    }
}

#[test]
fn help_is_there_for_every_command() {
    let session = Session::start();
    let help = session.quietly(&["--help"]);
    // A line of the first screen begins with one command or a few.
    let lines = help.lines().filter_map(|line| line.strip_prefix("  ").filter(|line| !line.starts_with(' ')));
    let commands = |line: &'_ str| line.split("  ").next().unwrap_or_default().to_owned();
    let names: Vec<String> = lines
        .map(commands)
        .flat_map(|names| {
            names
                .split(", ")
                .map(|name| name.split([' ', ',']).next().unwrap_or_default().to_owned())
                .collect::<Vec<_>>()
        })
        .collect();
    for name in ["up", "registry", "data", "register", "watch", "completions", "unregister"] {
        assert!(names.iter().any(|known| known == name), "{name} is not in {names:?}");
    }
    for name in &names {
        assert!(session.quietly(&["help", name]).contains("Usage: estimand"), "{name}");
    }
}
