//! The scheduler on a real plane: real services and agents, and a fake worker that obeys the protocol.

#![allow(clippy::unwrap_used)]

mod cluster;
mod faults;
mod job;
mod python;
mod recorder;
mod swap;

use std::cell::Cell;
use std::collections::BTreeSet;
use std::future::pending;
use std::path::Path;

use cluster::Cluster;
use estimand_scheduler_demo::dispatch::AgentDispatcher;
use estimand_scheduler_demo::facts::{self, Names};
use estimand_scheduler_demo::job::Group;
use estimand_scheduler_demo::job_plan::{JobPlan, Options as PlanOptions, PolicyKind};
use estimand_scheduler_demo::report;
use estimand_scheduler_demo::results::merge_folder;
use estimand_scheduler_demo::run::{Error, Options, Run, RunEventKind, RunProgress, run};
use estimand_testkit::processes;
use serde_json::json;

fn images(count: usize) -> Vec<String> {
    (0..count).map(|i| format!("img-{i:05}.jpg")).collect()
}

fn options(title: &str) -> Options {
    // A machine that also compiles is slow, but not that slow.
    Options { silence: 20.0, start_patience: 60.0, ..Options::new(title) }
}

fn job_plan(cluster: &Cluster, runtime: &tokio::runtime::Runtime, policy: PolicyKind) -> JobPlan {
    let names = Names::new(None, None, None).unwrap();
    let facts = runtime.block_on(facts::read(&cluster.client(), &names)).unwrap();
    JobPlan::new(facts, PlanOptions { policy, ..PlanOptions::default() }).unwrap()
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// Words that a scheduler must not see: all collectors and estimators in the box, and the names that tests give.
fn forbidden() -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut words = Vec::new();
    for part in ["collectors", "processors"] {
        for entry in std::fs::read_dir(root.join(part).join("src")).unwrap() {
            words.push(entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned());
        }
    }
    // Names of one word mean other things, too.
    words.retain(|word| word.contains('_'));
    assert!(words.iter().any(|word| word == "capability_config"), "{words:?}");
    words.extend(["run_log", "machine_facts", "free_share", "cpu", "cgroup"].map(str::to_owned));
    words
}

/// Every image has one answer, the scheduler counts every image once, and for a node that has an answer to it.
#[track_caller]
fn check(cluster: &Cluster, run: &Run, images: &[String]) {
    let merged = merge_folder(&cluster.out(), &run.job).unwrap();
    assert_eq!(merged.missing(images.iter().map(String::as_str)), Vec::<&str>::new());
    assert_eq!((merged.results.len(), merged.conflicts), (images.len(), 0));
    let counted: Vec<&String> = run.nodes.iter().flat_map(|node| &node.images).collect();
    assert_eq!(counted.len(), images.len());
    assert_eq!(counted.into_iter().collect::<BTreeSet<_>>().len(), images.len());
    for node in &run.nodes {
        let told = node.images.iter().filter(|image| merged.results[*image].node != node.name).count() as u64;
        assert!(told <= merged.duplicates, "{} did not do {told} of what counts for it", node.name);
    }
    cluster.nothing_is_left_of(&run.job);
}

#[test]
fn three_jobs_by_three_estimates_that_are_swapped_under_the_scheduler() {
    let cluster = Cluster::start(&["n1", "n2", "n3", "n4"]);
    let runtime = runtime();
    let images = images(160);
    cluster.distribute(&images);
    let rates = json!({ "n1": 40, "n2": 40, "n3": 20, "n4": 10 });
    for (name, known) in
        [("by_nothing", [1, 1, 1, 1]), ("by_rumour", [30, 40, 30, 20]), ("by_truth", [40, 40, 20, 10])]
    {
        for (node, capability) in ["n1", "n2", "n3", "n4"].into_iter().zip(known) {
            cluster.write(name, node, &json!({ "value": capability, "spread": 1.5, "samples": 9 }));
        }
    }
    let mut runs = Vec::new();
    for (job, estimate) in [("swap_a", "by_nothing"), ("swap_b", "by_rumour"), ("swap_c", "by_truth")] {
        cluster.bind("node_capability", estimate);
        // The scheduler cannot see from here on which estimate it is.
        let job_plan = job_plan(&cluster, &runtime, PolicyKind::Static);
        let mut agents = AgentDispatcher::new(cluster.client(), format!("{job}-1"));
        let job = cluster.job(job, &rates);
        let options = options(job.names.job());
        let done = runtime.block_on(run(&job, &job_plan, &mut agents, &options, pending(), |_| {})).unwrap();
        check(&cluster, &done, &images);
        assert_eq!((done.duplicates, done.events.len()), (0, 0), "{:?}", done.events);
        runs.push(done);
    }
    let targets: Vec<Vec<u64>> =
        runs.iter().map(|run| run.nodes.iter().map(|node| node.target).collect()).collect();
    assert_eq!(targets, [vec![40, 40, 40, 40], vec![40, 53, 40, 27], vec![58, 58, 29, 15]]);
    assert!(runs.is_sorted_by_key(|run| run.revision), "each was planned by newer facts");
    let over: Vec<f64> = runs.iter().map(|run| run.over_ideal().unwrap()).collect();
    assert!(over[0] > over[1] && over[1] > over[2], "{over:?}\n{}", report::text(&runs));
    assert!(report::page(&runs).contains("(c) swap_c"));
}

