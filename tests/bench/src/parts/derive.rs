//! Values that an agent computes from others: how many changes it keeps up with, and how soon a result can be read.
//!
//! One agent evaluates one expression for a thousand and for ten thousand nodes that exist by name only; their values
//! come from here. A result counts when it is read and is that of the last value, so nothing that was left out
//! passes for fast. How often something was evaluated is taken from what the data service stored: every result differs
//! from the one before it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use estimand_testkit::http::Http;
use fastrand::Rng;
use serde_json::{Value, json};

use crate::bench::Bench;
use crate::contest::Spread;
use crate::cores::Cores;
use crate::histogram::Histogram;
use crate::inputs::{Inputs, ResultWatch, node_of, until_all, until_one};
use crate::load::Load;
use crate::plane::{Agent, Plane};
use crate::report::rounded;
use crate::served::{address_of, figure};

const NODES: [usize; 2] = [1_000, 10_000];
const BATCH: usize = 1_000;
/// Samples of how soon a result is readable.
const SAMPLES: usize = 1_000;
/// The other changes meanwhile.
const BACKGROUND_PER_SECOND: usize = 1_000;
const BACKGROUND_EVERY: Duration = Duration::from_millis(10);
/// Their values differ from those that are waited for.
const OTHERS_FROM: usize = 1_000_000_000;
/// So long that the time alone causes no evaluation during a run.
const INTERVAL_S: u64 = 3_600;
const INPUT: &str = "bench_input";

pub fn measure(bench: &mut Bench) -> anyhow::Result<()> {
    for nodes in NODES {
        let shown = rounded(nodes as f64);
        bench.report.part_alone(&format!("one expression, for each of {shown} nodes"));
        let mut rig = Rig::start(bench, &format!("derive-{nodes}"), nodes)?;
        let double = |inputs: &Inputs, node: usize| 2.0 * inputs.of(node);
        rig.register("bench_double", "2 * bench_input", &[INPUT], double)?;
        throughput(bench, &mut rig, "bench_double", double)?;
        for background in [false, true] {
            delay(bench, &mut rig, "bench_double", double, background)?;
        }
        told_delay(bench, &mut rig, "bench_double", double)?;
    }
    chain(bench)?;
    share(bench)
}

/// Three expressions, each of which reads the one before it.
fn chain(bench: &mut Bench) -> anyhow::Result<()> {
    bench.report.part_alone("a chain of three expressions, for each of 1,000 nodes");
    let mut rig = Rig::start(bench, "derive-chain", NODES[0])?;
    rig.register("bench_first", "2 * bench_input", &[INPUT], |inputs, node| 2.0 * inputs.of(node))?;
    let second = |inputs: &Inputs, node: usize| 2.0 * inputs.of(node) + 1.0;
    rig.register("bench_second", "bench_first + 1", &["bench_first"], second)?;
    let third = |inputs: &Inputs, node: usize| 3.0 * inputs.of(node) + 1.0;
    rig.register("bench_third", "bench_second + bench_input", &["bench_second", INPUT], third)?;
    throughput(bench, &mut rig, "bench_third", third)?;
    delay(bench, &mut rig, "bench_third", third, false)
}

/// An expression that reads all nodes' values, so that each change concerns all results.
fn share(bench: &mut Bench) -> anyhow::Result<()> {
    bench.report.part_alone("each of 1,000 nodes' share of the total");
    let mut rig = Rig::start(bench, "derive-share", NODES[0])?;
    let share = |inputs: &Inputs, node: usize| inputs.of(node) / inputs.total();
    rig.register("bench_share", "bench_input / total(bench_input)", &[INPUT], share)?;
    throughput(bench, &mut rig, "bench_share", share)?;
    bench.report.part_alone("  the same, one node changes after the other");
    rig.inputs.in_batches_of(1);
    throughput(bench, &mut rig, "bench_share", share)?;
    delay(bench, &mut rig, "bench_share", share, false)
}

/// An agent that computes, the services, and the values.
struct Rig {
    plane: Plane,
    agent: Agent,
    cores: Cores,
    http: Http,
    inputs: Inputs,
}

