//! The cost of collecting: the time of a call of each collector, in a release build.
//!
//!     cargo run --release -p estimand-collectors --example cost              # of all that need no parameters
//!     cargo run --release -p estimand-collectors --example cost -- cpu 1000  # of one, so many calls
//!     cargo run --release -p estimand-collectors --example cost -- cpu 0     # what it says
//!
//! The first call of each is left out, since some wait in it for a second sample. Under `strace -c` a run of one
//! collector shows its system calls, for which it is called this often and no more.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use estimand_collectors::{ALL, CollectorKind, Failure, Reading, Surroundings, find, make};

const RUNS: usize = 500;
const PATIENCE: Duration = Duration::from_secs(10);

fn main() -> Result<(), String> {
    if cfg!(debug_assertions) {
        return Err("a debug build tells nothing of the cost; run it with --release".to_owned());
    }
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next();
    let runs =
        arguments.next().map_or(Ok(RUNS), |runs| runs.parse()).map_err(|_| "how many runs?".to_owned())?;
    let kinds = match name {
        Some(name) => vec![find(&name).ok_or_else(|| format!("there is no collector `{name}`"))?],
        None => ALL.iter().copied().filter(|kind| kind.params.iter().all(|param| !param.required)).collect(),
    };
    println!("{:<12} {:>9} {:>9} {:>9} {:>8}", "collector", "median µs", "p10 µs", "p90 µs", "bytes");
    for kind in kinds {
        match measure(kind, runs) {
            Ok(line) => println!("{:<12} {line}", kind.name),
            Err(error) => println!("{:<12} {error}", kind.name),
        }
    }
    Ok(())
}

fn measure(kind: &CollectorKind, runs: usize) -> Result<String, String> {
    let mut collector = make(kind, &BTreeMap::new(), &Surroundings::default())?;
    let mut collect = || -> Result<String, String> {
        match collector.collect(Instant::now() + PATIENCE) {
            Ok(Reading::Here(value)) => Ok(value.to_string()),
            Ok(Reading::PerNode(values)) => Ok(format!("{values:?}")),
            Err(Failure::NotHere(reason) | Failure::Refused(reason) | Failure::Failed(reason)) => Err(reason),
        }
    };
    let first = collect()?;
    if runs == 0 {
        return Ok(first);
    }
    let mut micros = Vec::with_capacity(runs);
    for _ in 0..runs {
        let begun = Instant::now();
        collect()?;
        micros.push(begun.elapsed().as_secs_f64() * 1e6);
    }
    micros.sort_by(f64::total_cmp);
    let at = |quantile: usize| micros[(micros.len() - 1) * quantile / 100];
    Ok(format!("{:>9.1} {:>9.1} {:>9.1} {:>8}", at(50), at(10), at(90), first.len()))
}
