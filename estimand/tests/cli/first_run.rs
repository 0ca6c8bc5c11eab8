//! The first sight of a user: the first run of what was registered, why something runs nowhere, values that are waited for, and
//! what no node has.

use std::io::Read as _;

use estimand_testkit::process;
use estimand_testkit::wait::PATIENCE;

use crate::session::{NODE, Session};

/// Both outputs of a command, and its exit code.
fn said(session: &Session, args: &[&str]) -> (String, String, i32) {
    let output = session.command(args).env("ESTIMAND_SERVER", session.base_url()).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (text(output.stdout), text(output.stderr), output.status.code().unwrap())
}

#[test]
fn register_shows_the_value_or_the_failure_of_the_first_run() {
    let session = Session::with_node();
    session.plane().until_node(NODE, "to be ready", |node| node["state"] == "ready");
    session.program("good", "echo 0.42");
    session.program("broken", "echo 'no such sensor' >&2; exit 3");
    let register = |name: &str, more: &[&str], program: &str| {
        let (out, err, code) = said(&session, &[&["register", name], more, &["--", program]].concat());
        assert_eq!((err.as_str(), code), ("", 0), "{out}");
        out
    };
    let hourly = ["--every", "1h"];
    assert_eq!(register("good", &hourly, "good"), "registered `good` (version 1)\n  node-1: 0.42\n");
    let failure = "registered `broken` (version 1)\n  node-1: failed in its first run: it ended with exit 3: no such \
                   sensor\n";
    assert_eq!(register("broken", &hourly, "broken"), failure);
    // A new version is tried beside the old one, whose value is not shown for that of the new one.
    let replaced = register("good", &["--every", "1h", "--replace"], "broken");
    assert!(replaced.contains("version 2 failed in its first run, version 1 goes on: "), "{replaced}");
    session.program("better", "echo 0.84");
    let replaced = register("good", &["--every", "1h", "--replace"], "better");
    assert!(replaced.ends_with("  node-1: 0.84\n"), "{replaced}");
    // The first moment of a calendar may be far away, and a script may have no time.
    let yearly = register("yearly", &["--schedule", "@yearly"], "good");
    assert_eq!(yearly, "registered `yearly` (version 1)\n");
    let quick = register("quick", &["--every", "1h", "--no-wait"], "good");
    assert_eq!(quick, "registered `quick` (version 1)\n");
    let json = register("json", &["--every", "1h", "--json"], "good");
    assert!(json.starts_with('{'), "{json}");
}

#[test]
fn what_runs_on_too_few_nodes_or_nowhere_says_why() {
    let session = Session::with_node();
    session.plane().until_node(NODE, "to be ready", |node| node["state"] == "ready");
    session.program("good", "echo 0.42");
    let none = "no node has the labels `zone=b`; `estimand nodes` shows which they have";
    let (_, err, code) =
        said(&session, &["register", "elsewhere", "--every", "1h", "--nodes", "zone=b", "--", "good"]);
    assert_eq!((err.as_str(), code), (format!("it runs nowhere so far: {none}\n").as_str(), 0));
    let (out, _, _) =
        said(&session, &["register", "thrice", "--every", "1h", "--replicas", "3", "--", "good"]);
    assert!(out.ends_with("  node-1: 0.42\n"), "{out}");
    let (list, _, _) = said(&session, &["list", "elsewhere", "thrice"]);
    for part in ["0/0", none, "1/3", "3 wanted, and there is 1 node"] {
        assert!(list.contains(part), "{part}: {list}");
    }
    let (_, err, code) = said(&session, &["get", "elsewhere"]);
    assert!(err.contains("runs nowhere so far") && err.contains(none) && code == 3, "{err}");
    session.quietly(&["pause", "elsewhere"]);
    let (_, err, _) = said(&session, &["get", "elsewhere"]);
    assert!(err.contains("it is paused") && !err.contains("nowhere"), "{err}");
    let (_, err, _) = said(&session, &["get", "thrice", "--node", "node-9"]);
    assert!(err.contains("there is no such node") && !err.contains("nowhere"), "{err}");
}

#[test]
fn get_waits_for_a_value() {
    let session = Session::start();
    let mut waiting = session.spawn(&["get", "late", "--wait=10m", "--raw"]);
    session.quietly(&["put", "late", NODE, "7"]);
    assert_eq!(waiting.wait(PATIENCE).code(), Some(0), "{}", waiting.stderr());
    let mut text = String::new();
    waiting.stdout().read_to_string(&mut text).unwrap();
    assert_eq!(text, "7\n");
    let (_, err, code) = said(&session, &["get", "never", "--wait=10ms"]);
    assert!(err.contains("`never` is unknown") && code == 3, "{err}");
    let (_, err, code) = said(&session, &["get", "late", "--state", "stale", "--wait=10ms"]);
    assert!(err.contains("within 10ms") && code == 3, "{err}");
}

