//! Nothing acknowledged is ever lost, and no batch is ever half there: not when the process is killed, and
//! not when the database under it is.
//!
//! Writers write counters, each its own keys, and note what they sent and what was acknowledged. Whatever is
//! read must lie between the two, at any time. Kills come when a random number of writes has been
//! acknowledged, so they fall anywhere in what the service is doing. `ESTIMAND_LONG` runs more rounds.
#![allow(clippy::unwrap_used)]

use std::time::{Duration, Instant};

use estimand_testkit::databases::{Kind, Server};
use estimand_testkit::load::Load;
use estimand_testkit::process::{self, Estimand, free_port};

const ROUNDS: usize = 50;
/// MariaDB takes seconds to come back after each kill.
const MARIADB_ROUNDS: usize = 10;
const LONG_FACTOR: usize = 10;
/// A process is ready far sooner; past this it hangs.
const READY_DEADLINE: Duration = Duration::from_secs(10);
/// How many writes are acknowledged between two kills, at most.
const MOST_BETWEEN: u64 = 400;

fn rounds(short: usize) -> usize {
    if std::env::var_os("ESTIMAND_LONG").is_some() { short * LONG_FACTOR } else { short }
}

fn service(store: Option<String>) -> Estimand {
    let builder = process::estimand().args(["up"]).port(free_port());
    match store {
        Some(url) => builder.store(url).start(),
        None => builder.start(),
    }
}

#[test]
fn a_killed_process_has_lost_nothing() {
    let mut process = service(None);
    let load = Load::new(process.base_url());
    let mut starts = Vec::new();
    load.run_during(false, || {
        for _ in 0..rounds(ROUNDS) {
            load.wait_for_progress(fastrand::u64(1..=MOST_BETWEEN));
            process.kill9();
            let down = load.hold();
            let acknowledged = load.acknowledged();
            let began = Instant::now();
            process.restart_on_same_port();
            starts.push(began.elapsed());
            load.check_since(&process.http(), &acknowledged);
            drop(down);
        }
    });
    load.check(&process.http());
    report("ready again after SIGKILL", &mut starts);
    assert!(starts.iter().all(|took| *took < READY_DEADLINE), "{starts:?}");
}

#[test]
fn a_killed_postgres_loses_nothing() {
    survive(&Server::start_own(Kind::Postgres), rounds(ROUNDS));
}

#[test]
fn a_killed_mariadb_loses_nothing() {
    survive(&Server::start_own(Kind::Mariadb), rounds(MARIADB_ROUNDS));
}

/// Kills the database under a service that goes on serving reads.
fn survive(server: &Server, rounds: usize) {
    let mut process = service(Some(server.fresh_url()));
    let load = Load::new(process.base_url());
    let mut outages = Vec::new();
    let reads = load.run_during(true, || {
        for _ in 0..rounds {
            load.wait_for_progress(fastrand::u64(1..=MOST_BETWEEN));
            let began = Instant::now();
            server.kill9();
            load.check(&process.http());
            server.start_again();
            load.wait_for_everyone();
            outages.push(began.elapsed());
        }
    });
    println!("{reads} reads were answered throughout, {} writes were refused", load.refused());
    assert!(reads > 0);
    load.check(&process.http());
    assert!(process.exited().is_none(), "{}", process.stderr_tail());
    process.restart_on_same_port();
    load.check(&process.http());
    report("from the kill until every writer writes again", &mut outages);
}

fn report(what: &str, took: &mut [Duration]) {
    took.sort_unstable();
    let (median, max) = (took[took.len() / 2], took[took.len() - 1]);
    println!("{what}: {} times, median {median:?}, at most {max:?}", took.len());
}
