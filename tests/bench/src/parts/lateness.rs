//! How late runs start, how soon their values can be read, and what an agent takes for that.
//!
//! Collectors print the clock as the last thing they do; everything is on one machine and goes by one clock.
//! A run's lateness has two halves: from its due time to its turn as the agent reports it, and from then until the
//! program itself reads the clock. The due time of a stream's value is not reported; it is either a full second of the
//! clock, or lies on the slot's own grid, which is found from the earliest value of all.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use estimand_api::slot::Instance;
use serde_json::{Value, json};

use crate::bench::Bench;
use crate::histogram::Histogram;
use crate::plane::{Agent, Plane, now_us};
use crate::usage::Cpu;
use crate::watcher::{Seen, watch};

const NODE: &str = "bench";
const MEBIBYTE: f64 = 1024.0 * 1024.0;
/// After all have run once, until nothing of the beginning is left.
const SETTLE: Duration = Duration::from_secs(3);
/// A reported start and its program's output belong together if they are not further apart.
const SAME_RUN_US: i64 = 500_000;
const STREAMS: usize = 200;
const STREAM_S: i64 = 1;

pub fn measure(bench: &mut Bench) -> anyhow::Result<()> {
    hundred(bench)?;
    thousand(bench)?;
    bench.report.part_alone(&format!("{STREAMS} streams, each asked for a value every {STREAM_S} s"));
    streams(bench, "staggered")?;
    streams(bench, "aligned")
}

/// A hundred collectors a second: the agent's size, its processor time, and how soon values can be read.
fn hundred(bench: &mut Bench) -> anyhow::Result<()> {
    const SLOTS: usize = 100;
    const WATCHED: Duration = Duration::from_secs(10);
    bench.report.part_alone("an agent with 100 collectors at 1 s");
    let (plane, agent) = start(bench, "hundred", (0..SLOTS).map(|slot| collector(slot, 1)))?;
    let (before, began) = (agent.cpu()?, Instant::now());
    let seen = bench.cores.on_load_core(|| watch(&plane.http(), WATCHED))?;
    let (after, elapsed) = (agent.cpu()?, began.elapsed().as_secs_f64());
    let (own, launcher): (_, Cpu) = (after.0 - before.0, after.1 - before.1);
    let rss = [agent.process.pid(), agent.launcher].map(estimand_testkit::processes::rss_bytes);
    let beat = plane.next_beat(NODE, now_us())?;
    beat.runs()?;
    let report = &mut bench.report;
    report.figure("resident memory of the agent (to stay under 20)", rss[0] as f64 / MEBIBYTE, "MiB");
    report.figure("  of its launcher", rss[1] as f64 / MEBIBYTE, "MiB");
    let millis = |time: Duration| time.as_secs_f64() * 1e3 / elapsed;
    report.figure("processor time of the agent", millis(own), "ms/s");
    report.figure("  of its launcher", millis(launcher.own), "ms/s");
    report.figure("  of what it runs", millis(launcher.children), "ms/s");
    report.timing("from the end of a run until its value is readable", &until_readable(&seen)?);
    report.figure("due times that were left out", beat.overruns() as f64, "");
    Ok(())
}

/// A thousand collectors: how late they start.
fn thousand(bench: &mut Bench) -> anyhow::Result<()> {
    const SLOTS: usize = 1_000;
    const INTERVAL_S: u64 = 10;
    /// The first due time of a slot is at least half an interval and at most one and a half after its first run.
    const WATCHED: Duration = Duration::from_secs(INTERVAL_S * 3 / 2);
    bench.report.part_alone("an agent with 1,000 collectors at 10 s");
    let collectors = (0..SLOTS).map(|slot| collector(slot, INTERVAL_S));
    let (plane, agent) = start(bench, "thousand", collectors)?;
    let seen = bench.cores.on_load_core(|| watch(&plane.http(), WATCHED))?;
    let beat = plane.next_beat(&agent.node, now_us())?;
    beat.runs()?;
    let (from_due, to_turn) = starts(&beat.instances, &seen)?;
    ensure!(from_due.count() > 0, "of no start it is known when the program ran");
    let report = &mut bench.report;
    report.timing("from a due time until the program reads the clock", &from_due);
    report.timing("  of which from the due time until its turn", &to_turn);
    report.timing("from the end of a run until its value is readable", &until_readable(&seen)?);
    report.figure("due times that were left out", beat.overruns() as f64, "");
    Ok(())
}

fn streams(bench: &mut Bench, phase: &str) -> anyhow::Result<()> {
    const WATCHED: Duration = Duration::from_secs(12);
    let (plane, _agent) = start(bench, phase, (0..STREAMS).map(|slot| stream(slot, phase)))?;
    let seen = bench.cores.on_load_core(|| watch(&plane.http(), WATCHED))?;
    plane.next_beat(NODE, now_us())?.runs()?;
    ensure!(!seen.is_empty(), "no value in {WATCHED:?}");
    let (collected, readable) = match phase {
        "aligned" => against_the_clock(&seen),
        _ => against_the_earliest(&seen),
    };
    let what = match phase {
        "aligned" => "all at full seconds: from the due time until the value is there",
        _ => "spread: from the due time until the value is there",
    };
    bench.report.timing(what, &collected);
    bench.report.timing("  until it is readable", &readable);
    Ok(())
}