impl Rig {
    /// Every node has a value, and nothing is computed from it yet.
    fn start(bench: &Bench, folder: &str, nodes: usize) -> anyhow::Result<Self> {
        let plane = Plane::start(bench.cores, &bench.place.path(folder))?;
        let agent = plane.agent("bench", &[])?;
        let http = plane.http();
        let mut inputs = Inputs::new(INPUT, nodes, BATCH);
        (0..nodes / BATCH).try_for_each(|_| inputs.write_batch(&http))?;
        Ok(Rig { plane, agent, cores: bench.cores, http, inputs })
    }

    /// Registers an expression, and waits until it has a result for every node.
    fn register(
        &self,
        name: &str,
        text: &str,
        inputs: &[&str],
        result: impl Fn(&Inputs, usize) -> f64,
    ) -> anyhow::Result<()> {
        self.plane.register([expression(name, text, inputs)])?;
        until_all(&self.http, name, &self.inputs, |node| result(&self.inputs, node))?;
        Ok(())
    }

    /// Changes that the data service has stored, of all writers.
    fn stored(&self) -> anyhow::Result<u64> {
        Ok(figure(&self.http, "estimand_changes_total")? as u64)
    }

    fn agent_cpu(&self) -> anyhow::Result<Duration> {
        let (own, launcher) = self.agent.cpu()?;
        Ok(own + launcher.total())
    }
}

fn expression(name: &str, text: &str, inputs: &[&str]) -> Value {
    json!({
        "dataName": name, "mode": "expr", "cmd": text, "inputs": inputs, "replicas": 1, "max-Time": INTERVAL_S,
    })
}

/// The result of one round of writing, by the second until the last result was readable unless it says otherwise.
struct Round {
    /// Until the last of them was acknowledged.
    written: f64,
    changes: f64,
    results: f64,
    settling_ms: f64,
    /// Cores.
    agent: f64,
    agent_us_per_result: f64,
}

/// Values as fast as they are acknowledged, for a while; then the last results are waited for.
fn throughput(
    bench: &mut Bench,
    rig: &mut Rig,
    name: &str,
    result: impl Fn(&Inputs, usize) -> f64 + Sync,
) -> anyhow::Result<()> {
    let (cores, plan) = (rig.cores, bench.plan);
    let mut load = Load::connect(address_of(&rig.plane.services)?, 1)?;
    let mut rounds = Vec::new();
    for number in 0..=plan.rounds {
        let (stored, cpu, before) = (rig.stored()?, rig.agent_cpu()?, rig.inputs.written());
        let began = Instant::now();
        let acknowledged = cores.on_load_core(|| {
            load.drive(&mut rig.inputs, plan.time)?;
            Ok(Instant::now())
        })?;
        let inputs = &rig.inputs;
        // The expected result is worked out once: there may be a sum in it.
        let expected: Vec<f64> = (0..inputs.nodes()).map(|node| result(inputs, node)).collect();
        let http = &rig.http;
        let readable = cores
            .on_load_core(|| until_all(http, name, inputs, |node| expected[node]))
            .with_context(|| format!("the agent says:\n{}", rig.agent.process.stderr_tail()))?;
        let (elapsed, settling) =
            ((readable - began).as_secs_f64(), readable.saturating_duration_since(acknowledged));
        let cpu = (rig.agent_cpu()? - cpu).as_secs_f64();
        let changes = inputs.written() - before;
        let results = (rig.stored()? - stored).checked_sub(changes).context("not all inputs were stored")?;
        if number > 0 {
            rounds.push(Round {
                written: changes as f64 / (acknowledged - began).as_secs_f64(),
                changes: changes as f64 / elapsed,
                results: results as f64 / elapsed,
                settling_ms: settling.as_secs_f64() * 1e3,
                agent: cpu / elapsed,
                agent_us_per_result: cpu * 1e6 / results as f64,
            });
        }
    }
    let report = &mut bench.report;
    let mut row = |what: &str, unit, of: fn(&Round) -> f64| {
        report.spread(what, Spread::of(rounds.iter().map(of)), unit);
    };
    row("changes that were acknowledged", "/s", |round| round.written);
    row("  until the last result was readable", "/s", |round| round.changes);
    row("results", "/s", |round| round.results);
    row("from the last acknowledgement to the last result", "ms", |round| round.settling_ms);
    row("the agent's processor time", "cores", |round| round.agent);
    row("  for each result", "µs", |round| round.agent_us_per_result);
    Ok(())
}