#[test]
fn json_with_a_slip_in_it_is_not_sent_as_a_text() {
    let session = Session::start();
    let (_, err, code) = said(&session, &["put", "rack", NODE, "{bad"]);
    assert!(err.contains("begins like JSON and is none") && err.contains("--text") && code == 5, "{err}");
    session.quietly(&["put", "rack", NODE, "{bad", "--text"]);
    assert_eq!(session.quietly(&["get", "rack", "--raw"]), "{bad\n");
}

/// As the one node of a cluster says it of itself.
#[test]
fn what_no_node_has_is_no_trouble_on_two_nodes_either() {
    let session = Session::with_node();
    let hdfs = ["--every", "1h", "--replicas", "1", "--mode", "builtin", "--", "hdfs"];
    let (out, _, code) = said(&session, &[&["register", "hdfs"], &hdfs[..]].concat());
    assert!(out.contains("node-1: n/a: ") && code == 0, "{out}");
    let args = ["agent", "--server", session.base_url(), "--node", "node-2"];
    let _agent = process::estimand().args(args).without_http().start();
    // The only node of before cannot, so it is tried on the other one.
    session.plane().until_instance("hdfs", "node-2", "to be absent", |one| one["doing"] == "unavailable");
    let (list, _, _) = said(&session, &["list", "hdfs"]);
    assert!(list.contains("n/a") && !list.contains("no node can run it"), "{list}");
    let (failing, err, code) = said(&session, &["list", "--failing"]);
    assert_eq!((failing.as_str(), err.as_str(), code), ("", "nothing needs attention\n", 0));
    let (doctor, _, _) = said(&session, &["doctor"]);
    assert!(doctor.contains("1 registration without trouble, 1 of them n/a"), "{doctor}");
    let summary = session.http().get("/api/mng/instances/summary").expect_status(200).json();
    assert_eq!((&summary[0]["absent"], &summary[0]["troubled"]), (&1.into(), &0.into()), "{summary}");
    let metrics = String::from_utf8(session.http().get("/metrics").expect_status(200).body).unwrap();
    assert!(metrics.contains("estimand_registration_failing_nodes{data_name=\"hdfs\"} 0"), "{metrics}");
}

#[test]
fn numbers_keep_their_digits() {
    let session = Session::start();
    let numbers = ["1.10", "12345678901234567890", "123456789012345678901234567890", "1E5", "1e-7", "-0.0"];
    for (at, number) in numbers.iter().enumerate() {
        said(&session, &["put", "digits", &format!("n{at}"), number]);
    }
    let (raw, _, _) = said(&session, &["get", "digits", "--raw"]);
    assert_eq!(raw.lines().collect::<Vec<_>>(), numbers);
    let (table, _, _) = said(&session, &["get", "digits"]);
    let (json, _, _) = said(&session, &["get", "digits", "--json"]);
    let (explained, _, _) = said(&session, &["get", "digits", "--explain"]);
    let (shown, _, _) = said(&session, &["show", "digits"]);
    for number in numbers {
        assert!(table.contains(&format!("  {number}  ")), "{table}");
        assert!(json.contains(&format!("\"dataValue\": {number},")), "{json}");
        assert!(explained.contains(number) && shown.contains(number), "{explained}{shown}");
    }
    // Beyond what any reader could take in, it is refused, and not rounded.
    let (_, err, code) = said(&session, &["put", "digits", "n", "1e400"]);
    assert!(code != 0 && err.contains("1e400"), "{err}");
}

#[test]
fn nodes_and_values_are_chosen() {
    let session = Session::start();
    for (node, value) in [("a", "0.5"), ("b", "0.95"), ("c", "0.99")] {
        said(&session, &["put", "load", node, value]);
    }
    let raw = |args: &[&str]| said(&session, &[&["get", "load", "--raw"], args].concat()).0;
    assert_eq!(raw(&["--where", "value>0.9"]), "0.95\n0.99\n");
    assert_eq!(raw(&["--node", "a,b", "--node", "c", "--where", "value<0.99"]), "0.5\n0.95\n");
    let (_, err, code) = said(&session, &["get", "load", "--where", "load>1"]);
    assert!(code == 2 && err.contains("`value`, or a JSON pointer"), "{err}");
    // So many that the question goes over as a body.
    let nodes: Vec<String> = (0..2_000).map(|at| format!("node-{at}")).chain(["b".to_owned()]).collect();
    assert_eq!(raw(&["--node", &nodes.join(",")]), "0.95\n");
}
