//! `processes`: numbers of processes and threads by state; on request, the processes that need most.
//!
//! From `/proc/<pid>/stat` of each, so the cost grows with their number. Those that end while they are read are left
//! out. Invariant: a process is compared with itself, not with an earlier one of the same number, so the time of its
//! start is part of its identity.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Read;
use std::time::Instant;

use serde_json::{Value, json};

use crate::samples::{Pair, Samples, per_second};
use crate::{
    Collector, CollectorKind, DefaultRegistration, Failure, Param, Params, Reading, Roots, Surroundings,
    figures, files,
};

pub(crate) const KIND: CollectorKind = CollectorKind {
    name: "processes",
    about: "how many processes and threads there are, by state; on request those that need most",
    params: &[Param::optional(
        "top",
        "how many of those that need most processor time and most memory are named, 0 to 50; default 0",
    )],
    default: Some(DefaultRegistration { every: 5.0, once: false }),
    make,
};

const MOST_TOP: f64 = 50.0;

fn make(params: &Params, around: &Surroundings) -> Result<Box<dyn Collector>, String> {
    let top = params.number("top")?.unwrap_or(0.0);
    if !(0.0..=MOST_TOP).contains(&top) || top.fract() != 0.0 {
        return Err(format!("the parameter `top` is {top}; expected a whole number from 0 to {MOST_TOP}"));
    }
    let units = Units {
        page_bytes: rustix::param::page_size() as u64,
        ticks_per_second: rustix::param::clock_ticks_per_second().max(1) as f64,
    };
    Ok(Box::new(Processes { roots: around.roots.clone(), top: top as usize, units, samples: Samples::new() }))
}

struct Processes {
    roots: Roots,
    top: usize,
    units: Units,
    samples: Samples<Sample>,
}

#[derive(Debug, Clone, Copy)]
struct Units {
    page_bytes: u64,
    ticks_per_second: f64,
}

