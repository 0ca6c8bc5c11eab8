//! From a submission to its process, and how many tasks a second one agent gets done.

use std::time::{Duration, Instant};

use estimand_testkit::http::Http;
use serde_json::{Value, json};

use super::{all_over, now, printed, submit, succeeded};
use crate::bench::Bench;
use crate::contest::{Sample, Side, contest};
use crate::histogram::Histogram;
use crate::plane::Plane;
use crate::spawn::{self, Program};

/// The goal of p99 from a submission to its process.
const SOON: Duration = Duration::from_millis(50);
const TARGET: f64 = 0.6;
const AT_ONCE: usize = 4;
/// The places of a node whose label does not say how many.
const BY_DEFAULT: usize = 256;
const SUBMITTERS: usize = 16;
/// Tasks of one after the other, and of a round of many.
const SINGLE: usize = 200;
const MANY: usize = 320;

pub fn measure(bench: &mut Bench) -> anyhow::Result<()> {
    let cores = bench.cores;
    let plane = Plane::start(cores, &bench.place.path("task-starts"))?;
    let agent = plane.agent("bench", &["--label", &format!("tasks={AT_ONCE}"), "--label", "side=bench"])?;
    let http = plane.http();
    let singles = cores.on_load_core(|| {
        // The first one waits for the node to be known.
        single(&http, "bench")?;
        let mut times = (Histogram::default(), Histogram::default());
        for _ in 0..SINGLE {
            let (started, known) = single(&http, "bench")?;
            times.0.record(started);
            times.1.record(known);
        }
        anyhow::Ok(times)
    })?;
    let report = &mut bench.report;
    report.part_alone("a task on an idle cluster");
    let what = format!("from a submission until the program reads the clock (to stay under {SOON:?})");
    report.timing(&what, &singles.0);
    report.timing("  until its end is known", &singles.1);

    let program = Program { path: c"/bin/true", prints: None };
    of_agent(bench, &plane, "bench", program, AT_ONCE)?;
    drop(agent);
    // As an agent has it by default: so a node does not wait for the way to the planner and back.
    let _agent = plane.agent("many", &["--label", "side=many"])?;
    cores.on_load_core(|| single(&http, "many").map(drop))?;
    of_agent(bench, &plane, "many", program, BY_DEFAULT)
}

/// How many tasks a second get done on this node with so many places.
fn of_agent(
    bench: &mut Bench,
    plane: &Plane,
    node: &str,
    program: Program<'_>,
    places: usize,
) -> anyhow::Result<()> {
    let (cores, plan, base) = (bench.cores, bench.plan, plane.services.base_url());
    let document = json!({ "command": ["/bin/true"], "nodes": format!("side={node}") });
    let ours: Side<'_> = Box::new(move |_| cores.on_load_core(|| many(base, &document, MANY)));
    let bare: Side<'_> = Box::new(move |time| spawn::run(program, AT_ONCE, time));
    let [ours, bare] = contest(plan, [ours, bare])?;
    let report = &mut bench.report;
    report.part(&format!("tasks a second of an agent, {MANY} submitted at once, {places} places"));
    report.ratio("/bin/true", "posix_spawn and waitpid, 4 at a time", Some(TARGET), &ours, &bare);
    Ok(())
}

/// How long a task of this node took until its program ran, and until its end was known. Without the node, a task could be
/// placed on one that has just gone.
fn single(http: &Http, node: &str) -> anyhow::Result<(Duration, Duration)> {
    let began = now();
    let id = submit(http, &json!({ "command": ["/bin/date", "+%s%N"], "nodes": format!("side={node}") }))?;
    succeeded(http, &id)?;
    let known = now().saturating_sub(began);
    let page = http.get(&format!("/api/tasks/{id}/logs")).expect_status(200).json();
    let at = printed(page["lines"][0]["text"].as_str().unwrap_or_default())?;
    Ok((at.saturating_sub(began), known))
}

/// Many are submitted at once; the sample is of them all until the last one is over.
pub fn many(base: &str, document: &Value, tasks: usize) -> anyhow::Result<Sample> {
    let began = Instant::now();
    std::thread::scope(|scope| {
        let submitter = || {
            let http = Http::new(base);
            (0..tasks / SUBMITTERS).try_for_each(|_| submit(&http, document).map(drop))
        };
        let submitters: Vec<_> = (0..SUBMITTERS).map(|_| scope.spawn(submitter)).collect();
        submitters
            .into_iter()
            .try_for_each(|one| one.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })?;
    all_over(&Http::new(base))?;
    let elapsed = began.elapsed();
    let mut latencies = Histogram::default();
    (0..tasks).for_each(|_| latencies.record(elapsed));
    Ok(Sample::new(latencies, elapsed))
}
