//! A task has ended when its promise has, whoever is there to end it, and although it does not listen.

use std::time::{Duration, Instant};

use estimand_testkit::processes;
use estimand_testkit::wait::{self, PATIENCE};
use serde_json::{Value, json};

use crate::node::Node;

/// Notes that it was asked to end, and goes on.
const STUBBORN: &str =
    "trap 'touch \"$0/asked\"' TERM; echo on; while :; do touch \"$0/on\"; sleep 0.05; done";

fn end(until: u64, left: Duration, grace: Duration) -> Value {
    let [left, grace] = [left, grace].map(|span| u64::try_from(span.as_millis()).unwrap());
    json!({"promise": "p", "until": until, "leftMs": left, "graceMs": grace})
}

fn over() -> Value {
    json!({"promise": "its promise `p` is over: its time is over"})
}

#[test]
fn a_task_has_ended_when_its_promise_has_although_nobody_says_so() {
    const LEFT: Duration = Duration::from_secs(8);
    let mut node = Node::start("window-alone");
    let began = Instant::now();
    // The manager was told a minute ago.
    let age = Duration::from_secs(60);
    let end = end(70, age + LEFT, Duration::from_secs(2));
    let work = node.shell(STUBBORN);
    node.services.assign_late(json!([{"id": "w", "attempt": 1, "end": end, "work": work}]), age);
    node.until_said("w.1", "on");
    node.agent.kill9();
    wait::until(PATIENCE, "it to be asked to end", || node.has("asked").then_some(()));
    processes::none_with(&node.mark, PATIENCE);
    assert!(began.elapsed() >= LEFT, "it has all of its window");
    node.agent.restart_on_same_port();
    node.until_ended("w.1", over());
    node.end();
}

#[test]
fn a_task_with_a_grace_for_it_saves_its_work_before_its_promise_is_over() {
    const LEFT: Duration = Duration::from_secs(12);
    let mut node = Node::start("window-saves");
    let began = Instant::now();
    let mut end = end(70, LEFT, Duration::from_secs(1));
    end["checkpointMs"] = json!(6_000);
    let script = format!("trap 'touch \"$0/saving\"' USR1; {STUBBORN}");
    let work = node.shell(&script);
    node.services.assign(json!([{"id": "w", "attempt": 1, "end": end, "work": work}]));
    node.until_said("w.1", "on");
    node.agent.kill9();
    wait::until(PATIENCE, "it to be asked to save its work", || node.has("saving").then_some(()));
    processes::none_with(&node.mark, PATIENCE);
    assert!(began.elapsed() >= LEFT, "it has all of its window");
    node.agent.restart_on_same_port();
    let heard = node.until_ended("w.1", over());
    assert_eq!(heard.stages.last().unwrap()["ended"]["program"], json!({"signal": 9}));
    node.end();
}

#[test]
fn an_end_that_is_moved_is_the_one_that_holds() {
    const FIRST: Duration = Duration::from_secs(12);
    let node = Node::start("window-moved");
    let began = Instant::now();
    let work = node.shell(STUBBORN);
    let assign = |end: Value| {
        node.services.assign(json!([{"id": "w", "attempt": 1, "end": end, "work": work}]));
    };
    assign(end(70, FIRST, Duration::from_secs(1)));
    node.until_said("w.1", "on");
    assign(end(700, Duration::from_secs(600), Duration::from_secs(10)));
    wait::until(PATIENCE, "the first end to have passed", || {
        (began.elapsed() > FIRST + Duration::from_secs(1)).then_some(())
    });
    std::fs::remove_file(node.folder.path().join("on")).unwrap();
    wait::until(PATIENCE, "it to go on", || node.has("on").then_some(()));
    assert!(!node.has("asked"));
    assign(end(80, Duration::from_secs(2), Duration::from_secs(1)));
    node.until_ended("w.1", over());
    assert!(node.has("asked"));
    node.end();
}

#[test]
fn what_has_not_begun_when_its_promise_is_over_never_does() {
    let node = Node::without_lease("window-never");
    let work = node.shell("touch \"$0/ran\"");
    let end = end(70, Duration::from_millis(500), Duration::from_millis(50));
    node.services.assign(json!([{"id": "w", "attempt": 1, "leased": true, "end": end, "work": work}]));
    node.until_ended("w.1", over());
    assert!(!node.has("ran"));
    node.end();
}
