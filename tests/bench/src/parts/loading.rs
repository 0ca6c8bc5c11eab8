//! The cost of 500,000 values: how fast they come in, what they take in memory and on disk, and how long a
//! killed service takes to be ready again with all of them.

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::bench::Bench;
use crate::contest::Spread;
use crate::keys::EachName;
use crate::load::Load;
use crate::report::rounded;
use crate::served::BindingTarget;

const RESTARTS: usize = 3;
const MEBIBYTE: f64 = 1024.0 * 1024.0;

/// Fills a new service and leaves it for the parts that follow.
pub fn measure(bench: &mut Bench) -> anyhow::Result<()> {
    bench.report.part(&format!("load: {} values, SQLite", rounded(bench.keys.count() as f64)));
    let mut served = bench.start_service()?;
    let empty = served.process.rss_bytes();
    let rows = served.fill()?;
    let report = &mut bench.report;
    report.figure("filling, in batches of 1,000 over 4 connections", rows, "rows/s");
    memory(bench, &served, "resident memory after filling", empty);
    let file = size_of(served.process.data_dir())?;
    let report = &mut bench.report;
    report.figure("database files on disk", file / MEBIBYTE, "MiB");
    report.figure("  the same", file / served.keys.count() as f64, "bytes/value");
    let restarts: Vec<f64> = (0..RESTARTS).map(|_| served.restart().as_secs_f64()).collect();
    let Spread { median, min, max } = Spread::of(restarts);
    let what = format!("from start to ready after SIGKILL ({min:.2} to {max:.2})");
    bench.report.figure(&what, median, "s");
    memory(bench, &served, "resident memory after the restart", empty);
    let mut load = Load::connect(served.address()?, 1)?;
    let mut requests = EachName(0..served.keys.names);
    bench.cores.on_load_core(|| load.drive(&mut requests, Duration::from_secs(60)))?;
    memory(bench, &served, "resident memory after all names were read once", empty);
    bench.served = Some(served);
    Ok(())
}

fn memory(bench: &mut Bench, served: &BindingTarget, what: &str, empty: u64) {
    let now = served.process.rss_bytes();
    bench.report.figure(what, now as f64 / MEBIBYTE, "MiB");
    let more = now.saturating_sub(empty) as f64 / served.keys.count() as f64;
    bench.report.figure("  beyond an empty service", more, "bytes/value");
}

fn size_of(folder: &Path) -> anyhow::Result<f64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        bytes += entry?.metadata()?.len();
    }
    Ok(bytes as f64)
}
