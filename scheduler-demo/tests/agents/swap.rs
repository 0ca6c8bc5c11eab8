//! Estimators as they ship, swapped under a scheduler that runs on and cannot know: three jobs of one process, and
//! nothing between them but a change of a binding.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use estimand_scheduler_demo::facts::{self, Names};
use estimand_scheduler_demo::job_plan::{JobPlan, Options};
use estimand_scheduler_demo::results::merge_folder;
use estimand_testkit::{TOKEN, TOKEN_VARIABLE, processes, wait};
use serde_json::{Value, json};

use crate::cluster::{Cluster, SOON, example};
use crate::recorder::Recorder;
use crate::{images, runtime};

const NODES: [&str; 4] = ["n1", "n2", "n3", "n4"];
const IMAGES: usize = 160;

/// The scheduler's process. Its only input are jobs.
struct Scheduler {
    process: Child,
    jobs: ChildStdin,
    outcomes: BufReader<ChildStdout>,
}

impl Scheduler {
    fn start(server: &str, params: &Value, worker: &str) -> Scheduler {
        let mut command = Command::new(example("scheduler"));
        command.args([server, &params.to_string(), worker]).env_clear().env(TOKEN_VARIABLE, TOKEN);
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (jobs, outcomes) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        Scheduler { process, jobs, outcomes: BufReader::new(outcomes) }
    }

