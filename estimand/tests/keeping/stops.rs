//! A task that is told to end has the time that its order gives, and its end tells how its program ended.

use std::time::{Duration, Instant};

use estimand_testkit::processes;
use estimand_testkit::wait::{self, PATIENCE};
use serde_json::{Value, json};

use crate::node::{Node, texts};
use crate::stand_in::AttemptNews;

/// Saves its work when it is asked to, and ends well.
const SAVES: &str = "trap 'echo saved > \"$0/saved\"; exit 0' USR1; echo on; while :; do sleep 0.05; done";
/// Notes each signal, and goes on.
const STUBBORN: &str = "trap 'touch \"$0/usr1\"' USR1; trap 'touch \"$0/term\"' TERM; echo on; \
                        while :; do touch \"$0/on\"; sleep 0.05; done";
/// More than any test has.
const HOUR_MS: u64 = 3_600_000;

/// Tells an attempt to end, with these fields of its assignment.
fn stop(node: &Node, work: &Value, more: &Value) {
    let mut assignment = json!({"id": "s", "attempt": 1, "stop": true, "work": work});
    assignment.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    node.services.assign(json!([assignment]));
}

/// Has it run until it says so.
fn run(node: &Node, script: &str) -> Value {
    let work = node.shell(script);
    node.assign("s", work.clone());
    node.until_said("s.1", "on");
    work
}

fn program(heard: &AttemptNews) -> Value {
    heard.stages.last().unwrap()["ended"]["program"].clone()
}

#[test]
fn a_checkpoint_that_is_written_shows_in_the_end() {
    let node = Node::start("stop-saves");
    let work = run(&node, SAVES);
    stop(&node, &work, &json!({"checkpoint": true, "graceMs": HOUR_MS}));
    let heard = node.until_ended("s.1", json!("cancelled"));
    assert_eq!(program(&heard), json!({"exit": 0}));
    assert!(node.has("saved"));
    node.end();
}

#[test]
fn a_checkpoint_that_fails_or_is_not_known_shows_in_the_end() {
    for (script, ended) in [
        ("trap 'exit 7' USR1; echo on; while :; do sleep 0.05; done", json!({"exit": 7})),
        ("echo on; exec sleep 600", json!({"signal": 10})),
    ] {
        let node = Node::start("stop-fails");
        let work = run(&node, script);
        // The shell says so right before it becomes another program, which knows no signal.
        stop(&node, &work, &json!({"checkpoint": true, "graceMs": HOUR_MS}));
        let heard = node.until_ended("s.1", json!("cancelled"));
        assert_eq!(program(&heard), ended);
        node.end();
    }
}

#[test]
fn a_checkpoint_that_never_ends_is_cut_off_when_its_grace_is_over() {
    const GRACE_MS: u64 = 2_000;
    let node = Node::start("stop-stubborn");
    let work = run(&node, STUBBORN);
    let began = Instant::now();
    stop(&node, &work, &json!({"checkpoint": true, "graceMs": GRACE_MS}));
    let heard = node.until_ended("s.1", json!("cancelled"));
    assert!(began.elapsed() >= Duration::from_millis(GRACE_MS), "it has all of its grace");
    assert_eq!(program(&heard), json!({"signal": 9}));
    assert!(node.has("usr1"), "it was asked for a checkpoint before");
    processes::none_with(&node.mark, Duration::ZERO);
    node.end();
}

#[test]
fn an_order_of_the_version_before_has_its_times() {
    let node = Node::start("stop-before");
    let work = run(&node, STUBBORN);
    let began = Instant::now();
    stop(&node, &work, &json!({"checkpoint": true}));
    let heard = node.until_ended("s.1", json!("cancelled"));
    assert!(began.elapsed() >= Duration::from_secs(20), "two graces of 10 s");
    assert_eq!(program(&heard), json!({"signal": 9}));
    assert!(node.has("usr1") && node.has("term"), "both signals came before");
    node.end();
}

#[test]
fn a_grace_of_zero_kills_at_once() {
    let node = Node::start("stop-zero");
    let work = run(&node, STUBBORN);
    stop(&node, &work, &json!({"graceMs": 0}));
    let heard = node.until_ended("s.1", json!("cancelled"));
    assert_eq!(program(&heard), json!({"signal": 9}));
    assert!(!node.has("usr1") && !node.has("term"), "no other signal came");
    node.end();
}

#[test]
fn a_second_order_makes_the_end_come_sooner() {
    let node = Node::start("stop-again");
    let work = run(&node, STUBBORN);
    stop(&node, &work, &json!({"checkpoint": true, "graceMs": HOUR_MS}));
    wait::until(PATIENCE, "it to be asked for a checkpoint", || node.has("usr1").then_some(()));
    // A longer one changes nothing, and the next one counts.
    stop(&node, &work, &json!({"checkpoint": true, "graceMs": 2 * HOUR_MS}));
    stop(&node, &work, &json!({"graceMs": 0}));
    let heard = node.until_ended("s.1", json!("cancelled"));
    assert_eq!(program(&heard), json!({"signal": 9}));
    assert!(!node.has("term"));
    node.end();
}

#[test]
fn the_keeper_holds_the_end_of_a_task_whose_agent_is_killed_meanwhile() {
    const GRACE_MS: u64 = 6_000;
    let mut node = Node::start("stop-alone");
    let work = run(&node, STUBBORN);
    let began = Instant::now();
    stop(&node, &work, &json!({"checkpoint": true, "graceMs": GRACE_MS}));
    wait::until(PATIENCE, "it to be asked for a checkpoint", || node.has("usr1").then_some(()));
    node.agent.kill9();
    processes::none_with(&node.mark, PATIENCE);
    assert!(began.elapsed() >= Duration::from_millis(GRACE_MS), "it has all of its grace");
    node.agent.restart_on_same_port();
    let heard = node.until_ended("s.1", json!("cancelled"));
    assert_eq!(program(&heard), json!({"signal": 9}));
    node.end();
}

#[test]
fn an_agent_that_is_started_anew_meanwhile_asks_for_no_second_checkpoint() {
    let mut node = Node::start("stop-anew");
    let script = "n=0; trap 'n=$((n+1)); echo asked $n' USR1; trap 'echo bye; exit 3' TERM; echo on; \
                  while :; do touch \"$0/on\"; sleep 0.05; done";
    let work = run(&node, script);
    let order = json!({"checkpoint": true, "graceMs": HOUR_MS});
    stop(&node, &work, &order);
    node.until_said("s.1", "asked 1");
    node.agent.kill9();
    node.agent.restart_on_same_port();
    // The agent has heard the same order again when it follows another one of the same list.
    let other = json!({"id": "o", "attempt": 1, "work": node.shell("exit 0")});
    let same =
        json!({"id": "s", "attempt": 1, "stop": true, "checkpoint": true, "graceMs": HOUR_MS, "work": work});
    node.services.assign(json!([same, other]));
    node.until_ended("o.1", json!({"exit": 0}));
    stop(&node, &work, &json!({}));
    let heard = node.until_ended("s.1", json!("cancelled"));
    assert_eq!(program(&heard), json!({"exit": 3}));
    let asked: Vec<String> = texts(&heard).into_iter().filter(|line| line.starts_with("asked")).collect();
    assert_eq!(asked, ["asked 1"]);
    node.end();
}
