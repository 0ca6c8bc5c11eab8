//! Configuration as files: exported, applied, pruned; and the settings of a service.

use std::fs;

use estimand_testkit::process::{self, Estimand};
use estimand_testkit::wait::{self, PATIENCE};
use serde_json::{Value, json};

use crate::session::Session;

const SITE: &str = "\
# Bindings and readers may stand before what they need.
dataName: capability
to: cap
field: /value
---
- dataName: cap
  mode: expr
  cmd: cpu.freeFraction * params.factor
  max-Time: 300
  inputs: [cpu]
  params: {factor: 2.5}
- dataName: cpu
  cmd: [./cpu, --percent]
  max-Time: 300
  env: {LANG: C}
  history: 1h
";

fn apply<'a>(file: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["apply", "-f", file], more].concat()
}

/// The text that was typed has the folder's name in it, too.
fn transcript(session: &Session) -> String {
    session.transcript().replace(&session.folder().display().to_string(), "[data]")
}

#[test]
fn a_session_about_configuration() {
    let mut session = Session::start();
    let folder = session.folder().join("conf.d");
    fs::create_dir(&folder).unwrap();
    let site = folder.join("site.yaml");
    let path = folder.to_str().unwrap().to_owned();
    fs::write(&site, SITE).unwrap();
    session.run(&apply(&path, &["--dry-run"]));
    session.run(&["list"]);
    session.run(&apply(&path, &[]));
    session.run(&apply(&path, &[]));
    session.run(&["export"]);
    let changed = SITE
        .replace("factor: 2.5", "factor: 3")
        .replace("  history: 1h\n", "")
        .replace("field: /value\n", "");
    fs::write(&site, &changed).unwrap();
    session.run(&apply(&path, &[]));
    // Registrations that a set has made are pruned, those of others are not.
    session.quietly(&["register", "mine", "--every", "5m", "--", "./mine"]);
    fs::write(&site, "dataName: cpu\ncmd: [./cpu, --percent]\nmax-Time: 300\nenv: {LANG: C}\n").unwrap();
    session.run(&apply(&path, &["--prune"]));
    session.quietly(&["unbind", "capability"]);
    session.run(&apply(&path, &["--prune", "--set", "another"]));
    session.run(&apply(&path, &["--prune"]));
    session.run(&["list"]);
    insta::assert_snapshot!(transcript(&session));
}

#[test]
fn a_wrong_configuration_changes_nothing() {
    let mut session = Session::start();
    let file = session.folder().join("wrong.yaml");
    let path = file.to_str().unwrap().to_owned();
    let good = "dataName: good\ncmd: ./good\nmax-Time: 5\n";
    for wrong in [
        "dataName: bad\ncmd: ./bad\nevery: 5s\n---\ndataName: bad\ncmd: ./bad\nmax-Time: 5\nmax-Time: 6\n",
        "dataName: bad\ncmd: ./bad\nevery: 5s\n---\ndataName: good\ncmd: ./x\nmax-Time: 5\n",
        "dataName: stable\nto: nothing\n",
        "dataName: a\nmode: expr\ncmd: b +\nmax-Time: 5\ninputs: [b]\n---\ndataName: b\ncmd: x\nmax-Time: 5\n",
        "dataName: a\ncmd: x\nmax-Time: 5\nkind: processor\ninputs: [b]\n---\ndataName: b\ncmd: x\nmax-Time: 5\nkind: processor\ninputs: [a]\n",
        "dataName: a\ncmd: x\nmax-Time: 5\nenv: {T: null}\nsecrets: [T]\n",
    ] {
        fs::write(&file, format!("{good}---\n{wrong}")).unwrap();
        session.run(&apply(&path, &[]));
    }
    session.run(&["list"]);
    session.run(&["bindings"]);
    insta::assert_snapshot!(transcript(&session));
}

#[test]
fn what_is_exported_changes_nothing_and_makes_another_cluster_the_same() {
    let first = Session::start();
    let key = first.folder().join("key");
    fs::write(&key, "hush\n").unwrap();
    let secret = format!("TOKEN={}", key.display());
    let line = "printf '%s' \"$TOKEN\" | tr a-z A-Z # not shown";
    first.quietly(&["register", "cpu", "--every", "5m", "--secret-file", &secret, "--", "sh", "-c", line]);
    first.quietly(&["register", "load", "--schedule", "*/5 * * * *", "--inputs", "cpu", "--", "./load"]);
    first.quietly(&["pause", "load"]);
    first.quietly(&["bind", "stable", "cpu", "--field", "/a b"]);
    let exported = first.quietly(&["export"]);
    assert!(!exported.contains("hush"), "{exported}");
    let mut again = Session::start();
    for (text, name) in [(&exported, "all.yaml"), (&first.quietly(&["export", "--json"]), "all.json")] {
        let file = first.folder().join(name);
        fs::write(&file, text).unwrap();
        let out = first.quietly(&apply(file.to_str().unwrap(), &["--prune"]));
        assert_eq!(out, "nothing to change; 3 things are so already\n");
    }
    // The value of the secret has to come from somewhere.
    again.run_with_input(&["apply", "-f", "-"], &exported);
    assert_eq!(again.codes(), [5]);
    let with_key = exported.replace("TOKEN: null", &format!("TOKEN: {{fromFile: {}}}", key.display()));
    assert_ne!(with_key, exported, "{exported}");
    again.run_with_input(&["apply", "-f", "-"], &with_key);
    again.run_with_input(&["apply", "-f", "-"], &with_key);
    assert_eq!(again.codes(), [5, 0, 0]);
    assert_eq!(again.quietly(&["export"]), exported);
    let complete = again.http().get("/api/secrets").expect_status(200).json();
    assert_eq!(complete[0]["env"]["TOKEN"], "hush");
    let json: Value = serde_json::from_str(&again.quietly(&["export", "stable", "--json"])).unwrap();
    assert_eq!(json, json!([{"dataName": "stable", "to": "cpu", "field": "/a b"}]));
}

#[test]
fn a_service_takes_its_settings_from_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("settings.yaml");
    let write = |more: &str| {
        let data = folder.path().join("data");
        fs::write(&file, format!("data-dir: {}\ndefaults: none\nlog: warn\n{more}", data.display())).unwrap();
    };
    write("insecure: false\n");
    let up = start(&file);
    up.http().get("/readyz").expect_status(200);
    write("insecure: false\nworkers: 2\n");
    hang_up(&up);
    wait::until(PATIENCE, "the change that waits to be named", || {
        up.stderr_tail().contains("workers").then_some(())
    });
    write("nonsense: 2\n");
    hang_up(&up);
    wait::until(PATIENCE, "the error to be named", || {
        up.stderr_tail().contains("`nonsense` is not a setting").then_some(())
    });
    up.http().get("/readyz").expect_status(200);
    drop(up);
    let refused = process::command(process::binary()).args(["up", "--config"]).arg(&file).output().unwrap();
    let said = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(said.contains("settings.yaml:4: `nonsense` is not a setting of `estimand up`"), "{said}");
}

fn start(file: &std::path::Path) -> Estimand {
    process::estimand().args(["up".into(), "--config".into(), file.as_os_str().to_owned()]).start()
}

fn hang_up(up: &Estimand) {
    let status = std::process::Command::new("kill").args(["-HUP", &up.pid().to_string()]).status().unwrap();
    assert!(status.success());
}
