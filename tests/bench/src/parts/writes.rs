//! Durable single writes: against a handler that only parses them, and against a commit a write.

use std::time::Duration;

use fastrand::Rng;

use super::reads::CONNECTIONS;
use crate::bench::Bench;
use crate::contest::{Sample, Side, contest};
use crate::keys::WriteOne;
use crate::raw::sqlite::RawSqlite;
use crate::served::{Bare, side};

const TARGET_OF_PARSING: f64 = 0.4;
const TARGET_OF_COMMITS: f64 = 6.0;
/// As long as the service's own answer.
const ANSWER: &[u8] = br#"{"outcome":"replaced","revision":1234567}"#;

pub fn measure(bench: &mut Bench) -> anyhow::Result<()> {
    let (cores, plan) = (bench.cores, bench.plan);
    let mut raw = RawSqlite::create(&bench.place.path("raw-writes.db"), bench.keys)?;
    let bare = Bare::start(ANSWER, true)?;
    let served = bench.filled()?;
    let requests = || WriteOne::new(served.keys, Rng::with_seed(5));
    let before = commits(served)?;
    let ours = side(cores, &served.process, CONNECTIONS, requests());
    let parsing = side(cores, &bare.process, CONNECTIONS, requests());
    let commit_a_write: Side<'_> =
        Box::new(|time: Duration| -> anyhow::Result<Sample> { raw.write(1, time) });
    let [ours, parsing, commit_a_write] = contest(plan, [ours, parsing, commit_a_write])?;
    let after = commits(served)?;
    let report = &mut bench.report;
    report.part("durable single writes, 64 connections, SQLite");
    report.ratio("writes/s", "a handler that only parses", Some(TARGET_OF_PARSING), &ours, &parsing);
    let against = "SQLite alone, one commit a write";
    report.ratio("writes/s", against, Some(TARGET_OF_COMMITS), &ours, &commit_a_write);
    report.figure("  writes a commit", (after.1 - before.1) / (after.0 - before.0), "");
    Ok(())
}

/// How many commits there were, and how many changes in them.
pub fn commits(served: &crate::served::BindingTarget) -> anyhow::Result<(f64, f64)> {
    Ok((served.figure("estimand_commits_total")?, served.figure("estimand_changes_total")?))
}
