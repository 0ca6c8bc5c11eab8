//! Trivial tasks through Slurm, through Celery with Redis, and through Estimand.
//!
//! Each keeps what it keeps by its usual configuration, starts `/bin/true` for each task, four at a time, and has the same
//! cores: its services that of the load, what starts tasks the other one. A peer that is not installed is named and left out.

mod celery;
mod slurm;

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use estimand_testkit::TOKEN;
use serde_json::json;

use super::tasks::{submit, succeeded};
use crate::bench::Bench;
use crate::contest::Spread;
use crate::cores::Cores;
use crate::histogram::Histogram;
use crate::plane::{Agent, Plane};
use crate::served::program;

/// Of a round, in one submission.
const TASKS: usize = 200;
/// One after the other, each waited for.
const SINGLE: usize = 20;
const AT_ONCE: usize = 4;

/// A system that runs tasks.
trait TaskSystem {
    fn name(&self) -> &'static str;

    /// Runs so many tasks of one submission to the end of the last one. Returns how long that took.
    fn many(&self, tasks: usize) -> anyhow::Result<Duration>;

    /// Runs one as somebody does who waits for it at a terminal.
    fn single(&self) -> anyhow::Result<Duration>;
}

pub fn measure(bench: &mut Bench) -> anyhow::Result<()> {
    let systems = systems(bench)?;
    let rounds = bench.plan.rounds;
    let mut rates = vec![Vec::new(); systems.len()];
    let mut singles: Vec<Histogram> = systems.iter().map(|_| Histogram::default()).collect();
    for round in 0..=rounds {
        for ((system, rates), singles) in systems.iter().zip(&mut rates).zip(&mut singles) {
            let took = system.many(TASKS).with_context(|| system.name())?;
            eprintln!("round {round}, {}: {TASKS} tasks in {:.1} s", system.name(), took.as_secs_f64());
            // The first round warms up.
            if round > 0 {
                rates.push(TASKS as f64 / took.as_secs_f64());
                for _ in 0..SINGLE {
                    singles.record(system.single().with_context(|| system.name())?);
                }
            }
        }
    }
    let report = &mut bench.report;
    report.part_alone(&format!(
        "{TASKS} tasks of /bin/true in one submission, {AT_ONCE} at a time, to the last end"
    ));
    for (system, own) in systems.iter().zip(&rates) {
        report.spread(system.name(), Spread::of(own.iter().copied()), "tasks/s");
    }
    for (system, theirs) in systems.iter().zip(&rates).skip(1) {
        let ratios = rates[0].iter().zip(theirs).map(|(ours, theirs)| ours / theirs);
        report.spread(&format!("  against {}", system.name()), Spread::of(ratios), "times as many");
    }
    report.part_alone("one task, from its submission until its end is known");
    for (system, times) in systems.iter().zip(&singles) {
        report.timing(system.name(), times);
    }
    Ok(())
}

/// Ours is the first.
fn systems(bench: &mut Bench) -> anyhow::Result<Vec<Box<dyn TaskSystem>>> {
    let mut systems: Vec<Box<dyn TaskSystem>> = vec![Box::new(Ours::start(bench)?)];
    let folder = bench.place.path("peers");
    match slurm::Slurm::start(bench.cores, &folder.join("slurm"))? {
        Some(slurm) => systems.push(Box::new(slurm)),
        None => bench.report.about("Slurm is left out: apt-get install slurm-wlm".to_owned()),
    }
    match celery::Celery::start(bench.cores, &folder.join("celery"))? {
        Some(celery) => systems.push(Box::new(celery)),
        None => {
            let packages = "python3-celery python3-redis redis-server";
            bench.report.about(format!("Celery is left out: apt-get install {packages}"));
        }
    }
    Ok(systems)
}

struct Ours {
    cores: Cores,
    plane: Plane,
    _agent: Agent,
}

impl Ours {
    fn start(bench: &Bench) -> anyhow::Result<Ours> {
        let plane = Plane::start(bench.cores, &bench.place.path("task-peers"))?;
        let agent = plane.agent("bench", &["--label", &format!("tasks={AT_ONCE}")])?;
        Ok(Ours { cores: bench.cores, plane, _agent: agent })
    }
}

impl TaskSystem for Ours {
    fn name(&self) -> &'static str {
        "estimand"
    }

    fn many(&self, tasks: usize) -> anyhow::Result<Duration> {
        self.cores.on_load_core(|| {
            let http = self.plane.http();
            let began = Instant::now();
            let array = submit(&http, &json!({ "command": ["/bin/true"], "count": tasks }))?;
            succeeded(&http, &array)?;
            Ok(began.elapsed())
        })
    }

    fn single(&self) -> anyhow::Result<Duration> {
        let mut command = Command::new(program()?);
        command.args(["run-task", "--server", self.plane.services.base_url(), "--", "/bin/true"]);
        command.env("ESTIMAND_TOKEN", TOKEN);
        timed(self.cores, command)
    }
}

/// Runs a command that has to succeed on the load's core.
fn timed(cores: Cores, mut command: Command) -> anyhow::Result<Duration> {
    cores.on_load_core(move || {
        let began = Instant::now();
        let output = command.stdin(Stdio::null()).output().with_context(|| format!("{command:?}"))?;
        ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(began.elapsed())
    })
}
