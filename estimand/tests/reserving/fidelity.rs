//! An hour of demand, simulated and run for real: the same prices and starts, and processes on emulated nodes that have what the
//! simulation said.
//!
//! Half a minute of the simulation is a second here. Each process notes when it begins and when it is told to end, by its own
//! clock. Each node is a class of its own, since a simulation has one pool, and a real unit stays on its node.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use estimand_api::promise::end_grace;
use estimand_reservations::predict::Nothing;
use estimand_reservations::simulation::{Grant, Setup, replay};
use estimand_reservations::{Job, Money, Rate, Terms};
use estimand_testkit::process;
use estimand_testkit::wait::{self, PATIENCE};
use serde_json::json;

use crate::plane::{Plane, credits, seconds};

const NODES: usize = 4;
/// Of each node.
const UNITS: u64 = 4;
/// In slots.
const HOUR: u64 = 120;
const JOBS: usize = 64;
/// Of a unit for a slot, in microcredits: as `--price units=360` says it.
const FLOOR: u64 = 100_000;
const HORIZON: u64 = 3_600;
/// A request is made so long before its earliest start.
const AHEAD: f64 = 2.0;
/// The simulation and the processes differ by at most this part, on a machine with much else to do: there a process begins late.
/// On a quiet one it is far less; the test prints it.
const MOST: f64 = 0.08;

/// Notes its time when it begins and when it is told to end, which is a tenth of its time before its promise is over.
const WORK: &str =
    "echo b $(date +%s.%N) >> $0; trap 'echo e $(date +%s.%N) >> $0; exit 0' TERM; sleep 3600 & wait";

/// Jobs in the order of their arrival, each with the node that it is for.
fn demand() -> Vec<(usize, Job)> {
    let mut rng = fastrand::Rng::with_seed(7);
    let mut jobs: Vec<(usize, Job)> = (0..JOBS)
        .map(|number| {
            let (arrival, width, length) = (rng.u64(0..HOUR), rng.u64(1..=UNITS), rng.u64(8..=32));
            let deadline = arrival + length + rng.u64(0..=length);
            // About one in four is worth less than the price.
            let value = Money::microcredits(rng.u64(FLOOR / 2..FLOOR * 5 / 2) * width * length);
            (number % NODES, Job { arrival, from: arrival, width, length, deadline, value })
        })
        .collect();
    jobs.sort_by_key(|(_, job)| job.arrival);
    jobs
}

/// The grant of each job, and the slots of units that all have.
fn simulate(jobs: &[(usize, Job)]) -> (Vec<Option<Grant>>, u64) {
    let floor = Rate::microcredits(FLOOR);
    let ceiling = Rate::microcredits(1_000 * FLOOR);
    let terms = Terms { capacity: UNITS, floor, ceiling };
    let (mut grants, mut allocated) = (vec![None; jobs.len()], 0);
    for node in 0..NODES {
        let (places, own): (Vec<usize>, Vec<Job>) = jobs
            .iter()
            .enumerate()
            .filter(|(_, (of, _))| *of == node)
            .map(|(place, (_, job))| (place, *job))
            .unzip();
        let setup = Setup { horizon: HORIZON, terms, predictor: Arc::new(Nothing::new(&terms)) };
        let outcome = replay(&setup, &own).unwrap();
        allocated += outcome.used.iter().sum::<u64>();
        places.into_iter().zip(outcome.grants).for_each(|(place, grant)| grants[place] = grant);
    }
    (grants, allocated)
}

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64()
}

/// The seconds that all processes had, by what they noted.
fn measured(runs: &Path) -> (usize, f64) {
    let text = fs::read_to_string(runs).unwrap_or_default();
    let of = |kind: &str| -> Vec<f64> {
        text.lines().filter_map(|line| line.strip_prefix(kind)?.trim().parse().ok()).collect()
    };
    let (begun, ended) = (of("b"), of("e"));
    assert_eq!(begun.len(), ended.len(), "each process notes both");
    (begun.len(), ended.iter().sum::<f64>() - begun.iter().sum::<f64>())
}

