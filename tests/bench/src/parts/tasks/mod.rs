//! Tasks: submissions, the way from one to its process, starts a second of an agent, and logs.
//!
//! One agent is on the core of what is measured, with all that it runs; the services have the load's core, as has who
//! submits and reads.

mod containers;
mod logs;
mod starts;
mod submissions;

use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, ensure};
use estimand_testkit::http::Http;
use serde_json::Value;

use crate::bench::Bench;

/// The longest wait for a task that should take a moment.
const PATIENCE: Duration = Duration::from_secs(300);
const LOOK_EVERY: Duration = Duration::from_millis(5);

pub fn measure(bench: &mut Bench) -> anyhow::Result<()> {
    submissions::measure(bench)?;
    starts::measure(bench)?;
    containers::measure(bench)?;
    logs::measure(bench)
}

/// Submits a task, and returns its id.
pub fn submit(http: &Http, document: &Value) -> anyhow::Result<String> {
    let answer = http.send_json("POST", "/api/tasks", document);
    ensure!(answer.status == 201, "submitting {document}: {answer}");
    let task = answer.json();
    Ok(task["id"].as_str().context("a task has an id")?.to_owned())
}

/// Waits until a task has succeeded, and returns it.
pub fn succeeded(http: &Http, id: &str) -> anyhow::Result<Value> {
    let began = Instant::now();
    loop {
        let answer = http.get(&format!("/api/tasks/{id}?waitMs=10000"));
        ensure!(answer.status == 200, "{answer}");
        let task = answer.json();
        if task.get("endedAt").is_some() {
            ensure!(task["state"] == "SUCCEEDED", "{task}");
            return Ok(task);
        }
        ensure!(began.elapsed() < PATIENCE, "{task}");
    }
}

/// Waits until no task waits or runs.
pub fn all_over(http: &Http) -> anyhow::Result<()> {
    let began = Instant::now();
    loop {
        let answer = http.get("/api/tasks?state=QUEUED,PLACED,ACCEPTED,PREPARING,RUNNING,LOST&limit=1");
        ensure!(answer.status == 200, "{answer}");
        if answer.json()["tasks"].as_array().is_some_and(Vec::is_empty) {
            return Ok(());
        }
        ensure!(began.elapsed() < PATIENCE, "tasks go on: {answer}");
        std::thread::sleep(LOOK_EVERY);
    }
}

/// The time since 1970, as `date +%s%N` prints it.
fn now() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

/// The clock that a program printed.
fn printed(text: &str) -> anyhow::Result<Duration> {
    Ok(Duration::from_nanos(text.trim().parse().with_context(|| format!("{text:?} is no clock"))?))
}
