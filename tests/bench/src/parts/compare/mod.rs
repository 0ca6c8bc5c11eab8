//! Reads and writes of values beside the programs that people would use in Estimand's place, and beside the physical limit.
//!
//! All run at once on the servers' core, hold the same keys, and are loaded in turn over 64 connections. A program that is
//! not installed is named and left out; nothing is installed here.

mod etcd;
mod http;
mod nats;
mod nginx;
mod paper;
mod postgres;
mod prometheus;
mod redis;
mod rival;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use fastrand::Rng;

use crate::bench::Bench;
use crate::contest::{Rounds, Side, contest_of_all};
use crate::keys::{Keys, ReadOne, WriteOne};
use crate::parts::reads::CONNECTIONS;
use crate::peer::find;
use crate::report::rounded;
use crate::served::{BindingTarget, side};
use paper::PaperService;
use postgres::Pgbench;
use rival::{Render, Rival, warm};

const KEYS: Keys = Keys { names: 100, nodes: 100 };
/// How many times as many keys as at first.
const GROWTH: [u32; 3] = [1, 10, 100];
/// Of the smallest of them.
const SEED: Keys = Keys { names: 10, nodes: 100 };
const AIM_OF_NGINX: f64 = 0.85;
const AIM_OF_REDIS_READS: f64 = 1.0;
const AIM_OF_REDIS_WRITES: f64 = 0.6;

#[derive(Debug, Args)]
pub struct CompareArgs {
    /// Write the table to this file, too, as Markdown
    #[arg(long, value_name = "FILE")]
    results: Option<PathBuf>,
}

/// What stands beside the service.
struct Field {
    rivals: Vec<Rival>,
    paper: Option<PaperService>,
    pgbench: Option<Pgbench>,
}

impl Field {
    fn rivals(&self) -> impl Iterator<Item = &Rival> {
        self.rivals.iter().chain(self.paper.as_ref().map(|paper| &paper.rival))
    }
}

pub fn measure(bench: &mut Bench, args: &CompareArgs) -> anyhow::Result<()> {
    about_this_machine(bench);
    let ours = BindingTarget::start(bench.cores, KEYS, Some(&bench.place.path("service")), None)?;
    ours.fill()?;
    let field = field(bench, &ours)?;
    reads(bench, &ours, &field)?;
    writes(bench, &ours, &field)?;
    drop(field);
    drop(ours);
    growth(bench)?;
    if let Some(file) = &args.results {
        let page = bench.report.markdown("Estimand beside others");
        fs::write(file, page).with_context(|| format!("writing {}", file.display()))?;
    }
    Ok(())
}

/// Starts and fills all that are installed.
fn field(bench: &mut Bench, ours: &BindingTarget) -> anyhow::Result<Field> {
    let (cores, folder) = (bench.cores, bench.place.path("rivals"));
    let started = [
        ("nginx", "nginx-light", nginx::start(&folder.join("nginx"), KEYS, ours)?),
        ("redis", "redis-server", redis::start(&folder.join("redis"))?),
        ("nats", "nats-server", nats::start(&folder.join("nats"))?),
        ("etcd", "etcd-server", etcd::start(&folder.join("etcd"))?),
        ("prometheus", "prometheus", prometheus::prometheus(&folder.join("prometheus"), KEYS)?),
        ("pushgateway", "prometheus-pushgateway", prometheus::push_gateway(&folder.join("push"))?),
        ("victoria-metrics", "victoria-metrics", prometheus::victoria_metrics(&folder.join("victoria"))?),
    ];
    let mut rivals = Vec::new();
    for (name, package, rival) in started {
        match rival {
            Some(rival) => rivals.push(rival),
            None => bench.report.about(format!("{name} is left out: apt-get install {package}")),
        }
    }
    let paper = paper::start(&folder.join("paper"))?;
    if paper.is_none() {
        bench.report.about("the paper's design is left out: tests/bench/peers/prepare builds it".to_owned());
    }
    let pgbench = Pgbench::start(&folder.join("pgbench"), KEYS)?;
    if pgbench.is_none() {
        bench.report.about("pgbench is left out: apt-get install postgresql".to_owned());
    }
    let field = Field { rivals, paper, pgbench };
    for rival in field.rivals() {
        bench.report.about(format!("{}: {}", rival.name, rival.remark));
        if rival.read.is_some() && rival.write.is_some() {
            rival.fill(cores, KEYS).with_context(|| format!("filling {}", rival.name))?;
        }
    }
    Ok(field)
}

fn reads(bench: &mut Bench, ours: &BindingTarget, field: &Field) -> anyhow::Result<()> {
    let what = format!("one value of {}", rounded(KEYS.count() as f64));
    bench.report.part(&format!("reads, {CONNECTIONS} connections, one core"));
    let requests = ReadOne(KEYS, Rng::with_seed(3));
    let own = side(bench.cores, &ours.process, CONNECTIONS, requests);
    let sides = sides_of(bench, field, |rival| rival.read);
    beside(bench, &what, own, sides, |name| match name {
        "nginx" => Some(AIM_OF_NGINX),
        "redis" => Some(AIM_OF_REDIS_READS),
        _ => None,
    })
}

fn writes(bench: &mut Bench, ours: &BindingTarget, field: &Field) -> anyhow::Result<()> {
    bench.report.part(&format!("single writes, {CONNECTIONS} connections, one core"));
    let requests = WriteOne::new(KEYS, Rng::with_seed(5));
    let own = side(bench.cores, &ours.process, CONNECTIONS, requests);
    let mut sides = sides_of(bench, field, |rival| rival.write);
    if let Some(pgbench) = &field.pgbench {
        sides.push(("postgresql, by pgbench", pgbench.side(bench.cores)));
    }
    beside(bench, "one durable write", own, sides, |name| (name == "redis").then_some(AIM_OF_REDIS_WRITES))
}