#[test]
fn an_hour_that_is_simulated_is_the_hour_that_runs() {
    let jobs = demand();
    let (grants, allocated) = simulate(&jobs);

    let plane = Plane::selling(&["--price", "units=360"]);
    let folder = tempfile::tempdir().unwrap();
    let class = |node: usize| format!("emulated{node}");
    let agents: Vec<process::Estimand> = (0..NODES)
        .map(|node| {
            let (name, label, class) =
                (class(node), format!("units={UNITS}"), format!("class={}", class(node)));
            let args = [
                "agent",
                "--server",
                plane.services.base_url(),
                "--node",
                &name,
                "--allow-all",
                "--allow-users-as-agent",
            ];
            let labels = ["--label", &label, "--label", &class];
            process::estimand()
                .args(args)
                .args(labels)
                .data_dir(folder.path().join(&name))
                .without_http()
                .start()
        })
        .collect();
    plane.grant("ada", "1000000");
    for node in 0..NODES {
        wait::until_ok(PATIENCE, "each node to be for sale", || {
            let path = format!(
                "/api/reservations/prices?resources=units=1&width={UNITS}&class={}&duration=1s&by=1m",
                class(node)
            );
            let prices = plane.http.get(&path);
            if prices.status == 200 { Ok(()) } else { Err(prices) }
        });
    }

    let runs = folder.path().join("runs");
    let start = now().ceil() as u64 + 4;
    let mut made = Vec::new();
    for (node, job) in &jobs {
        let asked_at = (start + job.arrival) as f64 - AHEAD;
        wait::pass(Duration::from_secs_f64((asked_at - now()).max(0.0)));
        let instant =
            |tick: u64| chrono::DateTime::from_timestamp((start + tick) as i64, 0).unwrap().to_rfc3339();
        let command = json!(["/bin/sh", "-c", WORK, runs]);
        let asked = json!({ "resources": { "units": 1 }, "class": class(*node), "width": job.width, "duration": job.length, "user": "ada",
            "from": instant(job.arrival), "by": instant(job.deadline), "value": job.value.to_string(),
            "task": { "command": command } });
        let answer = plane.reserve(&asked);
        made.push(match answer.status {
            201 => Some(answer.json()),
            _ => {
                answer.expect_problem(409);
                None
            }
        });
    }

    let (mut promised, mut units) = (0, 0);
    // The time that processes had to end in.
    let mut grace = 0.0;
    for ((_, job), (made, grant)) in jobs.iter().zip(made.iter().zip(&grants)) {
        let got = made.as_ref().map(|made| (seconds(&made["start"]) - start, credits(&made["price"])));
        let expected = grant.map(|grant| (grant.start, grant.cost.as_microcredits()));
        assert_eq!(got, expected, "{job:?}");
        let Some(made) = made else { continue };
        let over = plane.wait_state(made["id"].as_str().unwrap(), "OVER");
        // A busy machine begins some of them late, which is told and measured below.
        promised += job.width * over["guarantee"]["promisedSeconds"].as_u64().unwrap();
        units += job.width;
        grace += job.width as f64 * end_grace(Duration::from_secs(job.length)).as_secs_f64();
    }
    assert_eq!(promised, allocated);
    let (processes, had) = wait::until_ok(PATIENCE, "all processes to have noted their end", || {
        let text = fs::read_to_string(&runs).unwrap_or_default();
        let ends = text.lines().filter(|line| line.starts_with('e')).count() as u64;
        if ends == units { Ok(measured(&runs)) } else { Err(format!("{ends} of {units} ended")) }
    });
    let had = had + grace;
    let difference = (had - allocated as f64) / allocated as f64;
    println!(
        "{} of {} jobs accepted, {processes} processes on {NODES} nodes: simulated, promised and kept {allocated} slots of units, had \
         by processes {had:.2} ({:+.2} %)",
        grants.iter().flatten().count(),
        jobs.len(),
        100.0 * difference,
    );
    assert!(difference.abs() < MOST, "{difference}");
    drop(agents);
}
