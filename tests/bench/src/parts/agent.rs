//! Runs a second that an agent sustains, against the barest loop that runs the same program.
//!
//! Far more slots are due than may run, so that every turn is taken as soon as it is free. An agent is stopped
//! (SIGSTOP) while it is not its turn to be loaded; what it did meanwhile is counted by its own heartbeats,
//! because only they say at which instant how many runs had ended.

use std::ffi::{CStr, CString};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use anyhow::ensure;
use serde_json::json;

use crate::bench::Bench;
use crate::contest::{Sample, Side, contest};
use crate::cores::Cores;
use crate::histogram::Histogram;
use crate::plane::{Agent, Beat, Plane, now_us};
use crate::report::rounded;
use crate::spawn::{self, Program};

const TARGET: f64 = 0.75;
/// Slots that are due again ten milliseconds after their last run: more than can be served.
const SLOTS: usize = 100;
const GAP_S: f64 = 0.01;
const AT_ONCE: [usize; 2] = [1, 4];
const HELD_MIB: usize = 1024;
const PEER: &str = "posix_spawn and waitpid";
const READING_PEER: &str = "posix_spawn, reading both pipes, waitpid";

pub fn measure(bench: &mut Bench) -> anyhow::Result<()> {
    bench.report.part("runs a second of an agent, one core for it and what it runs");
    let script = bench.place.path("one-line");
    fs::write(&script, "#!/bin/sh\necho 1\n")?;
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755))?;
    let script = CString::new(script.as_os_str().as_bytes())?;
    let mut missing = 0;
    for at_once in AT_ONCE {
        missing += runs(bench, "/bin/true", Program { path: c"/bin/true", prints: None }, at_once)?;
        let script = Program { path: &script, prints: Some(b"1\n") };
        missing += runs(bench, "a script of one line", script, at_once)?;
    }
    ensure!(missing == 0, "{missing} runs printed something and gave no value");
    Ok(())
}

/// How many runs gave no value although they should have.
fn runs(bench: &mut Bench, what: &str, program: Program<'_>, at_once: usize) -> anyhow::Result<u64> {
    let (cores, plan) = (bench.cores, bench.plan);
    let folder = bench.place.path(&format!("agent-{at_once}-{}", program.prints.is_some()));
    let plane = Plane::start(cores, &folder)?;
    plane.register((0..SLOTS).map(|slot| registration(slot, program.path)))?;
    let start = |side: &str| -> anyhow::Result<Loaded<'_>> {
        let agent = match side {
            "plain" => plane.agent(side, &["--max-runs", &at_once.to_string()])?,
            _ => plane.holding_agent(side, HELD_MIB, at_once)?,
        };
        plane.until_run(&agent, SLOTS)?;
        agent.process.pause();
        Ok(Loaded { plane: &plane, agent, cores, delivers: program.prints.is_some() })
    };
    let (plain, holding) = (start("plain")?, start("holding")?);
    let held = holding.agent.process.rss_bytes();
    ensure!(held >= (HELD_MIB as u64) << 20, "only {held} bytes are held");
    let bare: Side<'_> =
        Box::new(move |time: Duration| -> anyhow::Result<Sample> { spawn::run(program, at_once, time) });
    let sides: [Side<'_>; 3] = [Box::new(|time| plain.load(time)), bare, Box::new(|time| holding.load(time))];
    let [ours, bare, ours_holding] = contest(plan, sides)?;
    let peer = if program.prints.is_some() { READING_PEER } else { PEER };
    let report = &mut bench.report;
    report.ratio(&format!("{what}, {at_once} at a time"), peer, Some(TARGET), &ours, &bare);
    report.ratio("  by an agent that holds 1 GiB", "  the same", Some(TARGET), &ours_holding, &bare);
    match program.prints {
        Some(_) => check_arrived(bench, &plane, [&plain, &holding]),
        None => Ok(0),
    }
}

/// A value of each run has to have arrived: says how many did, and how many are missing.
fn check_arrived(bench: &mut Bench, plane: &Plane, agents: [&Loaded<'_>; 2]) -> anyhow::Result<u64> {
    let (mut runs, mut given) = (0, 0);
    for agent in agents {
        let beat = agent.last_beat()?;
        let delivered = agent.done(&beat)?;
        runs += beat.runs()?;
        given += delivered + beat.node.delivery.waiting;
        // A stored value says of which run it is.
        let stored = plane.runs_stored(&agent.agent.node, &beat)?;
        ensure!(
            stored >= delivered,
            "{delivered} values were acknowledged, and of {stored} runs they are there"
        );
    }
    let missing = runs.saturating_sub(given);
    let what = format!("  runs of {} that gave no value", rounded(runs as f64));
    bench.report.figure(&what, missing as f64, "");
    Ok(missing)
}

fn registration(slot: usize, program: &CStr) -> serde_json::Value {
    let program = Path::new(std::ffi::OsStr::from_bytes(program.to_bytes()));
    json!({ "dataName": format!("bench_{slot:03}"), "cmd": [program], "gap": GAP_S })
}

/// An agent that runs only while it is loaded.
struct Loaded<'a> {
    plane: &'a Plane,
    agent: Agent,
    cores: Cores,
    /// True if each of its runs gives a value.
    delivers: bool,
}

impl Loaded<'_> {
    fn load(&self, time: Duration) -> anyhow::Result<Sample> {
        let resumed_us = now_us();
        self.agent.process.resume();
        let sample = self.cores.on_load_core(|| self.watch(resumed_us, time));
        self.agent.process.pause();
        sample
    }

    /// From the first heartbeat after an instant to the first one that comes so much later.
    fn watch(&self, after_us: i64, time: Duration) -> anyhow::Result<Sample> {
        let time_us = time.as_micros() as i64;
        let (first, before) = (self.plane.next_beat(&self.agent.node, after_us)?, self.agent.cpu()?);
        let last = self.plane.next_beat(&self.agent.node, first.at_us + time_us - 1)?;
        let after = self.agent.cpu()?;
        let elapsed = Duration::from_micros((last.at_us - first.at_us) as u64);
        let count = self.done(&last)? - self.done(&first)?;
        ensure!(count > 0, "nothing ran for {elapsed:?}");
        let mut latencies = Histogram::default();
        let took = last.instances.iter().filter_map(|instance| instance.status.last_duration_ms);
        took.for_each(|millis| latencies.record(Duration::from_secs_f64(millis / 1e3)));
        let cpu = (after.0 - before.0) + (after.1 - before.1).total();
        Ok(Sample {
            per_second: count as f64 / elapsed.as_secs_f64(),
            latencies,
            generator_busy: 0.0,
            cpu: Some(cpu.div_f64(count as f64)),
        })
    }

    /// Runs that have ended, or rather values that the data service has acknowledged if each run gives one.
    fn done(&self, beat: &Beat) -> anyhow::Result<u64> {
        let runs = beat.runs()?;
        Ok(if self.delivers { beat.node.delivery.delivered } else { runs })
    }

    /// How it is by now; it goes on for a moment for that.
    fn last_beat(&self) -> anyhow::Result<Beat> {
        let resumed_us = now_us();
        self.agent.process.resume();
        let beat = self.cores.on_load_core(|| self.plane.next_beat(&self.agent.node, resumed_us));
        self.agent.process.pause();
        beat
    }
}
