//! The commands about nodes and about what runs on them, over a manager and an agent that are at work.
//!
//! Output is waited for: runs are an hour apart, or as many as the script makes, so that counts are
//! what they are.

use std::collections::BTreeSet;

use estimand_testkit::process::{self, Estimand};
use estimand_testkit::wait::PATIENCE;
use serde_json::{Value, json};

use crate::session::{NODE, Session};

/// Fails three times, which calls for attention, and then does not end.
const FAILS_THRICE: &str = r#"echo "cannot open the sensor" >&2
echo >> "$0.runs"
[ "$(wc -l < "$0.runs")" -le 3 ] || exec sleep 1000
exit 3"#;

/// A node with a registration that runs well, and one of each kind that does not.
fn session_with_troubles() -> Session {
    let session = Session::with_node();
    session.program("good", "echo \"measured $ESTIMAND_DATA_NAME\" >&2; echo 0.42");
    session.program("bad", FAILS_THRICE);
    session.program("broken", "echo half a val; echo \"disk\tfull\" >&2; exit 7");
    session.quietly(&["register", "good", "--every", "1h", "--", "good"]);
    session.quietly(&["register", "bad", "--gap", "50ms", "--timeout", "1h", "--", "bad"]);
    session.quietly(&["register", "broken", "--every", "1h", "--", "broken"]);
    session.quietly(&["register", "stray", "--every", "1h", "--", "/bin/echo", "1"]);
    session.until_ran("good", NODE, 1);
    session.until_ran("broken", NODE, 1);
    session.until_ran("stray", NODE, 1);
    session.plane().until_instance("bad", NODE, "to have failed three times and to hang", |one| {
        one["failing"] == 3 && one["doing"] == "running"
    });
    session
}

#[test]
fn a_session_about_what_runs() {
    let mut session = session_with_troubles();
    session.run(&["list"]);
    session.run(&["instances"]);
    session.run(&["instances", "--failing"]);
    session.run(&["instances", "good", "--node", NODE]);
    session.run(&["instances", "good", "--failing"]);
    for name in ["good", "bad", "broken", "stray"] {
        session.run(&["logs", name]);
    }
    session.run(&["instances", "nothing"]);
    session.run(&["instances", "--node", "node-9"]);
    session.run(&["logs", "nothing"]);
    session.run(&["logs", "good", "--node", "node-9"]);
    session.run(&["unregister", "bad", "stray", "nothing"]);
    session.run(&["instances"]);
    session.run(&["unregister", "good", "broken"]);
    session.run(&["instances"]);
    insta::assert_snapshot!(session.transcript());
    assert_eq!(
        session.codes(),
        [[0, 0, 1, 0, 0, 0, 0, 0, 0].as_slice(), &[3, 3, 3, 3], &[3, 0, 0, 0]].concat()
    );
}

#[test]
fn a_run_by_hand_shows_everything_and_changes_nothing() {
    let mut session = session_with_troubles();
    session.program("two\"lines", "printf '%s' '{\"node-1\": 1, \"node-2\": [2]}'");
    session.program("silent", "exit 0");
    session.quietly(&[
        "register",
        "per_node",
        "--every",
        "1h",
        "--format",
        "nodes",
        "--",
        "'two\"lines' 'a b'",
    ]);
    session.quietly(&["register", "silent", "--every", "1h", "--", "silent"]);
    session.quietly(&[
        "register",
        "stream",
        "--every",
        "1h",
        "--mode",
        "stream",
        "--no-wait",
        "--",
        "silent",
    ]);
    session.until_ran("per_node", NODE, 1);
    session.until_ran("silent", NODE, 1);
    session.run(&["run", "good"]);
    session.run(&["run", "good", "--node", NODE]);
    session.run(&["run", "per_node"]);
    session.run(&["run", "silent"]);
    session.run(&["run", "broken"]);
    session.run(&["run", "stray"]);
    session.run(&["run", "stream"]);
    session.run(&["run", "nothing"]);
    session.run(&["run", "good", "--node", "node-9"]);
    // It is told of a run that is long enough to be looked at.
    let is_stable = |line: &&str| !line.starts_with("  memory  ");
    let transcript = session.transcript();
    insta::assert_snapshot!(transcript.lines().filter(is_stable).collect::<Vec<_>>().join("\n"));
    assert_eq!(session.codes(), [0, 0, 0, 0, 1, 1, 4, 3, 3]);
    // The slots have run as often as before.
    for name in ["good", "per_node", "silent", "broken"] {
        session.until_ran(name, NODE, 1);
    }
}

