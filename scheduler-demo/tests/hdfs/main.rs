//! The real worker, which classifies pictures out of a real HDFS while parts of both go away under it.

#![allow(clippy::unwrap_used)]

#[allow(dead_code, reason = "it is shared with the tests of the fake worker")]
#[path = "../agents/cluster.rs"]
mod cluster;
mod place;

use std::cell::Cell;
use std::fs;
use std::future::pending;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::thread;

use estimand_scheduler_demo::dispatch::AgentDispatcher;
use estimand_scheduler_demo::job_plan::PolicyKind;
use estimand_scheduler_demo::results::merge_folder;
use estimand_scheduler_demo::run::{RunEventKind, RunProgress, run};
use estimand_testkit::{process, processes};
use place::{Place, options, runtime};
use serde_json::Value;

/// Of a core: what little there is to do in these tests has to last until something has happened.
const SHARE: f64 = 0.05;

#[test]
fn a_datanode_that_fails_costs_no_image() {
    let place = Place::start(160, 2);
    let runtime = runtime();
    let job_plan = place.job_plan(&runtime, PolicyKind::Static);
    let job = place.job("failing", SHARE);
    let mut agents = AgentDispatcher::new(place.cluster.client(), "failing-1".to_owned());
    let (done, at_failure) = (AtomicUsize::new(0), AtomicUsize::new(usize::MAX));
    let run = thread::scope(|scope| {
        // The end of the channel is the signal, so that no thread waits if the run breaks off.
        let (tell, told) = channel::<()>();
        let tell = Cell::new(Some(tell));
        let (hdfs, done, at_failure) = (&place.hdfs, &done, &at_failure);
        scope.spawn(move || {
            let _ = told.recv();
            hdfs.fail_datanode(2);
            at_failure.store(done.load(Ordering::Relaxed), Ordering::Relaxed);
        });
        let look = |now: &RunProgress| {
            done.store(now.done, Ordering::Relaxed);
            if now.done > 20 {
                tell.take();
            }
        };
        let options = options("failing");
        runtime.block_on(run(&job, &job_plan, &mut agents, &options, pending(), look)).unwrap()
    });
    let before = at_failure.into_inner();
    assert!(before < 120, "{before} of 160 were done when it had failed: this shows little");
    place.check(&run);
    assert_eq!((run.duplicates, run.events.len()), (0, 0), "{:?}", run.events);
    // Images with only a remote copy left were read from there.
    let by_node_2 = run.nodes.iter().find(|node| node.name == "node-2").unwrap();
    assert_eq!(by_node_2.images.len(), 40);
}

#[test]
fn an_image_that_no_datanode_has_gets_an_error() {
    let place = Place::start(60, 1);
    let held = place.job_plan(&runtime(), PolicyKind::Static).plan.parts[1].held;
    assert!(held > 0, "nothing is on node-2 alone: this shows nothing");
    place.hdfs.stop_datanode(2);
    let report = place.cluster.folder.path().join("report");
    let mut command = process::command(cluster::binary());
    command.args(["--server", place.cluster.services.base_url(), "job", "lost", "--policy", "dynamic"]);
    for (key, value) in place.params(1.0) {
        command.args(["--param", &format!("{key}={value}")]);
    }
    command.arg("--report").arg(&report).arg("--").arg(&place.cluster.worker).arg("work");
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    println!("{said}");
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));

    let merged = merge_folder(&place.cluster.out(), "lost").unwrap();
    assert_eq!(merged.missing(place.images.iter().map(String::as_str)), Vec::<&str>::new());
    let errors: Vec<&str> = merged.results.values().filter_map(|answer| answer.error.as_deref()).collect();
    assert_eq!(
        errors,
        vec!["it can't be read: no DataNode that has a block of it could be read"; held as usize]
    );
    let runs: Value = serde_json::from_str(&fs::read_to_string(report.join("report.json")).unwrap()).unwrap();
    let told = format!("{held} images have an error instead of a label");
    assert!(runs.to_string().contains(&told), "{runs}");
    assert!(said.contains(&told), "{said}");
    place.cluster.nothing_is_left_of("lost");
}

#[test]
fn a_killed_worker_and_a_killed_agent_cost_no_image() {
    let mut place = Place::start(160, 2);
    let runtime = runtime();
    // Items move to other nodes only when their node is lost.
    let job_plan = place.job_plan(&runtime, PolicyKind::Static);
    let job = place.job("killed", SHARE);
    let mut agents = AgentDispatcher::new(place.cluster.client(), "killed-1".to_owned());
    let mut victim = place.cluster.agents.remove(3).1;
    let killed = Cell::new(0);
    let look = |now: &RunProgress| {
        if killed.get() == 0 && now.done > 20 {
            killed.set(1);
            processes::kill9(place.cluster.worker_of("node-1"));
        } else if killed.get() == 1 && now.done > 50 {
            killed.set(2);
            victim.kill9();
        }
    };
    let options = options("killed");
    let run = runtime.block_on(run(&job, &job_plan, &mut agents, &options, pending(), look)).unwrap();
    assert_eq!(killed.get(), 2);
    place.check(&run);
    let lost =
        |node: &str| run.events.iter().any(|event| event.kind == RunEventKind::Lost && event.node == node);
    assert!(lost("node-1") && lost("node-4"), "{:?}", run.events);
}
