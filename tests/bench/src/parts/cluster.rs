//! From a registration to its values, and what a manager takes for many nodes.
//!
//! First with five real agents, which share the core of the measured processes while the services have the load's.
//! Then with agents that are only simulated, from the load's core, while all services are on the other one:
//! there the manager is a process of its own, so that its use of resources is that of a manager alone.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use estimand_api::names::DataName;
use estimand_testkit::http::Http;
use estimand_testkit::process::{Estimand, free_port};
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use crate::bench::Bench;
use crate::contest::Spread;
use crate::fleet::Fleet;
use crate::histogram::Histogram;
use crate::plane::{Agent, Plane, register, unregister};
use crate::served::program;

const REAL_AGENTS: usize = 5;
const REGISTRATIONS: usize = 30;
const FLEETS: [usize; 2] = [1_000, 10_000];
/// The slots that each simulated agent runs all the time.
const SLOTS: usize = 10;
const FLEET_REGISTRATIONS: usize = 10;
/// Until nothing of the joining is left: the longest that a question waits, and a heartbeat.
const SETTLE: Duration = Duration::from_secs(5);
/// At least one heartbeat of each of the largest fleet.
const WATCHED: Duration = Duration::from_secs(15);
const PATIENCE: Duration = Duration::from_secs(60);
const MEBIBYTE: f64 = 1024.0 * 1024.0;

pub fn measure(bench: &mut Bench) -> anyhow::Result<()> {
    real(bench)?;
    simulated(bench)
}

fn real(bench: &mut Bench) -> anyhow::Result<()> {
    bench.report.part_alone(&format!("a registration, {REAL_AGENTS} agents"));
    let plane = Plane::start(bench.cores, &bench.place.path("five"))?;
    let agent = |number| plane.agent(&format!("node-{number}"), &[]);
    let agents: Vec<Agent> = (0..REAL_AGENTS).map(agent).collect::<anyhow::Result<_>>()?;
    // Each of them runs something already, so that none is just starting.
    plane.register([registration("before")])?;
    agents.iter().try_for_each(|agent| plane.until_run(agent, 1))?;
    let (mut first, mut all) = (Histogram::default(), Histogram::default());
    bench.cores.on_load_core(|| {
        let http = plane.http();
        for number in 0..REGISTRATIONS {
            let name = format!("bench_{number:02}");
            let (to_first, to_all) = until_everywhere(&http, &name)?;
            first.record(to_first);
            all.record(to_all);
            unregister(&http, &name)?;
        }
        Ok(())
    })?;
    bench.report.timing("until the first value is readable", &first);
    bench.report.timing(&format!("until the values of all {REAL_AGENTS} are"), &all);
    Ok(())
}

/// Registers it, and reads its values until there is one, and one of each agent.
fn until_everywhere(http: &Http, name: &str) -> anyhow::Result<(Duration, Duration)> {
    let began = Instant::now();
    register(http, &registration(name))?;
    let mut first = None;
    loop {
        let count = count_values(http, name)?;
        let elapsed = began.elapsed();
        if count > 0 {
            first.get_or_insert(elapsed);
        }
        if count == REAL_AGENTS {
            return Ok((first.unwrap_or(elapsed), elapsed));
        }
        ensure!(elapsed < PATIENCE, "{count} values of {name} after {elapsed:?}");
        thread::sleep(Duration::from_micros(500));
    }
}

fn registration(name: &str) -> Value {
    json!({ "dataName": name, "cmd": ["/bin/echo", "1"], "max-Time": 10 })
}

fn count_values(http: &Http, name: &str) -> anyhow::Result<usize> {
    let answer = http.get(&format!("/api/data?dataName={name}"));
    ensure!(answer.status == 200, "reading {name}: {answer}");
    Ok(serde_json::from_slice::<Vec<IgnoredAny>>(&answer.body)?.len())
}

/// The services, each in a process of its own.
struct Services {
    data: Estimand,
    registry: Estimand,
    manager: Estimand,
}

