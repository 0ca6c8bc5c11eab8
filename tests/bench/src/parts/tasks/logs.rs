//! Lines and bytes of a log from a process to a reader, and how far one that follows it is behind.

use std::time::{Duration, Instant};

use anyhow::ensure;
use estimand_testkit::http::Http;
use serde_json::{Value, json};

use super::{PATIENCE, now, printed, submit, succeeded};
use crate::bench::Bench;
use crate::contest::Spread;
use crate::histogram::Histogram;
use crate::plane::Plane;

const LINES: u64 = 100_000;
/// Lines of so many bytes, together less than is kept on a node.
const LONG_LINES: u64 = 16_000;
const LONG_LINE: usize = 1_000;
const FOLLOWED: u64 = 500;
const MEBIBYTE: f64 = 1024.0 * 1024.0;

pub fn measure(bench: &mut Bench) -> anyhow::Result<()> {
    let cores = bench.cores;
    let plane = Plane::start(cores, &bench.place.path("task-logs"))?;
    let _agent = plane.agent("bench", &[])?;
    let http = plane.http();
    bench.report.part_alone("the log of a task, from its process until it can be read");
    let short = format!("exec seq 1 {LINES}");
    let long = format!("yes \"$(printf '%0{LONG_LINE}d' 7)\" | head -n {LONG_LINES}");
    let (mut lines, mut bytes) = (Vec::new(), Vec::new());
    for round in 0..=bench.plan.rounds {
        let (of_short, of_long) =
            cores.on_load_core(|| Ok((whole(&http, &short, LINES)?, whole(&http, &long, LONG_LINES)?)))?;
        // The first one waits for the node to be known.
        if round > 0 {
            lines.push(LINES as f64 / of_short.as_secs_f64());
            bytes.push(LONG_LINES as f64 * (LONG_LINE + 1) as f64 / MEBIBYTE / of_long.as_secs_f64());
        }
    }
    let behind = cores.on_load_core(|| follow(&http))?;
    let report = &mut bench.report;
    report.spread("short lines", Spread::of(lines), "lines/s");
    report.spread("lines of 1,000 bytes", Spread::of(bytes), "MiB/s");
    report.timing("from a line until one who follows has it", &behind);
    Ok(())
}

/// From a submission until so many lines can be read.
fn whole(http: &Http, script: &str, lines: u64) -> anyhow::Result<Duration> {
    let began = Instant::now();
    let id = submit(http, &json!({ "command": ["/bin/sh", "-c", script] }))?;
    let task = succeeded(http, &id)?;
    ensure!(task["lines"] == lines, "{lines} lines were written: {task}");
    Ok(began.elapsed())
}

/// Reads the log of a task that prints the clock now and then, as it comes.
fn follow(http: &Http) -> anyhow::Result<Histogram> {
    let script = format!("i=0; while [ $i -lt {FOLLOWED} ]; do date +%s%N; i=$((i+1)); sleep 0.01; done");
    let id = submit(http, &json!({ "command": ["/bin/sh", "-c", script] }))?;
    let (mut behind, mut from, began) = (Histogram::default(), json!(0), Instant::now());
    while behind.count() < FOLLOWED {
        let answer = http.get(&format!("/api/tasks/{id}/logs?from={from}&waitMs=10000"));
        ensure!(answer.status == 200 && began.elapsed() < PATIENCE, "{answer}");
        let (page, now) = (answer.json(), now());
        let lines = page["lines"].as_array().map(Vec::as_slice).unwrap_or_default();
        for line in lines {
            behind.record(now.saturating_sub(printed(line["text"].as_str().unwrap_or_default())?));
        }
        ensure!(!lines.is_empty() || page["over"] == Value::Bool(false), "{page}");
        from = page["next"].clone();
    }
    Ok(behind)
}