#[test]
fn a_session_about_nodes() {
    let mut session = Session::with_node();
    session.program("good", "echo 0.42");
    session.plane().until_node(NODE, "to be ready", |node| node["state"] == "ready");
    session.run(&["nodes"]);
    session.run(&["nodes", "cordon", NODE]);
    session.run(&["nodes", "cordon", NODE]);
    session.run(&["register", "only", "--every", "1h", "--replicas", "1", "--", "good"]);
    session.run(&["nodes"]);
    session.run(&["list"]);
    session.run(&["instances", "only"]);
    session.run(&["logs", "only"]);
    session.run(&["nodes", "uncordon", NODE]);
    session.until_ran("only", NODE, 1);
    session.plane().until_node(NODE, "to have delivered", |node| {
        node["delivery"]["delivered"] == 1 && node["delivery"]["waiting"] == 0
    });
    session.run(&["list"]);
    session.run(&["nodes", NODE]);
    session.run(&["nodes", "remove", NODE]);
    session.run(&["nodes", "node-9"]);
    session.run(&["nodes", "cordon", "node-9"]);
    session.run(&["nodes", "remove", "node-9"]);
    session.run(&["nodes", "node 9"]);
    session.run(&["nodes", "cordon"]);
    session.run(&["nodes", NODE, "cordon", NODE]);
    insta::assert_snapshot!(session.transcript());
    assert_eq!(session.codes(), [[0; 11].as_slice(), &[4, 3, 3, 3, 2, 2, 2]].concat());
}

/// An agent that is ended says so, and its node is lost at once.
#[test]
fn a_lost_node_is_shown_and_removed() {
    let mut session = Session::with_node();
    session.program("good", "echo 0.42");
    let mut agent = agent(&session, "node-2");
    session.quietly(&["register", "good", "--every", "1h", "--", "good"]);
    session.until_ran("good", NODE, 1);
    session.until_ran("good", "node-2", 1);
    session.plane().until_node("node-2", "to have delivered", |node| node["delivery"]["delivered"] == 1);
    session.run(&["logs", "good"]);
    session.run(&["run", "good"]);
    assert!(agent.terminate().success(), "{}", agent.stderr_tail());
    session.plane().until_node("node-2", "to be lost", |node| node["state"] == "lost");
    session.plane().wait_value_state("good", "node-2", "node-lost");
    session.run(&["nodes"]);
    session.run(&["list"]);
    session.run(&["get", "good"]);
    session.run(&["run", "good", "--node", "node-2"]);
    session.run(&["nodes", "remove", "node-2"]);
    session.run(&["nodes", "remove", "node-2"]);
    session.run(&["get", "good"]);
    session.run(&["list"]);
    insta::assert_snapshot!(session.transcript());
}

fn agent(session: &Session, node: &str) -> Estimand {
    let allowed = session.programs().display().to_string();
    let args = ["agent", "--server", session.base_url(), "--node", node, "--allow", &allowed];
    let agent = process::estimand().args(args).without_http().start();
    session.plane().until_node(node, "to be ready", |node| node["state"] == "ready");
    agent
}