fn collector(slot: usize, interval_s: u64) -> Value {
    let name = format!("bench_{slot:04}");
    // However slow the machine is, a run is late and never fails.
    json!({ "dataName": name, "cmd": ["date", "+%s%N"], "max-Time": interval_s, "timeout": 30 })
}

fn stream(slot: usize, phase: &str) -> Value {
    json!({
        "dataName": format!("bench_{slot:04}"),
        "cmd": ["sh", "-c", "while read x; do echo 1; done"],
        "mode": "stream",
        "max-Time": STREAM_S,
        "phase": phase,
    })
}

/// An agent for which this is registered, after all of it has run.
fn start(
    bench: &Bench,
    name: &str,
    registrations: impl ExactSizeIterator<Item = Value>,
) -> anyhow::Result<(Plane, Agent)> {
    let plane = Plane::start(bench.cores, &bench.place.path(name))?;
    let count = registrations.len();
    plane.register(registrations)?;
    let agent = plane.agent(NODE, &[])?;
    plane.until_run(&agent, count)?;
    std::thread::sleep(SETTLE);
    Ok((plane, agent))
}

/// From the clock that each run printed.
fn until_readable(seen: &[Seen]) -> anyhow::Result<Histogram> {
    let mut times = Histogram::default();
    for Seen { value, at_ns } in seen {
        times.record(nanos(at_ns - printed_ns(value)?));
    }
    Ok(times)
}

fn printed_ns(value: &estimand_api::value::Value) -> anyhow::Result<i64> {
    let printed = &value.data_value;
    printed.as_i64().with_context(|| format!("{} said {printed} instead of the time", value.data_name))
}

/// From the due time of each slot's last start until the program read the clock, and until its turn.
fn starts(instances: &[Instance], seen: &[Seen]) -> anyhow::Result<(Histogram, Histogram)> {
    let mut printed_us: HashMap<&str, Vec<i64>> = HashMap::new();
    for Seen { value, .. } in seen {
        printed_us.entry(value.data_name.as_str()).or_default().push(printed_ns(value)? / 1_000);
    }
    let (mut from_due, mut to_turn) = (Histogram::default(), Histogram::default());
    for Instance { status, .. } in instances {
        let (Some(start), Some(waited_ms)) = (status.last_start, status.last_wait_ms) else { continue };
        let start_us = start.timestamp_micros();
        let printed = printed_us.get(status.data_name.as_str()).into_iter().flatten();
        let mut ran = printed.map(|at| at - start_us).filter(|took| (0..SAME_RUN_US).contains(took));
        let Some(ran_us) = ran.next() else { continue };
        let waited = Duration::from_secs_f64(waited_ms / 1e3);
        to_turn.record(waited);
        from_due.record(waited + nanos(ran_us * 1_000));
    }
    Ok((from_due, to_turn))
}

/// The due times are the full seconds of the clock.
fn against_the_clock(seen: &[Seen]) -> (Histogram, Histogram) {
    let late = |at_ns: i64| nanos(at_ns % (STREAM_S * 1_000_000_000));
    histograms(seen, |seen| (late(collected_ns(seen)), late(seen.at_ns)))
}

/// Each slot has its own grid. Where it lies is taken from its earliest value, which was hardly late.
fn against_the_earliest(seen: &[Seen]) -> (Histogram, Histogram) {
    let mut grids: HashMap<&str, (i64, i64)> = HashMap::new();
    for each in seen {
        let at = collected_ns(each);
        let (first, earliest) = grids.entry(each.value.data_name.as_str()).or_insert((at, 0));
        *earliest = (*earliest).min(off_the_grid(*first, at));
    }
    histograms(seen, |seen| {
        let (first, earliest) = grids[seen.value.data_name.as_str()];
        let late = off_the_grid(first, collected_ns(seen)) - earliest;
        (nanos(late), nanos(late + seen.at_ns - collected_ns(seen)))
    })
}

/// How far it is from the nearest point of a grid.
fn off_the_grid(tick_ns: i64, at_ns: i64) -> i64 {
    const INTERVAL_NS: i64 = STREAM_S * 1_000_000_000;
    (at_ns - tick_ns + INTERVAL_NS / 2).rem_euclid(INTERVAL_NS) - INTERVAL_NS / 2
}

fn histograms(seen: &[Seen], late: impl Fn(&Seen) -> (Duration, Duration)) -> (Histogram, Histogram) {
    let (mut collected, mut readable) = (Histogram::default(), Histogram::default());
    for each in seen {
        let (late_collected, late_readable) = late(each);
        collected.record(late_collected);
        readable.record(late_readable);
    }
    (collected, readable)
}

fn collected_ns(seen: &Seen) -> i64 {
    seen.value.collected_at.timestamp_micros() * 1_000
}

fn nanos(nanos: i64) -> Duration {
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_as_late_as_it_is_behind_the_nearest_tick() {
        let second = 1_000_000_000;
        assert_eq!(off_the_grid(999_999_990, 7 * second + 10), 20);
        assert_eq!(off_the_grid(10, 7 * second - 10), -20);
    }
}
