//! Much of everything: at the end no more memory, descriptors, threads or processes than at half-time.
//!
//! Only with `ESTIMAND_LONG`. It ends when so many values have been acknowledged and so many runs have ended as a node
//! makes in years: 50 million and a million, or what `ESTIMAND_SOAK_WRITES` and `ESTIMAND_SOAK_RUNS` say. Batches of
//! thousands make up the number of values; beside them is the load that checks what it reads. Half-time is half of that
//! progress, which is printed twice a minute.

use std::fmt;
use std::time::{Duration, Instant};

use estimand_testkit::load::Load;
use estimand_testkit::place::Place;
use estimand_testkit::plane::{Plane, Together};
use estimand_testkit::processes;
use estimand_testkit::wait::PATIENCE;
use serde_json::json;

use crate::figures::mebibytes;
use crate::is_long;

const WRITES: u64 = 50_000_000;
const RUNS: u64 = 1_000_000;
const SLOTS: usize = 16;
const BULK_WRITERS: usize = 2;
const BULK_ITEMS: u64 = 5_000;
/// Writes may be ahead of runs by so much of the whole, so that there is something of both until the end.
const AHEAD: f64 = 0.01;
const PRINT_EVERY: Duration = Duration::from_secs(30);
/// Growth in the second half that is noise: allocators, caches of a database, a burst that is under way.
const NOISE_BYTES: u64 = 48 << 20;
/// Descriptors, threads and processes come and go; each slot that runs something holds a few.
const NOISE: usize = 24 + 3 * SLOTS;
/// How often there is a look at them in a round.
const LOOKS: usize = 20;

/// The resources that a process holds.
#[derive(Debug, Clone, Copy)]
struct Held {
    rss: u64,
    files: usize,
    threads: usize,
    processes: usize,
}

impl Held {
    fn of(pid: u32) -> Self {
        Held {
            rss: processes::rss_bytes(pid),
            files: processes::open_files(pid),
            threads: processes::threads(pid),
            processes: processes::descendants(pid).len(),
        }
    }

    /// The least that was held at several looks: what comes and goes is no leak.
    fn least(self, other: Self) -> Self {
        Held {
            rss: self.rss.min(other.rss),
            files: self.files.min(other.files),
            threads: self.threads.min(other.threads),
            processes: self.processes.min(other.processes),
        }
    }
}

impl fmt::Display for Held {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Held { rss, files, threads, processes } = self;
        let rss = mebibytes(*rss);
        write!(out, "{rss} MiB, {files} descriptors, {threads} threads, {processes} processes below it")
    }
}

/// How much has been done of what is to be done.
struct Goals {
    writes: u64,
    runs: u64,
}

/// Progress, as parts of the goals.
#[derive(Clone, Copy)]
struct Done {
    writes: f64,
    runs: f64,
}

impl Goals {
    fn from_environment() -> Self {
        let number = |name, default| match std::env::var(name) {
            Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name} is a number, not {text}")),
            Err(_) => default,
        };
        Goals { writes: number("ESTIMAND_SOAK_WRITES", WRITES), runs: number("ESTIMAND_SOAK_RUNS", RUNS) }
    }

    fn of(&self, written: u64, runs: u64) -> Done {
        Done { writes: written as f64 / self.writes as f64, runs: runs as f64 / self.runs as f64 }
    }
}

impl Done {
    fn least(self) -> f64 {
        self.writes.min(self.runs)
    }

    fn quarter(self) -> usize {
        ((self.least() * 4.0) as usize).min(3)
    }
}

/// A slot that runs the cheapest of programs as often as it gets a turn.
fn fast(slot: usize) -> serde_json::Value {
    json!({"dataName": format!("fast_{slot}"), "cmd": ["/usr/bin/echo", "1"], "gap": 0.01, "history": {"max": 100}})
}

/// How many runs of those slots the agent has reported.
fn runs(plane: &Plane) -> u64 {
    let fast =
        |one: &&serde_json::Value| one["dataName"].as_str().is_some_and(|name| name.starts_with("fast_"));
    let instances = plane.instances().unwrap();
    instances.iter().filter(fast).map(|one| one["runs"].as_u64().unwrap_or(0)).sum()
}

#[test]
fn nothing_grows_in_the_long_run() {
    if !is_long() {
        return;
    }
    let goals = Goals::from_environment();
    let place = Place::new("soak");
    let services = Together::start(&place);
    let agent = place.builder("n1", &[services.url()]).args(["--allow", "/usr/bin"]).start();
    let plane = &services.plane;
    (0..SLOTS).for_each(|slot| plane.register(&fast(slot)));
    plane.wait_fresh("fast_0", &["n1"]);
    let pids = [services.up.pid(), agent.pid(), std::process::id()];
    let (load, bulk) =
        (Load::new(services.url()), Load::of_batches(services.url(), BULK_WRITERS, BULK_ITEMS));
    let (began, mut printed) = (Instant::now(), Instant::now());
    let mut quarters: [Option<[Held; 3]>; 4] = [None; 4];
    let mut rounds = 0;
    let work = || loop {
        let (written, run) = (load.values() + bulk.values(), runs(plane));
        let done = goals.of(written, run);
        if printed.elapsed() > PRINT_EVERY {
            printed = Instant::now();
            println!(
                "{:?}: {written} values, {run} runs; services {}; agent {}",
                began.elapsed(),
                Held::of(pids[0]),
                Held::of(pids[1])
            );
            bulk.check(&services.up.http());
        }
        if done.least() >= 1.0 {
            break;
        }
        let held_back = (done.writes > done.runs + AHEAD).then(|| bulk.hold());
        // Registrations and watchers come and go.
        rounds += 1;
        let name = format!("guest_{}", rounds % 50);
        plane.register(&place.counting(&name));
        let mut watch = services.up.http().sse("/api/data/watch?dataName=*", &[]);
        watch.next_news(PATIENCE);
        for _ in 0..LOOKS {
            load.wait_for_progress(5);
            let done = goals.of(load.values() + bulk.values(), runs(plane));
            let least = &mut quarters[done.quarter()];
            let held = pids.map(Held::of);
            *least = Some(least.map_or(held, |least| std::array::from_fn(|who| least[who].least(held[who]))));
        }
        plane.unregister(&name);
        drop(held_back);
    };
    bulk.run_during(false, || {
        load.run_during(true, work);
    });
    for load in [&load, &bulk] {
        load.check(&services.up.http());
    }
    let (written, run) = (load.values() + bulk.values(), runs(plane));
    println!("{rounds} rounds, {written} values, {run} runs in {:?}", began.elapsed());
    check_flat(quarters);
}

/// The last quarter against the one before.
fn check_flat([.., middle, end]: [Option<[Held; 3]>; 4]) {
    let [middle, end] = [middle, end].map(|held| held.expect("each quarter has its looks"));
    for (who, (middle, end)) in ["services", "agent", "this test"].iter().zip(middle.iter().zip(&end)) {
        println!("{who}: {middle} in the third quarter, {end} in the last one");
        let grown = end.rss.saturating_sub(middle.rss);
        assert!(grown < NOISE_BYTES, "{who} grew by {} MiB", mebibytes(grown));
        assert!(end.files <= middle.files + NOISE, "{who}: descriptors");
        assert!(end.threads <= middle.threads + NOISE, "{who}: threads");
        // All others are below the test.
        assert!(*who == "this test" || end.processes <= middle.processes + NOISE, "{who}: processes");
    }
}