impl Services {
    fn start(bench: &Bench) -> anyhow::Result<Self> {
        // The registry has to know where the manager will be.
        let port = free_port();
        let start = |name: &str, more: &[&str], port: u16| {
            let builder = Estimand::builder(program()?).args([name, "--workers", "1"]);
            let builder = builder.args(more.iter().copied()).data_dir(bench.place.path(name)).port(port);
            builder.try_start().map_err(anyhow::Error::msg)
        };
        let data = start("data", &[], 0)?;
        let to_manager = format!("http://127.0.0.1:{port}");
        let told = ["--data-service", data.base_url(), "--manager", &to_manager];
        let registry = start("registry", &told, 0)?;
        let told = ["--data-service", data.base_url(), "--registry", registry.base_url()];
        let manager = start("manager", &told, port)?;
        Ok(Services { data, registry, manager })
    }
}

fn simulated(bench: &mut Bench) -> anyhow::Result<()> {
    let services = Services::start(bench)?;
    let http = services.registry.http();
    for slot in 0..SLOTS {
        register(&http, &registration(&format!("before_{slot}")))?;
    }
    let empty = services.manager.rss_bytes();
    let fleet = Fleet::new(bench.cores, services.manager.base_url(), services.data.base_url())?;
    for count in FLEETS {
        let fleet_of =
            format!("{} simulated agents with {SLOTS} slots each", crate::report::rounded(count as f64));
        bench.report.part_alone(&fleet_of);
        fleet.grow_to(count)?;
        thread::sleep(SETTLE);
        manager_takes(bench, &services, &fleet, empty)?;
        if count == FLEETS[0] {
            first_values(bench, &services, &fleet, count)?;
        }
    }
    Ok(())
}

/// The manager's use for them; they speak to it as often as it tells them to.
fn manager_takes(bench: &mut Bench, services: &Services, fleet: &Fleet, empty: u64) -> anyhow::Result<()> {
    let failed_before = fleet.failures().0;
    let (began, cpu, answered) = (Instant::now(), services.manager.cpu_time(), fleet.answered());
    thread::sleep(WATCHED);
    let (elapsed, cpu) = (began.elapsed().as_secs_f64(), services.manager.cpu_time() - cpu);
    let (beats, questions) = fleet.answered();
    let (failed, last) = fleet.failures();
    let rss = services.manager.rss_bytes();
    let report = &mut bench.report;
    report.figure("the manager's processor time", cpu.as_secs_f64() / elapsed, "cores");
    report.figure("  heartbeats answered", (beats - answered.0) as f64 / elapsed, "/s");
    report.figure("  questions answered", (questions - answered.1) as f64 / elapsed, "/s");
    if failed > failed_before {
        let what = format!("  requests that were sent again, the last because {last}");
        report.figure(&what, (failed - failed_before) as f64, "");
    }
    report.figure("the manager's resident memory", rss as f64 / MEBIBYTE, "MiB");
    report.figure("  when it knew no node", empty as f64 / MEBIBYTE, "MiB");
    Ok(())
}

/// From a registration until each of the fleet has said a first value and that is stored.
fn first_values(bench: &mut Bench, services: &Services, fleet: &Fleet, count: usize) -> anyhow::Result<()> {
    let (registry, data) = (services.registry.http(), services.data.http());
    let (mut middle, mut last) = (Vec::new(), Vec::new());
    for number in 0..FLEET_REGISTRATIONS {
        let name = format!("bench_{number:02}");
        let began = Instant::now();
        register(&registry, &registration(&name))?;
        let stored = fleet.stored(&DataName::parse(&name)?, count)?;
        let mut took: Vec<f64> =
            stored.iter().map(|at| at.duration_since(began).as_secs_f64() * 1e3).collect();
        took.sort_by(f64::total_cmp);
        middle.push(took[took.len() / 2]);
        last.push(*took.last().context("values")?);
        let readable = count_values(&data, &name)?;
        ensure!(readable == count, "{readable} values are readable of {count} that were acknowledged");
        unregister(&registry, &name)?;
    }
    for (what, took) in [("middle", middle), ("last", last)] {
        let Spread { median, min, max } = Spread::of(took);
        let what = format!("from a registration to the {what} value ({min:.0} to {max:.0})");
        bench.report.figure(&what, median, "ms");
    }
    Ok(())
}