type NamedSide<'a> = (&'static str, Side<'a>);

fn sides_of<'a>(
    bench: &Bench,
    field: &'a Field,
    render: impl Fn(&Rival) -> Option<Render>,
) -> Vec<NamedSide<'a>> {
    let loaded = field.rivals().filter_map(|rival| Some((rival, render(rival)?)));
    loaded.map(|(rival, render)| (rival.name, rival.side(bench.cores, KEYS, render))).collect()
}

/// Warms all up, has them take turns, and reports each beside ours.
fn beside(
    bench: &mut Bench,
    what: &str,
    own: Side<'_>,
    rivals: Vec<NamedSide<'_>>,
    aim: impl Fn(&str) -> Option<f64>,
) -> anyhow::Result<()> {
    let (names, mut sides): (Vec<_>, Vec<_>) = rivals.into_iter().unzip();
    sides.insert(0, own);
    for side in &mut sides {
        warm(side, bench.plan.time)?;
    }
    let rounds = contest_of_all(bench.plan, sides)?;
    let Some((ours, others)) = rounds.split_first() else { return Ok(()) };
    for (name, theirs) in names.iter().zip(others) {
        bench.report.ratio(what, name, aim(name), ours, theirs);
    }
    for (name, rounds) in std::iter::once(&"estimand").chain(&names).zip(&rounds) {
        if let Some(micros) = rounds.cpu_us() {
            bench.report.figure(&format!("  {what}, {name}: processor time"), micros, "µs");
        }
    }
    Ok(())
}

/// The cost of a read by how many keys there are: time grows as the number of keys to the power of the exponent.
fn growth(bench: &mut Bench) -> anyhow::Result<()> {
    bench.report.part_alone("growth of one read, from 1,000 to 100,000 values: time ~ values ^ exponent");
    let mut ours = Vec::new();
    let mut others = Vec::new();
    for (step, times) in GROWTH.into_iter().enumerate() {
        let keys = Keys { names: SEED.names * times, ..SEED };
        let folder = bench.place.path(&format!("growth-{step}"));
        let served = BindingTarget::start(bench.cores, keys, Some(&folder.join("service")), None)?;
        served.fill()?;
        let rivals = [redis::start(&folder.join("redis"))?, etcd::start(&folder.join("etcd"))?];
        let rivals: Vec<Rival> = rivals.into_iter().flatten().collect();
        let mut sides =
            vec![side(bench.cores, &served.process, CONNECTIONS, ReadOne(keys, Rng::with_seed(3)))];
        for rival in &rivals {
            rival.fill(bench.cores, keys)?;
            sides.extend(rival.read.map(|render| rival.side(bench.cores, keys, render)));
        }
        let rounds = contest_of_all(bench.plan, sides)?;
        let names = rivals.iter().map(|rival| rival.name);
        others.extend(names.zip(rounds[1..].iter().map(rate)));
        ours.push(("estimand", rate(&rounds[0])));
    }
    let mut names: Vec<&str> = others.iter().map(|(name, _)| *name).collect();
    names.sort_unstable();
    names.dedup();
    for name in std::iter::once("estimand").chain(names) {
        let rates = ours.iter().chain(&others).filter(|(whose, _)| *whose == name).map(|(_, rate)| *rate);
        bench.report.figure(&format!("  {name}"), exponent(&rates.collect::<Vec<_>>()), "");
    }
    Ok(())
}

fn rate(rounds: &Rounds) -> f64 {
    rounds.per_second()
}

/// Between the first and the last step.
fn exponent(rates: &[f64]) -> f64 {
    let (Some(first), Some(last)) = (rates.first(), rates.last()) else { return f64::NAN };
    let growth = f64::from(GROWTH[GROWTH.len() - 1]) / f64::from(GROWTH[0]);
    (first / last).ln() / growth.ln()
}

fn about_this_machine(bench: &mut Bench) {
    let now = std::process::Command::new("date").args(["-u", "+%Y-%m-%d"]).output();
    let words = |path: &str, key: &str| {
        let text = fs::read_to_string(path).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix(key)?.split_once(':'));
        line.map(|(_, value)| value.trim().to_owned()).unwrap_or_default()
    };
    let date = now.map(|now| String::from_utf8_lossy(&now.stdout).trim().to_owned()).unwrap_or_default();
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    // Those of the machine: this thread may have one only.
    let processors = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let cores = processors.lines().filter(|line| line.starts_with("processor")).count();
    bench.report.about(format!(
        "{date}, Linux {}, {} ({cores} cores)",
        kernel.trim(),
        words("/proc/cpuinfo", "model name")
    ));
    for (program, flag) in [
        ("nginx", "-v"),
        ("redis-server", "--version"),
        ("nats-server", "--version"),
        ("etcd", "--version"),
        ("prometheus", "--version"),
        ("prometheus-pushgateway", "--version"),
        ("victoria-metrics", "-version"),
        ("java", "--version"),
    ] {
        let Some(path) = find(program) else { continue };
        bench.report.about(first_line(&path, flag).unwrap_or_else(|| format!("{program} says no version")));
    }
}

fn first_line(program: &Path, flag: &str) -> Option<String> {
    let output = std::process::Command::new(program).arg(flag).output().ok()?;
    let said = [output.stdout, output.stderr].concat();
    String::from_utf8_lossy(&said).lines().find(|line| !line.is_empty()).map(str::to_owned)
}
