//! The cost of monitoring a node: the default collectors, beside the programs that people use for that elsewhere.
//!
//! All contenders measure the same machine at the same time and on the same core, and are read once a round:
//! processor time and memory of the process and of all below it. A process that asks for the figures or stores them
//! has the other core, unless it is also the one that measures. A peer that is not installed is named and left out.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::ensure;
use estimand_collectors as collectors;
use estimand_testkit::http::Http;
use estimand_testkit::process::{Estimand, free_port};
use estimand_testkit::processes;
use serde_json::{Value, json};

use crate::bench::Bench;
use crate::contest::Spread;
use crate::peer::{Peer, Scraper, find};
use crate::plane::{Agent, Plane, register};
use crate::served::program;
use crate::usage::Cpu;

const NODE: &str = "bench";
const INTERVAL: Duration = Duration::from_secs(5);
/// A round is so many times as long as that of other parts: a minute, with the default options.
const LONGER: u32 = 40;
/// Until nothing of the starts is left.
const SETTLE: Duration = Duration::from_secs(20);
const PATIENCE: Duration = Duration::from_secs(60);
/// Of the default set, what every machine has; among them the ones that are asked least often.
const EVERYWHERE: [&str; 4] = ["cpu", "memory", "disk", "system"];
const MEBIBYTE: f64 = 1024.0 * 1024.0;
const EXPORTER: &str = "node-exporter";
const EXPORTER_PACKAGE: &str = "prometheus-node-exporter";
const COLLECTD: &str = "collectd";
const COLLECTD_PACKAGE: &str = "collectd-core";
const COLLECTD_MODULES: &str = "/usr/lib/collectd";
const COLLECTD_TYPES: &str = "/usr/share/collectd/types.db";
const COLLECTD_PLUGINS: [&str; 9] =
    ["cpu", "memory", "load", "df", "disk", "interface", "processes", "swap", "uptime"];

pub fn measure(bench: &mut Bench) -> anyhow::Result<()> {
    let round = bench.plan.time * LONGER;
    let rounds = bench.plan.rounds;
    bench.report.part_alone(&format!(
        "what the default collectors take, {rounds} rounds of {} s, all at the same time",
        round.as_secs_f64()
    ));
    let mut contenders = contenders(bench)?;
    std::thread::sleep(SETTLE.min(round));
    for _ in 0..rounds {
        let before: Vec<(Instant, Duration)> =
            contenders.iter().map(Contender::look).collect::<anyhow::Result<_>>()?;
        std::thread::sleep(round);
        for (contender, (began, cpu)) in contenders.iter_mut().zip(before) {
            let (now, after) = contender.look()?;
            let share = after.saturating_sub(cpu).as_secs_f64() / (now - began).as_secs_f64();
            contender.millis.push(share * 1e3);
            contender.mebibytes.push(contender.running.resident_bytes() as f64 / MEBIBYTE);
        }
    }
    report(bench, &contenders)
}

fn report(bench: &mut Bench, contenders: &[Contender]) -> anyhow::Result<()> {
    let report = &mut bench.report;
    for contender in contenders {
        let Contender { what, running, millis, mebibytes } = contender;
        let figures = running.figures()?;
        ensure!(figures > 0, "{what} measured nothing");
        report.spread(&format!("{what}: processor time"), Spread::of(millis.iter().copied()), "ms/s");
        report.spread("  resident memory", Spread::of(mebibytes.iter().copied()), "MiB");
        report.figure("  numbers that it gives", figures as f64, "");
    }
    let peers = contenders.iter().filter(|contender| contender.running.is_peer());
    for peer in peers {
        for ours in contenders.iter().filter(|contender| !contender.running.is_peer()) {
            let pairs = ours.millis.iter().zip(&peer.millis).filter(|(_, theirs)| **theirs > 0.0);
            let ratios: Vec<f64> = pairs.map(|(ours, theirs)| ours / theirs).collect();
            if !ratios.is_empty() {
                let what = format!("{}, against {}", ours.what, peer.what);
                report.spread(&what, Spread::of(ratios), "times the processor time");
            }
        }
    }
    Ok(())
}

/// A program that measures this machine.
struct Contender {
    what: &'static str,
    running: Running,
    /// Of processor time a second, by round.
    millis: Vec<f64>,
    mebibytes: Vec<f64>,
}

