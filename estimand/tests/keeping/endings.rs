//! Each end is told for what it was, and nothing of the task is left then.

use std::time::Duration;

use estimand_testkit::processes;
use estimand_testkit::wait::{self, PATIENCE};
use serde_json::{Value, json};

use crate::node::{Node, texts};

pub fn with(mut work: Value, more: &Value) -> Value {
    for (name, value) in more.as_object().unwrap() {
        work[name] = value.clone();
    }
    work
}

#[test]
fn a_task_is_run_once_and_all_of_it_is_told() {
    let node = Node::start("plain");
    let script = "echo one; pwd; echo $ESTIMAND_TASK_ID.$ESTIMAND_TASK_ATTEMPT on $ESTIMAND_NODE; echo GREETING=$TZ; \
                  echo x >> \"$0/runs\"; printf 'no newline'; exit 3";
    node.assign("t-1", with(node.shell(script), &json!({"environment": {"TZ": "there"}})));
    let heard = node.until_ended("t-1.1", json!({"exit": 3}));
    assert_eq!(heard.stages[..2], [json!("accepted"), json!("running")]);
    let lines = texts(&heard);
    let work = node.tasks_folder().canonicalize().unwrap().join("t-1.1/work");
    let expected = ["one", work.to_str().unwrap(), "t-1.1 on n1", "GREETING=there", "no newline"];
    assert_eq!(lines, expected);
    // It is not begun again when the agent is, nor when it is assigned late.
    let assigned = json!([{"id": "t-1", "attempt": 1, "work": node.shell(script)}]);
    node.services.assign(json!([]));
    wait::until(PATIENCE, "its folder to go", || (!work.exists()).then_some(()));
    node.services.assign(assigned);
    node.services.assign(json!([{"id": "t-2", "attempt": 1, "work": node.shell("exit 0")}]));
    node.until_ended("t-2.1", json!({"exit": 0}));
    assert_eq!(std::fs::read_to_string(node.folder.path().join("runs")).unwrap(), "x\n");
    node.end();
}

#[test]
fn both_streams_come_as_they_were_written() {
    let node = Node::start("streams");
    let script =
        "echo a; sleep 0.3; echo b >&2; sleep 0.3; printf 'caf\\351\\n'; printf '%040000d\\n' 7; echo c >&2";
    node.assign("s", node.shell(script));
    let heard = node.until_ended("s.1", json!({"exit": 0}));
    let shown: Vec<(String, String, bool)> = heard
        .lines
        .values()
        .map(|line| {
            let text = |name: &str| line[name].as_str().unwrap().to_owned();
            (text("stream"), text("text"), line["partial"] == json!(true))
        })
        .collect();
    let of = |stream: &str| shown.iter().filter(|line| line.0 == stream).cloned().collect::<Vec<_>>();
    let (out, err) = (of("STDOUT"), of("STDERR"));
    assert_eq!(err.iter().map(|line| line.1.as_str()).collect::<Vec<_>>(), ["b", "c"]);
    assert_eq!((out[0].1.as_str(), out[1].1.as_str()), ("a", "caf\u{fffd}"));
    let pieces: Vec<(usize, bool)> = out[2..].iter().map(|line| (line.1.len(), line.2)).collect();
    assert_eq!(pieces, [(16_384, true), (16_384, true), (7_232, false)]);
    assert_eq!(shown[1].1, "b", "in the order of their instants");
    node.end();
}

#[test]
fn a_signal_and_a_timeout_are_told_apart() {
    let node = Node::start("signals");
    node.services.assign(json!([
        {"id": "segv", "attempt": 1, "work": node.mock(&["signal:SEGV"])},
        {"id": "slow", "attempt": 2, "work": with(node.mock(&["hang"]), &json!({"timeoutMs": 300}))},
    ]));
    node.until_ended("segv.1", json!({"signal": 11}));
    node.until_ended("slow.2", json!("timedOut"));
    assert!(node.running().is_empty());
    node.end();
}

