//! Containers a second of an agent, against the engine's own command line.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use estimand_testkit::docker::{Docker, IMAGE};
use serde_json::json;

use super::starts::many;
use super::{submit, succeeded};
use crate::bench::Bench;
use crate::contest::{Sample, Side, contest};
use crate::histogram::Histogram;
use crate::peer::find;
use crate::plane::Plane;

const TARGET: f64 = 1.0;
const AT_ONCE: usize = 4;
/// Containers of a round.
const MANY: usize = 32;

/// Both sides use one engine, which has no network.
pub fn measure(bench: &mut Bench) -> anyhow::Result<()> {
    let (Some(client), Some(_)) = (find("docker"), find("dockerd")) else {
        bench.report.about("containers are left out: apt-get install docker.io".to_owned());
        return Ok(());
    };
    let (cores, plan) = (bench.cores, bench.plan);
    let plane = Plane::start(cores, &bench.place.path("task-containers"))?;
    let docker = Docker::start_own(false);
    let socket = docker.socket().to_str().context("a path of the bench is text")?;
    let label = format!("tasks={AT_ONCE}");
    let options = ["--docker", socket, "--allow-image", "estimand/*", "--label", &label];
    let _agent = plane.agent("bench", &options)?;
    let document = json!({ "image": IMAGE, "command": ["true"] });
    let http = plane.http();
    // The first one waits for the node to be known.
    cores.on_load_core(|| succeeded(&http, &submit(&http, &document)?))?;
    let base = plane.services.base_url();
    let ours: Side<'_> = Box::new(|_| cores.on_load_core(|| many(base, &document, MANY)));
    let host = format!("unix://{socket}");
    let run = || -> anyhow::Result<()> {
        let mut command = Command::new(&client);
        command.args(["--host", &host, "run", "--rm", "--network", "none", IMAGE, "true"]);
        let output = command.stdin(Stdio::null()).output().context("docker run")?;
        ensure!(output.status.success(), "docker run: {}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    };
    let theirs: Side<'_> = Box::new(|_| at_once(&run));
    let [ours, theirs] = contest(plan, [ours, theirs])?;
    let report = &mut bench.report;
    report.part(&format!("containers a second of an agent, {MANY} submitted at once, {AT_ONCE} at a time"));
    report.ratio("containers of busybox", "docker run --rm, 4 at a time", Some(TARGET), &ours, &theirs);
    Ok(())
}

/// As many, by a few that do one after the other.
fn at_once(run: &(impl Fn() -> anyhow::Result<()> + Sync)) -> anyhow::Result<Sample> {
    let began = Instant::now();
    let latencies = std::thread::scope(|scope| {
        let worker = || -> anyhow::Result<Vec<Duration>> {
            let timed = |_| {
                let began = Instant::now();
                run().map(|()| began.elapsed())
            };
            (0..MANY / AT_ONCE).map(timed).collect()
        };
        let workers: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(worker)).collect();
        let mut latencies = Histogram::default();
        for worker in workers {
            let times = worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            times.into_iter().for_each(|time| latencies.record(time));
        }
        anyhow::Ok(latencies)
    })?;
    Ok(Sample::new(latencies, began.elapsed()))
}
