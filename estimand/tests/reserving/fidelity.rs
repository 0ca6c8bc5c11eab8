//! An hour of demand, simulated and run for real: the same prices and starts, and processes on emulated nodes that have what the
//! simulation said.
//!
//! Half a minute of the simulation is a second here, or with `ESTIMAND_LONG` five. Each process notes when it begins and when it is told
//! to end, by its own clock. Each node is a class of its own, since a simulation has one pool, and a real unit stays on its node.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use estimand_api::task_stop::end_grace;
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
/// Of a unit for a slot, in microcredits.
const FLOOR: u64 = 100_000;
const HORIZON: u64 = 3_600;
/// A request is made so long before its earliest start, in seconds: a busy machine is late with it.
const AHEAD: u64 = 20;
/// The simulation and the processes differ by at most this part where a slot is long. Where it is a second, a process that begins late on a
/// busy machine misses more of it, so there it is only told, and no process has more than it was promised.
const MOST: f64 = 0.01;

/// The seconds of a slot.
fn slot() -> u64 {
    if std::env::var_os("ESTIMAND_LONG").is_some() { 5 } else { 1 }
}

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

/// The units that are taken in each slot of each node.
type Used = [Vec<u64>; NODES];

/// The grant of each job, and the units that all have.
fn simulate(jobs: &[(usize, Job)]) -> (Vec<Option<Grant>>, Used) {
    let floor = Rate::microcredits(FLOOR);
    let ceiling = Rate::microcredits(1_000 * FLOOR);
    let terms = Terms { capacity: UNITS, floor, ceiling };
    let mut grants = vec![None; jobs.len()];
    let mut used = Used::default();
    for (node, used) in used.iter_mut().enumerate() {
        let (places, own): (Vec<usize>, Vec<Job>) = jobs
            .iter()
            .enumerate()
            .filter(|(_, (of, _))| *of == node)
            .map(|(place, (_, job))| (place, *job))
            .unzip();
        let setup = Setup { horizon: HORIZON, terms, predictor: Arc::new(Nothing::new(&terms)) };
        let outcome = replay(&setup, &own).unwrap();
        // It begins with the first arrival.
        *used = vec![0; own.first().map_or(0, |job| job.arrival as usize)];
        used.extend(outcome.used);
        places.into_iter().zip(outcome.grants).for_each(|(place, grant)| grants[place] = grant);
    }
    (grants, used)
}

/// Without the empty slots at the end.
fn trimmed(used: &Used) -> Used {
    let trim = |slots: &Vec<u64>| {
        let last = slots.iter().rposition(|units| *units > 0);
        slots[..last.map_or(0, |last| last + 1)].to_vec()
    };
    [0, 1, 2, 3].map(|node| trim(&used[node]))
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
    let slot = slot();
    let (grants, simulated) = simulate(&jobs);

    let price = format!("units={}", 360.0 / slot as f64);
    let (length, horizon) = (format!("{slot}s"), format!("{}s", HORIZON * slot));
    let plane = Plane::selling(&["--price", &price, "--price-slot", &length, "--price-horizon", &horizon]);
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
                "/api/reservations/prices?resources=units=1&width={UNITS}&class={}&duration={slot}s&by=10m",
                class(node)
            );
            let prices = plane.http.get(&path);
            if prices.status == 200 { Ok(()) } else { Err(prices) }
        });
    }

    let runs = folder.path().join("runs");
    let start = (now().ceil() as u64 + AHEAD + 2).next_multiple_of(slot);
    let second = |tick: u64| start + tick * slot;
    let mut made = Vec::new();
    for (node, job) in &jobs {
        let asked_at = (second(job.arrival) - AHEAD) as f64;
        wait::pass(Duration::from_secs_f64((asked_at - now()).max(0.0)));
        let instant =
            |tick: u64| chrono::DateTime::from_timestamp(second(tick) as i64, 0).unwrap().to_rfc3339();
        let command = json!(["/bin/sh", "-c", WORK, runs]);
        let asked = json!({ "resources": { "units": 1 }, "class": class(*node), "width": job.width, "duration": job.length * slot, "user": "ada",
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

    let mut promised = Used::default();
    let mut units = 0;
    // The time that processes had to end in.
    let mut grace = 0.0;
    for ((node, job), (made, grant)) in jobs.iter().zip(made.iter().zip(&grants)) {
        let got = made.as_ref().map(|made| ((seconds(&made["start"]) - start), credits(&made["price"])));
        let expected = grant.map(|grant| (grant.start * slot, grant.cost.as_microcredits()));
        assert_eq!(got, expected, "{job:?}");
        let Some(made) = made else { continue };
        let over = plane.wait_state(made["id"].as_str().unwrap(), "OVER");
        // A busy machine begins some of them late, which is told and measured below.
        let guarantee = over["guarantee"]["promisedSeconds"].as_u64().unwrap();
        assert_eq!(guarantee, job.length * slot);
        let first = ((seconds(&over["start"]) - start) / slot) as usize;
        let last = ((seconds(&over["end"]) - start) / slot) as usize;
        let used = &mut promised[*node];
        used.resize(used.len().max(last), 0);
        used[first..last].iter_mut().for_each(|slot| *slot += over["width"].as_u64().unwrap());
        units += job.width;
        grace += job.width as f64 * end_grace(Duration::from_secs(job.length * slot)).as_secs_f64();
    }
    assert_eq!(
        trimmed(&promised),
        trimmed(&simulated),
        "each slot of each node has the units of the simulation"
    );
    let allocated = slot * promised.iter().flatten().sum::<u64>();
    let (processes, had) = wait::until_ok(PATIENCE, "all processes to have noted their end", || {
        let text = fs::read_to_string(&runs).unwrap_or_default();
        let ends = text.lines().filter(|line| line.starts_with('e')).count() as u64;
        if ends == units { Ok(measured(&runs)) } else { Err(format!("{ends} of {units} ended")) }
    });
    let had = had + grace;
    let difference = (had - allocated as f64) / allocated as f64;
    println!(
        "{} of {} jobs accepted, {processes} processes on {NODES} nodes: simulated, promised and kept {allocated} s of units, had \
         by processes {had:.2} s, of them {grace:.2} s to end in ({:+.2} %)",
        grants.iter().flatten().count(),
        jobs.len(),
        100.0 * difference,
    );
    assert!(difference < MOST, "more than was promised: {difference}");
    assert!(slot == 1 || difference > -MOST, "{difference}");
    drop(agents);
}
