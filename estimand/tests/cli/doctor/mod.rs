//! `estimand doctor` against real services: what is well, what is broken on purpose, and no service at all.

use std::process::Output;

use estimand_testkit::process::free_port;
use estimand_testkit::wait::{self, PATIENCE};
use serde_json::{Value, json};

use crate::session::{NODE, Session};

mod certificates;
mod clocks;
mod nodes;
mod stores;

struct Diagnosis {
    document: Value,
    code: i32,
}

impl Diagnosis {
    fn of(output: &Output) -> Self {
        let text = String::from_utf8_lossy(&output.stdout);
        let document = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {output:?}"));
        Diagnosis { document, code: output.status.code().unwrap() }
    }

    fn findings(&self) -> &Vec<Value> {
        self.document["findings"].as_array().unwrap()
    }

    /// The finding of that check whose text contains `part`.
    fn find(&self, check: &str, part: &str) -> Option<&Value> {
        let contains = |one: &&Value| one["check"] == check && one["found"].as_str().unwrap().contains(part);
        self.findings().iter().find(contains)
    }

    #[track_caller]
    fn has(&self, level: &str, check: &str, part: &str) -> String {
        let found = self.find(check, part).unwrap_or_else(|| panic!("no {check} with {part:?} in {self:#?}"));
        assert_eq!(found["level"], level, "{found}");
        found["remedy"].as_str().unwrap_or_default().to_owned()
    }
}

impl std::fmt::Debug for Diagnosis {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "exit code {}: {:#}", self.code, self.document)
    }
}

fn diagnose(session: &Session, args: &[&str]) -> Diagnosis {
    let mut command = session.command(&[&["doctor", "--json"], args].concat());
    Diagnosis::of(&command.env("ESTIMAND_SERVER", session.base_url()).output().unwrap())
}

#[test]
fn a_healthy_set_up_has_no_failure() {
    let session = Session::with_node();
    session.program("good", "echo 1");
    session.quietly(&["register", "good", "--every", "1h", "--", "good"]);
    session.until_ran("good", NODE, 1);
    let found = diagnose(&session, &[]);
    assert_eq!((found.code, &found.document["failures"]), (0, &json!(0)), "{found:?}");
    for (check, part) in [
        ("server", "answers in"),
        ("clock", "agree"),
        ("readiness", "every part"),
        ("token", "operate"),
        ("access", "--require-token"),
        ("store", "sqlite; "),
        ("nodes", "1 node, all ready"),
        ("versions", "services and agents are of version"),
        ("delivery", "no value waits"),
        ("names", "is produced"),
        ("tasks", "0 tasks"),
    ] {
        found.has("ok", check, part);
    }
    // People read the same.
    let text = session.quietly(&["doctor"]);
    assert!(text.contains("ok           nodes") && text.contains("0 failures"), "{text}");
}

