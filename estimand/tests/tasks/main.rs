//! Tasks end to end: real services, real agents, real processes; submitted, placed, run, read and accounted for.

#![allow(clippy::unwrap_used)]

mod arrays;
mod containers;
mod deaths;
mod files;
mod images;
mod leases;
mod logs;
mod plane;
mod ports;
mod precedence;
mod pressure;
mod promises;
mod shares;
mod stops;
mod training;
mod users;
mod web;

use std::io::Read as _;
use std::process::Stdio;

use estimand_testkit::wait::{self, PATIENCE};
use plane::Plane;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

#[test]
fn a_command_behaves_as_if_it_ran_here() {
    let plane = Plane::start(&["n1"]);
    let script = "echo \"hello $NAME\"; echo oops >&2; printf 'no end'; exit 7";
    let args = ["run-task", "--cpu", "0.5", "--env", "NAME=world", "--", "/bin/sh", "-c", script];
    let ran = plane.cli(&args).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&ran.stdout), "hello world\nno end\n", "{ran:?}");
    assert!(String::from_utf8_lossy(&ran.stderr).contains("oops\n"), "{ran:?}");
    assert_eq!(ran.status.code(), Some(7));
    let nowhere = plane.cli(&["run-task", "--", "/nowhere/program"]).output().unwrap();
    assert_eq!(nowhere.status.code(), Some(125), "{nowhere:?}");
}

#[test]
fn a_log_is_read_while_the_task_runs_and_ctrl_c_cancels_it() {
    let plane = Plane::start(&["n1"]);
    let args = ["run-task", "--id", "endless", "--", "/bin/sh", "-c", "echo begun; exec sleep 1000"];
    let mut running = plane.cli(&args).stdout(Stdio::piped()).spawn().unwrap();
    let mut first = [0; 6];
    running.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
    assert_eq!(&first, b"begun\n");
    assert_eq!(plane.task("endless")["state"], "RUNNING");
    kill_process(Pid::from_child(&running), Signal::INT).unwrap();
    let status = running.wait().unwrap();
    assert_eq!(status.code(), Some(130));
    assert_eq!(plane.task("endless")["state"], "CANCELLED");
}

#[test]
fn a_task_runs_on_the_node_that_it_names() {
    let plane = Plane::start(&["n1", "n2", "n3"]);
    for node in ["n3", "n1", "n2"] {
        let (nodes, id) = (format!("node={node}"), format!("on-{node}"));
        let script = ["/bin/sh", "-c", "echo $ESTIMAND_NODE"];
        let args = ["run-task", "--id", &id, "--nodes", &nodes, "--"];
        let ran = plane.cli(&args).args(script).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&ran.stdout), format!("{node}\n"), "{ran:?}");
        assert_eq!(plane.task(&id)["node"], node);
    }
    let all: Vec<String> = (0..8)
        .map(|_| plane.submit(&json!({ "command": ["/bin/true"], "nodes": "node in (n1,n3)" })))
        .collect();
    for id in all {
        let task = plane.over(&id);
        assert!(task["state"] == "SUCCEEDED" && (task["node"] == "n1" || task["node"] == "n3"), "{task}");
    }
    let nobody = plane.submit(&json!({ "command": ["/bin/true"], "nodes": "node=n4" }));
    let waits = wait::until(PATIENCE, "the reason that it waits", || {
        plane.task(&nobody)["waits"].as_str().map(str::to_owned)
    });
    assert!(waits.contains("`node=n4`"), "{waits}");
}

#[test]
fn a_task_that_takes_too_long_is_ended() {
    let plane = Plane::start(&["n1"]);
    let id = plane.submit(&json!({ "command": ["/bin/sleep", "1000"], "timeout": "300ms" }));
    assert_eq!(plane.over(&id)["ending"], "timedOut");
    let fast = plane.cli(&["run-task", "--timeout", "300ms", "--", "/bin/sleep", "1000"]).output().unwrap();
    assert_eq!(fast.status.code(), Some(124), "{fast:?}");
}

#[test]
fn tasks_of_a_full_node_take_turns() {
    let plane = Plane::start(&["n1"]);
    let cores = wait::until(PATIENCE, "the node's capacity", || {
        plane.http.get("/api/capacity").json()[0]["capacity"]["cpu"].as_u64().filter(|cpu| *cpu > 0)
    });
    // Each takes all of the node: a folder that is there says that two ran at once.
    let shared = plane.folder.path().join("alone");
    let script = format!("mkdir {0} && sleep 0.05 && rmdir {0}", shared.display());
    let document =
        json!({ "command": ["/bin/sh", "-c", script], "resources": { "cpu": cores as f64 / 1000.0 } });
    let ids: Vec<String> = (0..10).map(|_| plane.submit(&document)).collect();
    for id in ids {
        let task = plane.over(&id);
        assert_eq!(task["state"], "SUCCEEDED", "{task}");
    }
}