/// One look at all processes.
#[derive(Debug, Default)]
struct Sample {
    counts: Counts,
    /// Processes that were started since the start of the machine.
    forks: Option<u64>,
    running: Option<u64>,
    blocked: Option<u64>,
    /// Only if the processes that need most are asked for.
    processes: HashMap<Identity, Process>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Identity {
    pid: u32,
    /// Ticks since the start of the machine.
    started: u64,
}

impl Collector for Processes {
    fn collect(&mut self, until: Instant) -> Result<Reading, Failure> {
        let (roots, top, units) = (&self.roots, self.top, self.units);
        let take = || look(roots, top > 0, until);
        let mut value = self.samples.compare(until, take, |pair| describe(&pair, top, units))?;
        let limit = |name: &str| files::number(&roots.proc.join("sys/kernel").join(name));
        value["pidMax"] = json!(limit("pid_max"));
        value["threadsMax"] = json!(limit("threads-max"));
        Ok(Reading::Here(value))
    }
}

fn look(roots: &Roots, keep: bool, until: Instant) -> Result<Sample, Failure> {
    let stat = files::optional(&roots.proc.join("stat")).unwrap_or_default();
    let mut sample = Sample {
        forks: files::word(&stat, "processes"),
        running: files::word(&stat, "procs_running"),
        blocked: files::word(&stat, "procs_blocked"),
        ..Sample::default()
    };
    let failed = |error| Failure::Failed(format!("{}: {error}", roots.proc.display()));
    // One buffer for all; the file of a process is some 300 bytes.
    let mut buffer = [0; 4096];
    for entry in fs::read_dir(&roots.proc).map_err(failed)? {
        let Ok(entry) = entry else { continue };
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let read = File::open(entry.path().join("stat")).and_then(|mut file| file.read(&mut buffer));
        // It ended meanwhile.
        let Ok(length) = read else { continue };
        let Some(process) = parse(&buffer[..length]) else { continue };
        sample.counts.add(&process);
        if keep {
            sample.processes.insert(Identity { pid, started: process.started }, process);
        }
        if Instant::now() > until {
            let counted = sample.counts.total;
            return Err(Failure::Failed(format!("there was time to look at {counted} processes only")));
        }
    }
    if sample.counts.total == 0 {
        return Err(Failure::NotHere(format!("{} shows no process", roots.proc.display())));
    }
    Ok(sample)
}

/// How many are in each state.
#[derive(Debug, Default, PartialEq)]
struct Counts {
    total: u64,
    threads: u64,
    running: u64,
    sleeping: u64,
    waiting: u64,
    idle: u64,
    stopped: u64,
    zombies: u64,
    other: u64,
}

impl Counts {
    fn add(&mut self, process: &Process) {
        self.total += 1;
        self.threads = self.threads.saturating_add(process.threads);
        *match process.state {
            b'R' => &mut self.running,
            b'S' => &mut self.sleeping,
            b'D' => &mut self.waiting,
            b'I' => &mut self.idle,
            b'T' | b't' => &mut self.stopped,
            b'Z' => &mut self.zombies,
            _ => &mut self.other,
        } += 1;
    }
}

fn describe(pair: &Pair<'_, Sample>, top: usize, units: Units) -> Value {
    let (before, now) = (pair.before, pair.now);
    let counts = &now.counts;
    let forks = before.forks.zip(now.forks);
    let forks = forks.and_then(|(before, now)| per_second(before, now, pair.elapsed));
    let mut value = json!({
        "total": counts.total,
        "threads": counts.threads,
        "running": now.running,
        "blocked": now.blocked,
        "forksPerSecond": figures::rate(forks),
        "pidMax": Value::Null,
        "threadsMax": Value::Null,
        "states": {
            "running": counts.running,
            "sleeping": counts.sleeping,
            "waiting": counts.waiting,
            "idle": counts.idle,
            "stopped": counts.stopped,
            "zombie": counts.zombies,
            "other": counts.other,
        },
    });
    if top > 0 {
        value["top"] = busiest(pair, top, units);
    }
    value
}

/// Those that need most, by processor time and by memory. Here order is what matters, so they are lists.
fn busiest(pair: &Pair<'_, Sample>, top: usize, units: Units) -> Value {
    let cores = |identity: &Identity, process: &Process| {
        let before = pair.before.processes.get(identity)?.ticks;
        Some(per_second(before, process.ticks, pair.elapsed)? / units.ticks_per_second)
    };
    let mut all: Vec<(&Identity, &Process, Option<f64>)> = pair
        .now
        .processes
        .iter()
        .map(|(identity, process)| (identity, process, cores(identity, process)))
        .collect();
    let listed = |all: &[(&Identity, &Process, Option<f64>)]| -> Vec<Value> {
        let one = |(identity, process, cores): &(&Identity, &Process, Option<f64>)| {
            json!({
                "pid": identity.pid,
                "name": process.name,
                "cpuCores": figures::rate(*cores),
                "memoryBytes": process.pages.saturating_mul(units.page_bytes),
            })
        };
        all.iter().take(top).map(one).collect()
    };
    all.sort_by_key(|(identity, process, _)| (std::cmp::Reverse(process.pages), identity.pid));
    let by_memory = listed(&all);
    // Stable: among those that need no time, those with most memory come first.
    all.sort_by(|(.., one), (.., other)| other.unwrap_or(0.0).total_cmp(&one.unwrap_or(0.0)));
    json!({"byCpu": listed(&all), "byMemory": by_memory})
}

#[derive(Debug, PartialEq)]
struct Process {
    name: String,
    state: u8,
    threads: u64,
    /// Processor time.
    ticks: u64,
    started: u64,
    /// Resident.
    pages: u64,
}

/// `pid (name) state …`. The name is whatever the process likes, parentheses and ends of lines included, but after the
/// last parenthesis there are numbers alone.
fn parse(stat: &[u8]) -> Option<Process> {
    let open = stat.iter().position(|byte| *byte == b'(')?;
    let close = stat.iter().rposition(|byte| *byte == b')').filter(|close| *close > open)?;
    let name = String::from_utf8_lossy(&stat[open + 1..close]).into_owned();
    let rest = str::from_utf8(&stat[close + 1..]).ok()?;
    let mut words = rest.split_ascii_whitespace();
    let state = *words.next()?.as_bytes().first()?;
    // Counted from the field after the state, which is the fourth of the file.
    let numbers: Vec<&str> = words.take(21).collect();
    let number = |field: usize| numbers.get(field - 4)?.parse::<u64>().ok();
    let ticks = number(14)?.saturating_add(number(15)?);
    // Memory is signed there.
    let pages = numbers.get(24 - 4)?.parse::<i64>().ok()?.try_into().unwrap_or(0);
    Some(Process { name, state, threads: number(20)?, ticks, started: number(22)?, pages })
}

#[cfg(test)]
mod tests;