#[test]
fn what_is_broken_is_named_with_its_remedy() {
    let session = Session::with_node();
    session.program("broken", "echo 'no sensor' >&2; exit 3");
    session.quietly(&["register", "broken", "--every", "1h", "--", "broken"]);
    session.quietly(&["register", "no_such", "--every", "1h", "--nodes", "zone=nowhere", "--", "broken"]);
    let sum = ["--every", "1h", "--mode", "expr", "--inputs", "no_such", "--no-wait", "--", "1"];
    session.quietly(&[&["register", "sum"], &sum[..]].concat());
    session.quietly(&["unregister", "no_such", "--force"]);
    session.quietly(&["bind", "stable", "nothing", "--force"]);
    session.quietly(&["put", "written", NODE, "1"]);
    session.quietly(&["bind", "of_written", "written"]);
    session.quietly(&["nodes", "cordon", NODE]);
    session.quietly(&["token", "create", "short", "--role", "read", "--valid-for", "2h"]);
    session.quietly(&["tasks", "submit", "--nodes", "zone=nowhere", "--", "/bin/true"]);
    session.until_ran("broken", NODE, 1);
    // At first it fits nowhere because the service of tasks knows no node yet.
    let fits_nowhere = |found: &Diagnosis| found.find("tasks", "zone=nowhere").is_some();
    let found = wait::until(PATIENCE, "the task to be told to fit nowhere", || {
        Some(diagnose(&session, &[])).filter(fits_nowhere)
    });
    assert_eq!(found.code, 1, "{found:?}");
    assert_eq!(found.has("failure", "registrations", "no sensor"), "estimand logs broken");
    found.has("failure", "names", "`no_such` is read by the registration `sum`");
    found.has("failure", "names", "`nothing` is read by the binding `stable`");
    assert!(found.find("names", "`written`").is_none(), "{found:?}");
    assert_eq!(found.has("warning", "nodes", "is cordoned"), format!("estimand nodes uncordon {NODE}"));
    found.has("warning", "token", "the token `short` (role read) is valid until");
    assert!(found.has("failure", "tasks", "zone=nowhere").contains("estimand tasks cancel "));
}

#[test]
fn warnings_fail_only_when_it_is_strict() {
    let session = Session::start();
    let found = diagnose(&session, &[]);
    found.has("warning", "nodes", "no node is known");
    assert_eq!(found.code, 0, "{found:?}");
    assert_eq!(diagnose(&session, &["--strict"]).code, 1);
}

#[test]
fn a_token_that_is_wrong_or_may_little_is_told() {
    let session = Session::start();
    let with_token = |token: &str| {
        let mut command = session.command(&["doctor", "--json"]);
        command.env("ESTIMAND_SERVER", session.base_url()).env("ESTIMAND_TOKEN", token);
        Diagnosis::of(&command.output().unwrap())
    };
    let create = ["token", "create", "r", "--role", "read", "--json"];
    let made = wait::until(PATIENCE, "tokens to be made", || {
        let output = session.command(&create).env("ESTIMAND_SERVER", session.base_url()).output().unwrap();
        output.status.success().then_some(output.stdout)
    });
    let made: Value = serde_json::from_slice(&made).unwrap();
    let found = with_token(made["token"].as_str().unwrap());
    found.has("warning", "token", "has the role read");
    let found = with_token("estimand_0123456789012345678901234567890");
    found.has("failure", "token", "not known");
    assert_eq!(found.code, 1);
}

#[test]
fn without_a_service_the_machine_is_looked_at() {
    let mut session = Session::start();
    let base_url = session.base_url().to_owned();
    let port: u16 = base_url.rsplit(':').next().unwrap().parse().unwrap();
    // Another port than the one that a service listens at.
    let other = free_port();
    let mut command = session.command(&["doctor", "--json"]);
    let found =
        Diagnosis::of(&command.env("ESTIMAND_SERVER", format!("http://127.0.0.1:{other}")).output().unwrap());
    assert_eq!(found.code, 6, "{found:?}");
    found.has("failure", "port", &format!("nothing listens at port {other}"));
    let at = format!("listens at 127.0.0.1:{port}");
    found.has("ok", "process", &at);
    // A service that is gone, and something else at its port.
    session.service.kill9();
    let taken =
        wait::until_ok(PATIENCE, "the port to be free", || std::net::TcpListener::bind(("127.0.0.1", port)));
    let found = diagnose(&session, &[]);
    assert_eq!(found.code, 6, "{found:?}");
    found.has("failure", "port", &format!("127.0.0.1:{port} is taken"));
    drop(taken);
    // A name that leads nowhere.
    let mut command = session.command(&["doctor", "--json"]);
    let found =
        Diagnosis::of(&command.env("ESTIMAND_SERVER", "http://no-such-host.invalid:7070").output().unwrap());
    found.has("failure", "address", "leads to no machine");
    assert_eq!(found.code, 6);
}
