//! Reads against a handler that returns the same bytes without looking for them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;

use crate::bench::Bench;
use crate::contest::{Rounds, Sample, Side, contest};
use crate::keys::{Keys, ReadName, ReadOne, name_of, node_of};
use crate::report::rounded;
use crate::served::{Bare, side};

pub const CONNECTIONS: usize = 64;
const TARGET: f64 = 0.85;
const PEER: &str = "a bare handler that returns the same bytes";
/// How often the name that is read is written meanwhile.
const WRITE_EVERY: Duration = Duration::from_millis(10);

pub fn measure(bench: &mut Bench) -> anyhow::Result<()> {
    let keys = bench.filled()?.keys;
    bench.report.part("reads, 64 connections, one worker");
    one_value(bench, keys)?;
    let one_name = Keys { names: 1, nodes: keys.nodes };
    for (what, keys, is_written) in [
        ("all 100 values of one name", one_name, false),
        ("  while the name is written 100 times a second", one_name, true),
        ("  of random names among 5,000", keys, false),
    ] {
        all_of_a_name(bench, what, keys, is_written)?;
    }
    Ok(())
}

fn one_value(bench: &mut Bench, keys: Keys) -> anyhow::Result<()> {
    let (cores, plan) = (bench.cores, bench.plan);
    let served = bench.filled()?;
    let bytes = served.get(&format!("/api/data/{}/{}", name_of(0), node_of(0)));
    let bare = Bare::start(&bytes, false)?;
    let requests = || ReadOne(keys, Rng::with_seed(3));
    let ours = side(cores, &served.process, CONNECTIONS, requests());
    let theirs = side(cores, &bare.process, CONNECTIONS, requests());
    let [ours, theirs] = contest(plan, [ours, theirs])?;
    let what = format!("one value of {} ({} bytes)", rounded(keys.count() as f64), bytes.len());
    bench.report.ratio(&what, PEER, Some(TARGET), &ours, &theirs);
    ceiling(bench, &theirs);
    Ok(())
}

/// The generator's own limit, if the fastest server took no time.
fn ceiling(bench: &mut Bench, bare: &Rounds) {
    let busy = bare.generator_busy();
    let what = format!("  the generator's own ceiling, being {:.0} % busy", busy * 100.0);
    bench.report.figure(&what, bare.per_second() / busy.max(0.01), "requests/s");
}

fn all_of_a_name(bench: &mut Bench, what: &str, keys: Keys, is_written: bool) -> anyhow::Result<()> {
    let (cores, plan) = (bench.cores, bench.plan);
    let served = bench.filled()?;
    let path = format!("/api/data?dataName={}", name_of(0));
    let bytes = served.get(&path);
    let bare = Bare::start(&bytes, false)?;
    let requests = || ReadName(keys, Rng::with_seed(4));
    let mut read = side(cores, &served.process, CONNECTIONS, requests());
    let ours: Side<'_> = match is_written {
        false => read,
        true => Box::new(move |time| -> anyhow::Result<Sample> {
            let writing = AtomicBool::new(true);
            thread::scope(|scope| {
                let writer = scope.spawn(|| cores.on_load_core(|| write_on(served, &writing)));
                let sample = read(time);
                writing.store(false, Ordering::Relaxed);
                writer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
                sample
            })
        }),
    };
    let theirs = side(cores, &bare.process, CONNECTIONS, requests());
    let [ours, theirs] = contest(plan, [ours, theirs])?;
    let target = (keys.names == 1 && !is_written).then_some(TARGET);
    let what = if target.is_some() { format!("{what} ({} bytes)", bytes.len()) } else { what.to_owned() };
    bench.report.ratio(&what, PEER, target, &ours, &theirs);
    Ok(())
}

/// Writes values of the first name, at a steady pace, until told to stop.
fn write_on(served: &crate::served::BindingTarget, writing: &AtomicBool) -> anyhow::Result<()> {
    let (http, began) = (served.process.http(), Instant::now());
    for number in 1.. {
        if !writing.load(Ordering::Relaxed) {
            break;
        }
        let node = node_of(number % served.keys.nodes);
        let body = format!(
            r#"{{"dataName":"{}","nodeName":"{node}","dataValue":0.{:06}}}"#,
            name_of(0),
            number % 1_000_000
        );
        http.request("POST", "/api/data", &[], body.as_bytes()).expect_status(200);
        thread::sleep((WRITE_EVERY * number).saturating_sub(began.elapsed()));
    }
    Ok(())
}