#[test]
fn a_task_that_does_not_want_to_end_is_ended_with_all_that_it_started() {
    for more in [&[][..], &["--no-cgroups"]] {
        let node = Node::with("stubborn", more);
        let work = node.mock(&[
            "ignore-term",
            "daemonize",
            "grandchild-keeps-pipe",
            "orphan",
            "print:there",
            "hang",
        ]);
        node.assign("s", work.clone());
        node.until_said("s.1", "there");
        wait::until(PATIENCE, "all of its processes", || (node.running().len() >= 4).then_some(()));
        node.services.assign(json!([{"id": "s", "attempt": 1, "stop": true, "work": work}]));
        node.until_ended("s.1", json!("cancelled"));
        processes::none_with(&node.mark, Duration::ZERO);
        node.end();
    }
}

#[test]
fn a_task_that_heeds_sigterm_ends_in_its_own_way_and_is_cancelled() {
    let node = Node::start("heeds");
    let work = node.shell("trap 'echo goodbye; exit 0' TERM; echo there; while :; do sleep 0.05; done");
    node.assign("s", work.clone());
    node.until_said("s.1", "there");
    node.services.assign(json!([{"id": "s", "attempt": 1, "stop": true, "work": work}]));
    let heard = node.until_ended("s.1", json!("cancelled"));
    // The shell may say as well, before or after, that what it waited for was ended.
    let texts = texts(&heard);
    assert!(texts[0] == "there" && texts.contains(&"goodbye".to_owned()), "{texts:?}");
    node.end();
}

#[test]
fn a_process_that_is_left_behind_ends_with_its_task() {
    let node = Node::start("left");
    node.assign("d", node.mock(&["daemonize", "print:gone"]));
    node.until_ended("d.1", json!({"exit": 0}));
    processes::none_with(&node.mark, Duration::ZERO);
    node.end();
}

#[test]
fn what_is_not_allowed_or_not_here_is_not_started() {
    let node = Node::start("refused");
    let command = |words: &[&str]| json!({"command": words});
    node.services.assign(json!([
        {"id": "folder", "attempt": 1, "work": command(&["/usr/sbin/nologin"])},
        {"id": "none", "attempt": 1, "work": command(&["/bin/no-such-program"])},
        {"id": "variable", "attempt": 1,
         "work": with(command(&["/bin/true"]), &json!({"environment": {"LD_PRELOAD": "/x"}}))},
        {"id": "image", "attempt": 1, "work": with(command(&["/bin/true"]), &json!({"image": "i"}))},
        {"id": "new", "attempt": 1, "work": with(command(&["/bin/true"]), &json!({"sandbox": true}))},
        {"id": "lost", "attempt": 1, "work": with(command(&["/bin/true"]), &json!({"directory": "/no/such"}))},
        {"id": "good", "attempt": 1, "work": command(&["/bin/true"])},
    ]));
    for (id, part) in [
        ("folder", "allows only what lies in"),
        ("none", "there is no `/bin/no-such-program`"),
        ("variable", "--allow-env LD_PRELOAD"),
        ("image", "runs none; `--docker` lets it"),
        ("new", "sandbox"),
        ("lost", "cannot change to the directory /no/such"),
    ] {
        let attempt = format!("{id}.1");
        let heard = node.until(&attempt, "end", |heard| heard.lines_at_end.is_some());
        let reason = &heard.stages.last().unwrap()["ended"]["ending"]["notStarted"];
        assert!(reason.as_str().is_some_and(|reason| reason.contains(part)), "{id}: {heard:?}");
    }
    node.until_ended("good.1", json!({"exit": 0}));
    node.end();
}

#[test]
fn a_task_beyond_its_memory_says_so() {
    let node = Node::start("memory");
    let more = json!({"memory": 64 << 20});
    node.assign("m", with(node.mock(&["eat-memory"]), &more));
    let heard = node.until("m.1", "end", |heard| heard.lines_at_end.is_some());
    let ending = &heard.stages.last().unwrap()["ended"]["ending"];
    // Where no cgroup can be made each process is held by its address space, and fails by itself.
    let folder = node.tasks_folder().join("m.1/keeper.log");
    let unenforced = std::fs::read_to_string(folder).unwrap_or_default().contains("memory:");
    assert_eq!(ending == &json!("outOfMemory"), !unenforced, "{ending}");
    node.end();
}