#[test]
fn a_killed_worker_and_a_killed_agent_cost_no_image_and_none_counts_twice() {
    let mut cluster = Cluster::start(&["n1", "n2", "n3"]);
    let runtime = runtime();
    let images = images(240);
    cluster.distribute(&images);
    for node in ["n1", "n2", "n3"] {
        cluster.write("node_capability", node, &json!(20));
    }
    let job_plan = job_plan(&cluster, &runtime, PolicyKind::Dynamic);
    let job = cluster.job("killed", &json!({ "n1": 20, "n2": 20, "n3": 20 }));
    let mut agents = AgentDispatcher::new(cluster.client(), "killed-1".to_owned());
    let killed = Cell::new(0);
    let mut victim = cluster.agents.remove(2).1;
    let look = |now: &RunProgress| {
        if killed.get() == 0 && now.done > 40 {
            killed.set(1);
            processes::kill9(cluster.worker_of("n1"));
        } else if killed.get() == 1 && now.done > 80 {
            killed.set(2);
            victim.kill9();
        }
    };
    let options = options("killed");
    let done = runtime.block_on(run(&job, &job_plan, &mut agents, &options, pending(), look)).unwrap();
    assert_eq!(killed.get(), 2);
    check(&cluster, &done, &images);
    let lost =
        |node: &str| done.events.iter().any(|event| event.kind == RunEventKind::Lost && event.node == node);
    assert!(lost("n1") && lost("n3"), "{:?}", done.events);
}

#[test]
fn workers_of_different_groups_have_different_parameters() {
    let cluster = Cluster::start(&["n1", "n2"]);
    let runtime = runtime();
    let images = images(60);
    cluster.distribute(&images);
    for (node, capability) in [("n1", 10), ("n2", 50)] {
        cluster.write("node_capability", node, &json!(capability));
    }
    let job_plan = job_plan(&cluster, &runtime, PolicyKind::Static);
    let mut job = cluster.job("groups", &json!({}));
    let group = |node: &str, suffix: Option<&str>, rate: u32| Group {
        suffix: suffix.map(str::to_owned),
        nodes: format!("who={node}").parse().unwrap(),
        params: [("rates".to_owned(), json!({ node: rate }).to_string().into())].into(),
    };
    job.groups = vec![group("n1", None, 10), group("n2", Some("fast"), 50)];
    let mut agents = AgentDispatcher::new(cluster.client(), "groups-1".to_owned());
    let options = options("groups");
    let done = runtime.block_on(run(&job, &job_plan, &mut agents, &options, pending(), |_| {})).unwrap();
    check(&cluster, &done, &images);
    let did: Vec<usize> = done.nodes.iter().map(|node| node.images.len()).collect();
    assert_eq!(did, [10, 50]);
    // Each would take five times as long at the other's speed.
    assert!(done.over_ideal().unwrap() < 2.5, "{}", report::text(&[done]));
}

#[test]
fn a_cancelled_job_leaves_nothing() {
    let cluster = Cluster::start(&["n1"]);
    let runtime = runtime();
    cluster.distribute(&images(400));
    cluster.write("node_capability", "n1", &json!(10));
    let job_plan = job_plan(&cluster, &runtime, PolicyKind::Static);
    let job = cluster.job("cancelled", &json!({ "n1": 10 }));
    let mut agents = AgentDispatcher::new(cluster.client(), "cancelled-1".to_owned());
    let (tell, cancelled) = tokio::sync::oneshot::channel::<()>();
    let tell = Cell::new(Some(tell));
    let look = |now: &RunProgress| {
        if now.done > 0 {
            tell.take();
        }
    };
    let options = options("cancelled");
    let ended = run(&job, &job_plan, &mut agents, &options, async { drop(cancelled.await) }, look);
    assert!(matches!(runtime.block_on(ended), Err(Error::Cancelled)));
    cluster.nothing_is_left_of("cancelled");
}

#[test]
fn a_registration_of_another_owner_is_left_alone() {
    let cluster = Cluster::start(&["n1"]);
    let runtime = runtime();
    cluster.distribute(&images(2));
    cluster.write("node_capability", "n1", &json!(1));
    let job_plan = job_plan(&cluster, &runtime, PolicyKind::Static);
    let body = json!({ "dataName": "taken.work", "cmd": "true", "max-Time": 60 });
    cluster.http.send_json("POST", "/api/registry", &body).expect_status(201);
    let job = cluster.job("taken", &json!({ "n1": 1 }));
    let mut agents = AgentDispatcher::new(cluster.client(), "taken-1".to_owned());
    let ended = runtime.block_on(run(&job, &job_plan, &mut agents, &options("taken"), pending(), |_| {}));
    let error = ended.unwrap_err().to_string();
    assert!(error.starts_with("`taken.work` is registered already"), "{error}");
    cluster.http.get("/api/registry/taken.work").expect_status(200);
}

#[test]
fn a_worker_that_may_not_run_fails_the_job_with_its_name() {
    let cluster = Cluster::start(&["n1"]);
    let runtime = runtime();
    cluster.distribute(&images(2));
    cluster.write("node_capability", "n1", &json!(1));
    let job_plan = job_plan(&cluster, &runtime, PolicyKind::Static);
    let mut job = cluster.job("refused", &json!({ "n1": 1 }));
    job.command = estimand_api::command::Command::line("/sbin/no-such-worker").unwrap();
    let mut agents = AgentDispatcher::new(cluster.client(), "refused-1".to_owned());
    let options = Options { last_patience: 1.0, ..options("refused") };
    let ended = runtime.block_on(run(&job, &job_plan, &mut agents, &options, pending(), |_| {}));
    let error = ended.unwrap_err().to_string();
    assert!(error.contains("no-such-worker"), "{error}");
    cluster.nothing_is_left_of("refused");
}