    /// Runs a job and returns what is said of it.
    fn run(&mut self, job: &str) -> Value {
        writeln!(self.jobs, "{job} static").unwrap();
        let mut line = String::new();
        self.outcomes.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    /// Arguments and environment of the process, from `/proc`.
    fn started_with(&self) -> String {
        let read = |what: &str| fs::read_to_string(format!("/proc/{}/{what}", self.process.id())).unwrap();
        read("cmdline") + &read("environ")
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Registers what measures and what estimates. What is in a node and what is free of it are written here; how fast a
/// run was is read from the logs that the workers leave.
fn register_all(cluster: &Cluster) {
    let register = |name: &str, more: Value| {
        let mut body = json!({ "dataName": name, "cmd": name, "mode": "builtin", "max-Time": 0.5 });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        cluster.http.send_json("POST", "/api/registry", &body).expect_status(201);
    };
    for (node, (cores, free)) in NODES.into_iter().zip([(8, 1.0), (8, 0.5), (4, 0.25), (4, 0.25)]) {
        cluster.write("machine_facts", node, &json!({ "count": cores, "frequencyMhz": 2500 }));
        cluster.write("free_share", node, &json!({ "freeFraction": free }));
    }
    let params = json!({ "path": log_of(cluster, "{node}"), "pattern": r"avg_fps=(?<fps>[0-9.]+)" });
    register("run_log", json!({ "cmd": "log_tail", "params": params }));
    let of = |input: &str, role: &str| json!({ "kind": "processor", "inputs": [input], "params": { role: input } });
    register("capability_config", of("machine_facts", "cpu"));
    register("capability_cpu", of("free_share", "cpu"));
    register("capability_history", of("run_log", "run_log"));
}

fn log_of(cluster: &Cluster, node: &str) -> String {
    cluster.folder.path().join(format!("{node}.log")).display().to_string()
}

/// The speed of the last run in a node's log.
fn last_fps(cluster: &Cluster, node: &str) -> f64 {
    let log = fs::read_to_string(log_of(cluster, node)).unwrap();
    log.lines().last().unwrap().rsplit('=').next().unwrap().parse().unwrap()
}

#[track_caller]
fn until_estimated(cluster: &Cluster, estimator: &str, expected: impl Fn(&str) -> f64) {
    for node in NODES {
        let path = format!("/api/data/{estimator}/{node}");
        wait::until_ok(SOON, &format!("{estimator} of {node}"), || {
            let answer = cluster.http.get(&path);
            let is_so = answer.status == 200 && answer.json()["dataValue"]["value"] == expected(node);
            if is_so { Ok(()) } else { Err(answer.to_string()) }
        });
    }
}

/// The targets that follow from an estimator, read by its own name.
fn implied(cluster: &Cluster, estimator: &str) -> BTreeMap<String, u64> {
    let names = Names::new(None, None, Some(estimator)).unwrap();
    let facts = runtime().block_on(facts::read(&cluster.client(), &names)).unwrap();
    let job_plan = JobPlan::new(facts, Options::default()).unwrap();
    let nodes = job_plan.problem.nodes().iter().zip(&job_plan.plan.parts);
    nodes.map(|(node, part)| (node.name.clone(), part.target)).collect()
}

#[test]
fn shipped_estimators_are_swapped_under_a_scheduler_that_cannot_know() {
    let cluster = Cluster::start(&NODES);
    let images = images(IMAGES);
    cluster.distribute(&images);
    register_all(&cluster);
    cluster.bind("node_capability", "capability_config");
    until_estimated(&cluster, "capability_config", |node| if node < "n3" { 20.0 } else { 10.0 });

    let recorder = Recorder::to(cluster.services.base_url());
    let mut params = cluster.params(&json!({ "n1": 80, "n2": 80, "n3": 40, "n4": 20 }));
    params.insert("log".to_owned(), log_of(&cluster, "{node}").into());
    let mut scheduler =
        Scheduler::start(&recorder.url(), &json!(params), &cluster.worker.display().to_string());
    let (pid, started_with) = (scheduler.process.id(), scheduler.started_with());

    let jobs = ["swap_1", "swap_2", "swap_3"];
    let by_config = scheduler.run(jobs[0]);
    until_estimated(&cluster, "capability_cpu", |node| match node {
        "n1" => 1.0,
        "n2" => 0.5,
        _ => 0.25,
    });
    cluster.bind("node_capability", "capability_cpu");
    let by_load = scheduler.run(jobs[1]);
    until_estimated(&cluster, "capability_history", |node| last_fps(&cluster, node));
    let expected = implied(&cluster, "capability_history");
    cluster.bind("node_capability", "capability_history");
    let by_history = scheduler.run(jobs[2]);

    assert_eq!(by_config["targets"], json!({ "n1": 53, "n2": 53, "n3": 27, "n4": 27 }), "{by_config}");
    assert_eq!(by_load["targets"], json!({ "n1": 80, "n2": 40, "n3": 20, "n4": 20 }), "{by_load}");
    assert_eq!(by_history["targets"], json!(expected), "{by_history}");
    assert!(expected["n1"] > expected["n4"], "a log says what the node could do: {expected:?}");
    for (outcome, job) in [by_config, by_load, by_history].iter().zip(jobs) {
        assert_eq!((&outcome["job"], &outcome["duplicates"]), (&json!(job), &json!(0)), "{outcome}");
        let merged = merge_folder(&cluster.out(), job).unwrap();
        assert_eq!(merged.missing(images.iter().map(String::as_str)), Vec::<&str>::new());
        assert_eq!((merged.results.len(), merged.duplicates), (IMAGES, 0));
    }
    assert_eq!((scheduler.process.try_wait().unwrap(), scheduler.process.id()), (None, pid));
    assert_eq!(processes::descendants(pid).len(), 0, "a child could do its work for it");
    drop(scheduler);
    jobs.iter().for_each(|job| cluster.nothing_is_left_of(job));

    asks_for_names_of_data_only(&recorder.requests(), &jobs);
    for (what, text) in [("its start", started_with), ("what it said and was told", recorder.text())] {
        let words: BTreeSet<&str> = text.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
        let forbidden = crate::forbidden().into_iter().filter(|word| words.contains(word.as_str()));
        assert_eq!(forbidden.collect::<Vec<_>>(), Vec::<String>::new(), "in {what}");
    }
}

/// Nothing but one look at the three names for each job, and what is the job's own.
fn asks_for_names_of_data_only(requests: &[String], jobs: &[&str]) {
    const FACTS: &str = "GET /api/data?dataName=data_distribution%2Cdata_load%2Cnode_capability";
    const OWN: [&str; 11] = [
        "POST /api/registry",
        "GET /api/registry/JOB.work",
        "DELETE /api/registry/JOB.work",
        "GET /api/data/watch?dataName=JOB.work",
        "GET /api/data?dataName=JOB.work",
        "GET /api/data?dataName=JOB.work&dataNode=NODE",
        "GET /api/data?dataName=JOB.part",
        "DELETE /api/data?dataName=JOB.work",
        "DELETE /api/data?dataName=JOB.part",
        "POST /api/data/batch",
        "GET /api/mng/instances?dataName=JOB.work&dataNode=NODE",
    ];
    assert_eq!(requests.iter().filter(|request| *request == FACTS).count(), jobs.len(), "{requests:#?}");
    let plain = |request: &String| {
        let of_job = jobs.iter().fold(request.clone(), |text, job| text.replace(job, "JOB"));
        NODES.iter().fold(of_job, |text, node| text.replace(&format!("={node}"), "=NODE"))
    };
    let others: BTreeSet<String> = requests.iter().map(plain).filter(|request| request != FACTS).collect();
    let unknown: Vec<&String> = others.iter().filter(|request| !OWN.contains(&request.as_str())).collect();
    assert_eq!(unknown, Vec::<&String>::new());
}
