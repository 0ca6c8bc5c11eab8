//! Batches: rows a second against SQLite alone with the same rows in transactions of the same size.

use std::time::Duration;

use super::writes::commits;
use crate::bench::Bench;
use crate::contest::{Sample, Side, contest};
use crate::keys::{BATCH_ROWS, WriteBatch};
use crate::raw::sqlite::RawSqlite;
use crate::served::{BATCH_CONNECTIONS, side};

const TARGET: f64 = 0.5;

pub fn measure(bench: &mut Bench) -> anyhow::Result<()> {
    let (cores, plan) = (bench.cores, bench.plan);
    let mut raw = RawSqlite::create(&bench.place.path("raw-batches.db"), bench.keys)?;
    let served = bench.filled()?;
    let before = commits(served)?;
    let mut batches = side(cores, &served.process, BATCH_CONNECTIONS, WriteBatch::new(served.keys));
    let ours: Side<'_> = Box::new(move |time| Ok(batches(time)?.times(BATCH_ROWS)));
    let alone: Side<'_> = Box::new(|time: Duration| -> anyhow::Result<Sample> {
        Ok(raw.write(BATCH_ROWS, time)?.times(BATCH_ROWS))
    });
    let [ours, alone] = contest(plan, [ours, alone])?;
    let after = commits(served)?;
    let report = &mut bench.report;
    report.part("batches of 1,000, 4 connections, SQLite");
    let against = "SQLite alone, 1,000 rows a transaction";
    report.ratio("rows/s", against, Some(TARGET), &ours, &alone);
    report.figure("  rows a commit", (after.1 - before.1) / (after.0 - before.0), "");
    Ok(())
}