enum Running {
    Up(Estimand),
    Agent(Box<(Plane, Agent)>),
    Exporter(Peer, Scraper, Http),
    /// And the folder that it writes into.
    Collectd(Peer, PathBuf),
}

/// The intervals at which the default set is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Intervals {
    TheirOwn,
    AllTheSame,
}

fn contenders(bench: &mut Bench) -> anyhow::Result<Vec<Contender>> {
    use Intervals::{AllTheSame, TheirOwn};
    let mut running = vec![
        ("estimand up", up(bench, TheirOwn)?),
        ("estimand up, all at 5 s", up(bench, AllTheSame)?),
        ("estimand agent", agent(bench, TheirOwn)?),
        ("estimand agent, all at 5 s", agent(bench, AllTheSame)?),
    ];
    let folder = bench.place.path("peers");
    match find(EXPORTER_PACKAGE) {
        Some(program) => running.push((EXPORTER, exporter(bench, &program, &folder.join(EXPORTER))?)),
        None => left_out(bench, EXPORTER, EXPORTER_PACKAGE),
    }
    match find(COLLECTD).filter(|_| Path::new(COLLECTD_TYPES).is_file()) {
        Some(program) => running.push((COLLECTD, collectd(&program, &folder.join(COLLECTD))?)),
        None => left_out(bench, COLLECTD, COLLECTD_PACKAGE),
    }
    let contender = |(what, running)| Contender { what, running, millis: Vec::new(), mebibytes: Vec::new() };
    Ok(running.into_iter().map(contender).collect())
}

fn left_out(bench: &mut Bench, program: &str, package: &str) {
    bench.report.about(format!("{program} is left out: it is not installed (apt-get install {package})"));
}

/// Everything in one process.
fn up(bench: &Bench, intervals: Intervals) -> anyhow::Result<Running> {
    let args = ["up", "--node", NODE, "--defaults", intervals.defaults()];
    let folder = bench.place.path(&format!("up-{intervals:?}"));
    let builder = Estimand::builder(program()?).args(args).data_dir(folder);
    let process = builder.try_start().map_err(anyhow::Error::msg)?;
    intervals.prepare(&process.http())?;
    Ok(Running::Up(process))
}

/// An agent; all else is on the load's core.
fn agent(bench: &Bench, intervals: Intervals) -> anyhow::Result<Running> {
    let folder = bench.place.path(&format!("agent-{intervals:?}"));
    let plane = Plane::start_with(bench.cores, &folder, intervals.defaults())?;
    let agent = plane.agent(NODE, &[])?;
    intervals.prepare(&plane.http())?;
    Ok(Running::Agent(Box::new((plane, agent))))
}

fn exporter(bench: &Bench, program: &Path, folder: &Path) -> anyhow::Result<Running> {
    let address = format!("127.0.0.1:{}", free_port());
    let base = format!("http://{address}");
    let args = [format!("--web.listen-address={address}"), "--log.level=error".to_owned()];
    let mut peer = Peer::start(program, args, folder)?;
    let http = Http::new(&base);
    peer.until("it answers", || {
        http.try_request("GET", "/metrics", &[], b"").is_ok_and(|answer| answer.status == 200)
    })?;
    let scraper = Scraper::start(bench.cores, base, "/metrics", INTERVAL)?;
    Ok(Running::Exporter(peer, scraper, http))
}

fn collectd(program: &Path, folder: &Path) -> anyhow::Result<Running> {
    fs::create_dir_all(folder)?;
    let (config, values) = (folder.join("collectd.conf"), folder.join("values"));
    let plugins: String = COLLECTD_PLUGINS.iter().map(|plugin| format!("LoadPlugin {plugin}\n")).collect();
    let text = format!(
        "Hostname \"{NODE}\"\nFQDNLookup false\nInterval {}\nBaseDir \"{folder}\"\nPIDFile \"{folder}/pid\"\n\
         PluginDir \"{COLLECTD_MODULES}\"\nTypesDB \"{COLLECTD_TYPES}\"\n{plugins}LoadPlugin csv\n\
         <Plugin csv>\n  DataDir \"{}\"\n  StoreRates true\n</Plugin>\n",
        INTERVAL.as_secs(),
        values.display(),
        folder = folder.display(),
    );
    fs::write(&config, text)?;
    let mut peer = Peer::start(program, ["-f".as_ref(), "-C".as_ref(), config.as_os_str()], folder)?;
    peer.until("it writes a value", || columns(&values).is_ok_and(|columns| columns > 0))?;
    Ok(Running::Collectd(peer, values))
}

