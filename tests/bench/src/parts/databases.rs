//! The service on PostgreSQL and on MariaDB, against the same server written to directly, a row a commit.
//!
//! Service and database server share one core. The values are fewer than elsewhere, so that filling two
//! servers does not take most of the time.

use std::sync::Arc;
use std::time::Duration;

use estimand_testkit::databases::{Kind, Server};
use fastrand::Rng;

use super::reads::CONNECTIONS;
use super::writes::commits;
use crate::bench::Bench;
use crate::contest::{Rounds, Sample, Side, contest};
use crate::keys::{BATCH_ROWS, Keys, Row, WriteBatch, WriteOne};
use crate::place;
use crate::raw::server::{RawServer, create};
use crate::report::rounded;
use crate::served::{BATCH_CONNECTIONS, BindingTarget, side};

const KEYS: Keys = Keys { names: 500, nodes: 100 };

pub fn measure(bench: &mut Bench) -> anyhow::Result<()> {
    // The service on SQLite has done its part.
    bench.served = None;
    bench.report.about(format!("the database servers keep their data on {}", place::of_servers()));
    for (kind, name) in [(Kind::Postgres, "PostgreSQL"), (Kind::Mariadb, "MariaDB")] {
        measure_one(bench, kind, name)?;
    }
    Ok(())
}

fn measure_one(bench: &mut Bench, kind: Kind, name: &str) -> anyhow::Result<()> {
    let server = Server::start_own(kind);
    let url = create(&server, KEYS);
    let served = BindingTarget::start(bench.cores, KEYS, None, Some(&server.fresh_url()))?;
    bench.report.part(&format!("{name}, {} values", rounded(KEYS.count() as f64)));
    let filled = served.fill()?;
    bench.report.figure("filling, in batches of 1,000 over 4 connections", filled, "rows/s");
    let rows: Arc<[Row]> = KEYS.some().into();
    let connect = |connections| RawServer::connect(kind, &url, connections, rows.clone());
    let (mut one, mut many) = (connect(1)?, connect(CONNECTIONS)?);

    let before = commits(&served)?;
    let requests = WriteOne::new(KEYS, Rng::with_seed(6));
    let ours = side(bench.cores, &served.process, CONNECTIONS, requests);
    let rounds = against_commits(bench, ours, &mut one, &mut many)?;
    let after = commits(&served)?;
    print(bench, "single writes/s, 64 connections", &rounds);
    bench.report.figure("  writes a commit", (after.1 - before.1) / (after.0 - before.0), "");

    let mut batches = side(bench.cores, &served.process, BATCH_CONNECTIONS, WriteBatch::new(KEYS));
    let ours: Side<'_> = Box::new(move |time| Ok(batches(time)?.times(BATCH_ROWS)));
    let rounds = against_commits(bench, ours, &mut one, &mut many)?;
    print(bench, "rows/s in batches of 1,000, 4 connections", &rounds);
    Ok(())
}

/// Ours, then a row a commit over one connection and over many.
fn against_commits(
    bench: &Bench,
    ours: Side<'_>,
    one: &mut RawServer,
    many: &mut RawServer,
) -> anyhow::Result<[Rounds; 3]> {
    let cores = bench.cores;
    let one: Side<'_> =
        Box::new(move |time: Duration| -> anyhow::Result<Sample> { cores.on_load_core(|| one.write(time)) });
    let many: Side<'_> =
        Box::new(move |time: Duration| -> anyhow::Result<Sample> { cores.on_load_core(|| many.write(time)) });
    contest(bench.plan, [ours, one, many])
}

fn print(bench: &mut Bench, what: &str, [ours, one, many]: &[Rounds; 3]) {
    bench.report.ratio(what, "the server alone, a row a commit, 1 connection", None, ours, one);
    bench.report.ratio("", "  the same, 64 connections", None, ours, many);
}