#[test]
fn json_is_what_the_manager_answered() {
    let session = session_with_troubles();
    let json = |args: &[&str]| -> Value {
        let out = session.quietly(&[args, &["--json"]].concat());
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("{args:?} printed {out}: {error}"))
    };
    let served = |path: &str| -> Value { session.http().get(path).expect_status(200).json() };

    session.plane().until_node(NODE, "to know its clock", |node| node["clockAheadMs"].is_i64());
    let node = json(&["nodes", NODE]);
    let fields = "agent clockAheadMs cordoned delivery facts instances knownSince labelSources labels lastHeartbeat nodeName state";
    assert_eq!(fields_of(&node), fields);
    assert_eq!(
        fields_of(&node["facts"]),
        "allow arch containment cores hostname kernel memory usersTasks version"
    );
    assert_eq!(fields_of(&node["delivery"]), "delivered dropped refused spooledBytes waiting");
    assert_eq!((&node["labels"], &node["instances"]), (&json!({"node": NODE, "zone": "a"}), &json!(4)));
    let listed = json(&["nodes"]);
    assert_eq!((listed.as_array().unwrap().len(), fields_of(&listed[0])), (1, fields_of(&node)));
    assert_eq!(json(&["nodes", "cordon", NODE])["cordoned"], true);
    assert_eq!(json(&["nodes", "uncordon", NODE])["cordoned"], false);

    let all = json(&["instances"]);
    assert_eq!(all, served("/api/mng/instances"));
    let mut good = json(&["instances", "good"]);
    let always = "dataName doing failing failures nodeName nodeState overruns quarantined registered restarts runs timeouts version withoutValue";
    let ran = "lastCpuMs lastDurationMs lastExit lastGood lastStart lastWaitMs stderrTail";
    // That of a run that ended before it was looked at is not told.
    let memory = good[0].as_object_mut().unwrap().remove("lastMemory");
    assert!(memory.is_none_or(|bytes| bytes.is_u64()));
    let expected: BTreeSet<&str> = always.split(' ').chain(ran.split(' ')).collect();
    assert_eq!(fields_of(&good[0]), expected.into_iter().collect::<Vec<_>>().join(" "));
    assert_eq!((&good[0]["stderrTail"], &good[0]["lastExit"]), (&json!("measured good\n"), &json!("exit 0")));
    assert_eq!(json(&["logs", "good"]), json(&["instances", "good"]));
    let mut failing = session.command(&["instances", "--failing", "--json", "--server", session.base_url()]);
    let failing = failing.output().unwrap();
    assert_eq!(failing.status.code(), Some(1));
    let failing: Value = serde_json::from_slice(&failing.stdout).unwrap();
    let names: Vec<&Value> = failing.as_array().unwrap().iter().map(|one| &one["dataName"]).collect();
    assert_eq!(names, ["bad", "broken", "stray"]);

    let report = json(&["run", "good"]);
    let fields = "argv cpuMs durationMs exit maxMemory stderr stdout stdoutBytes values";
    assert_eq!(fields_of(&report), fields);
    assert_eq!(report["values"], json!([{"nodeName": NODE, "dataValue": 0.42}]));
    // A failed run is an answer as well.
    let failed =
        session.command(&["run", "broken", "--json", "--server", session.base_url()]).output().unwrap();
    let report: Value = serde_json::from_slice(&failed.stdout).unwrap();
    assert_eq!(
        (failed.status.code(), &report["exit"], &report["values"]),
        (Some(1), &json!("exit 7"), &json!([]))
    );
    assert_eq!(fields_of(&report), fields.replace("exit", "error exit"));
}

/// In order, with spaces.
fn fields_of(object: &Value) -> String {
    let keys = object.as_object().unwrap_or_else(|| panic!("no object: {object}")).keys();
    keys.map(String::as_str).collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>().join(" ")
}

#[test]
fn logs_are_followed_until_they_are_ended() {
    use std::io::{BufRead, BufReader};

    let session = Session::with_node();
    session.program("chatty", &format!("cat {}/word >&2; echo 1", session.programs().display()));
    let write = |word: &str| std::fs::write(session.programs().join("word"), format!("{word}\n")).unwrap();
    write("one");
    // A run that a busy machine holds up must not end by its timeout, which is the interval otherwise.
    session.quietly(&["register", "chatty", "--every", "50ms", "--timeout", "10s", "--", "chatty"]);
    session.plane().until_instance("chatty", NODE, "to say one", |one| one["stderrTail"] == "one\n");
    let mut follow = session.spawn(&["logs", "chatty", "--follow"]);
    let mut lines = BufReader::new(follow.stdout()).lines().map(Result::unwrap);
    assert_eq!(lines.next().as_deref(), Some("one"));
    let last = lines.next().unwrap_or_default();
    assert!(last.starts_with("last run: exit 0, began "), "{last}");
    write("two");
    assert_eq!(lines.find(|line| !line.is_empty()).as_deref(), Some("two"));
    follow.interrupt();
    assert_eq!(follow.wait(PATIENCE).code(), Some(0));
    assert_eq!(follow.stderr(), "");
}

#[test]
fn a_registration_is_tried_in_a_session() {
    let mut session = Session::with_node();
    session.plane().until_known(NODE);
    session.program("probe", "echo looked >&2; echo 0.42");
    session.program("wrong", "echo no such sensor >&2; exit 3");
    session.run(&["register", "probed", "--every", "1h", "--try", "--", "probe"]);
    session.run(&["register", "probed", "--every", "1h", "--try=node-1", "--", "wrong"]);
    session.run(&[
        "register", "half", "--every", "1h", "--mode", "expr", "--inputs", "x", "--try", "--", "x / 2",
    ]);
    session.run(&["register", "probed", "--every", "1h", "--try=node-9", "--", "probe"]);
    session.run(&["list", "probed"]);
    insta::assert_snapshot!(session.transcript());
    assert_eq!(session.codes(), [0, 1, 0, 3, 3]);
}