impl Intervals {
    fn defaults(self) -> &'static str {
        match self {
            Intervals::TheirOwn => "standard",
            Intervals::AllTheSame => "none",
        }
    }

    /// Registers the default set if the service does not do so by itself, and waits for the first values.
    fn prepare(self, http: &Http) -> anyhow::Result<()> {
        if self == Intervals::AllTheSame {
            for kind in collectors::ALL {
                let Some(default) = kind.default else { continue };
                let mut body = json!({
                    "dataName": kind.name, "mode": "builtin", "cmd": kind.name, "max-Time": INTERVAL.as_secs(),
                });
                if default.once {
                    (body["format"], body["replicas"]) = (json!("nodes"), json!(1));
                }
                register(http, &body)?;
            }
        }
        let began = Instant::now();
        for name in EVERYWHERE {
            while http.get(&format!("/api/data/{name}/{NODE}")).status != 200 {
                ensure!(began.elapsed() < PATIENCE, "no value of {name} after {PATIENCE:?}");
                std::thread::sleep(Duration::from_millis(50));
            }
        }
        Ok(())
    }
}

impl Contender {
    /// Its use so far.
    fn look(&self) -> anyhow::Result<(Instant, Duration)> {
        if let Running::Exporter(_, scraper, _) = &self.running {
            ensure!(scraper.is_well(), "{} is not asked any more", self.what);
        }
        Ok((Instant::now(), Cpu::of_all_below(self.running.pid())?))
    }
}

impl Running {
    fn pid(&self) -> u32 {
        match self {
            Running::Up(process) => process.pid(),
            Running::Agent(both) => both.1.process.pid(),
            Running::Exporter(peer, ..) | Running::Collectd(peer, _) => peer.pid(),
        }
    }

    fn is_peer(&self) -> bool {
        matches!(self, Running::Exporter(..) | Running::Collectd(..))
    }

    /// Its own and that of all processes below it.
    fn resident_bytes(&self) -> u64 {
        let below = processes::descendants(self.pid()).into_iter().map(|process| process.pid);
        below.chain([self.pid()]).filter(|pid| processes::is_alive(*pid)).map(processes::rss_bytes).sum()
    }

    /// How many numbers it gives of this node.
    fn figures(&self) -> anyhow::Result<usize> {
        match self {
            Running::Up(process) => values(&process.http()),
            Running::Agent(both) => values(&both.0.http()),
            Running::Exporter(_, _, http) => {
                let page = String::from_utf8(http.get("/metrics").expect_status(200).body)?;
                // Its values about itself do not count.
                Ok(page.lines().filter(|line| line.starts_with("node_")).count())
            }
            Running::Collectd(_, folder) => columns(folder),
        }
    }
}

/// The numbers in all values of the node.
fn values(http: &Http) -> anyhow::Result<usize> {
    let answer = http.get(&format!("/api/data?dataName=*&dataNode={NODE}"));
    ensure!(answer.status == 200, "reading all values: {answer}");
    let values: Vec<Value> = serde_json::from_slice(&answer.body)?;
    Ok(values.iter().map(|value| numbers(&value["dataValue"])).sum())
}

fn numbers(value: &Value) -> usize {
    match value {
        Value::Number(_) => 1,
        Value::Array(parts) => parts.iter().map(numbers).sum(),
        Value::Object(parts) => parts.values().map(numbers).sum(),
        Value::Null | Value::Bool(_) | Value::String(_) => 0,
    }
}

/// The columns of all tables below a folder, of which the first is the time.
fn columns(folder: &Path) -> anyhow::Result<usize> {
    let mut count = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        count += if entry.file_type()?.is_dir() {
            columns(&entry.path())?
        } else {
            let text = fs::read_to_string(entry.path())?;
            text.lines().next().map_or(0, |header| header.matches(',').count())
        };
    }
    Ok(count)
}