/// From a change of one node's value until its result is readable, one after the other.
fn delay(
    bench: &mut Bench,
    rig: &mut Rig,
    name: &str,
    result: impl Fn(&Inputs, usize) -> f64 + Sync,
    background: bool,
) -> anyhow::Result<()> {
    let (mut acknowledged, mut readable) = (Histogram::default(), Histogram::default());
    let mut rng = Rng::with_seed(7);
    let (cores, plane, inputs, http) = (rig.cores, &rig.plane, &mut rig.inputs, &rig.http);
    let others = Others { nodes: inputs.nodes(), enough: AtomicBool::new(false) };
    let per_second = thread::scope(|scope| -> anyhow::Result<Option<f64>> {
        let writer = background.then(|| scope.spawn(|| cores.on_load_core(|| others.write(&plane.http()))));
        let measured = cores.on_load_core(|| {
            for _ in 0..SAMPLES {
                // The others have the even ones.
                let node = rng.usize(0..inputs.nodes() / 2) * 2 + 1;
                let began = Instant::now();
                inputs.write_one(http, node)?;
                acknowledged.record(began.elapsed());
                until_one(http, name, node, result(inputs, node))?;
                readable.record(began.elapsed());
            }
            Ok(())
        });
        others.enough.store(true, Ordering::Relaxed);
        let per_second =
            writer.map(|writer| writer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        measured.and(per_second.transpose())
    })?;
    let beside = per_second.map(|rate| format!(", beside {}/s", rounded(rate))).unwrap_or_default();
    let report = &mut bench.report;
    report.timing(&format!("from a change to its result{beside}"), &readable);
    report.timing("  of which until it is acknowledged", &acknowledged);
    Ok(())
}

/// From a change of one node's value until a watch tells its result, one after the other; and for comparison how long the
/// same connection takes for the least there is, a read of one value.
fn told_delay(
    bench: &mut Bench,
    rig: &mut Rig,
    name: &str,
    result: impl Fn(&Inputs, usize) -> f64 + Sync,
) -> anyhow::Result<()> {
    let (mut told, mut round_trip) = (Histogram::default(), Histogram::default());
    let mut rng = Rng::with_seed(8);
    let (cores, inputs, http) = (rig.cores, &mut rig.inputs, &rig.http);
    cores.on_load_core(|| -> anyhow::Result<()> {
        let mut watch = ResultWatch::open(http, name)?;
        for _ in 0..SAMPLES {
            let node = rng.usize(0..inputs.nodes());
            let path = format!("/api/data/{INPUT}/{}", node_of(node));
            let began = Instant::now();
            let answer = http.get(&path);
            round_trip.record(began.elapsed());
            ensure!(answer.status == 200, "GET {path}: {answer}");
            let began = Instant::now();
            inputs.write_one(http, node)?;
            watch.until(node, result(inputs, node))?;
            told.record(began.elapsed());
        }
        Ok(())
    })?;
    bench.report.timing("from a change to its result on a watch", &told);
    bench.report.timing("  a read of one value meanwhile", &round_trip);
    Ok(())
}

/// A writer that changes the even nodes' values at a steady pace.
struct Others {
    nodes: usize,
    enough: AtomicBool,
}

impl Others {
    /// Writes until that is enough; returns how many values a second that were.
    fn write(&self, http: &Http) -> anyhow::Result<f64> {
        let rows = BACKGROUND_PER_SECOND * BACKGROUND_EVERY.as_millis() as usize / 1_000;
        let (began, mut batches) = (Instant::now(), 0);
        while !self.enough.load(Ordering::Relaxed) {
            let due = began + BACKGROUND_EVERY * batches;
            thread::sleep(due.saturating_duration_since(Instant::now()));
            let first = batches as usize * rows;
            let write = |row: usize| {
                let node = node_of((first + row) * 2 % self.nodes);
                json!({ "dataName": INPUT, "nodeName": node, "dataValue": OTHERS_FROM + first + row })
            };
            let batch: Value = (0..rows).map(write).collect();
            let answer = http.send_json("POST", "/api/data/batch", &batch);
            ensure!(answer.status == 200, "writing beside: {answer}");
            batches += 1;
        }
        Ok(batches as f64 * rows as f64 / began.elapsed().as_secs_f64())
    }
}
