//! Policies of placement with real agents: eight nodes of a small part of a processor each, one of which is busy with
//! something else, and short tasks that arrive by chance.
//!
//! All policies get the same tasks at the same times. A node is a control group with a limit; its pressure is the number of
//! processes in it that want to run, as a collector counts them.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use estimand_api::task_record::TaskRecord;
use estimand_show::Groups;
use estimand_testkit::http::Http;
use estimand_testkit::process::Estimand;
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

use super::tasks::all_over;
use crate::bench::Bench;
use crate::contest::Spread;
use crate::plane::{Plane, register};
use crate::served::program;

const NODES: [&str; 8] = ["n1", "n2", "n3", "n4", "n5", "n6", "n7", "n8"];
/// The one with a process beside its tasks that never rests.
const BUSY: &str = "n1";
/// All of them together leave some of the measured core to their agents.
const CORES_OF_A_NODE: f64 = 0.1;
/// How long a task takes alone on a node, on average.
const SERVICE: Duration = Duration::from_secs(2);
/// As many in proportion to the service as `estimand simulate` has by default.
const FACTS_EVERY: Duration = Duration::from_millis(2500);
/// Of all nodes together, the busy one among them.
const LOAD: f64 = 0.6;
const TASKS: usize = 200;
const POLICIES: [&str; 4] = ["random", "least-pressure", "two-choices", "estimated"];
const PRESSURE: &str = "node_pressure";
const RUNNABLE: &str = "runnable";
const PATIENCE: Duration = Duration::from_secs(60);

/// Enters groups by the files before `--`, and becomes the command behind it.
const ENTER: &str = r#"while [ "$1" != -- ]; do echo $$ > "$1" || exit 1; shift; done; shift; exec "$@""#;
/// Counts the processes of the node's group that run or wait for the processor, without itself.
const COUNT: &str = r#"n=-1
while read -r pid; do
    read -r _ _ state _ 2>/dev/null < "/proc/$pid/stat" && [ "$state" = R ] && n=$((n + 1))
done < "$ESTIMAND_PARAM_GROUPS/$ESTIMAND_NODE/cgroup.procs"
echo "$n""#;

/// A task: after the one before by so much, and so much of a processor.
#[derive(Debug, Clone, Copy)]
struct Arrival {
    after: Duration,
    work: Duration,
}

/// A process that is killed with the value.
struct Hog(Child);

impl Drop for Hog {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub fn measure(bench: &mut Bench) -> anyhow::Result<()> {
    let (cores, rounds) = (bench.cores, bench.plan.rounds);
    let groups = Groups::find(&NODES, enters).context("no control groups can be made here")?;
    NODES.iter().try_for_each(|node| groups.limit(node, CORES_OF_A_NODE))?;
    let plane = Plane::start(cores, &bench.place.path("placement"))?;
    let base = plane.services.base_url();
    let _agents =
        NODES.map(|node| agent(&groups, node, base)).into_iter().collect::<anyhow::Result<Vec<_>>>()?;
    let http = plane.http();
    measure_pressure(&http, &groups)?;
    let busy = ["sh", "-c", "while :; do :; done"].map(String::from);
    let _hog = Hog(entered(&groups, BUSY, busy).stdin(Stdio::null()).spawn().context("a busy process")?);
    // The facts have seen it before the first task comes.
    std::thread::sleep(2 * FACTS_EVERY);

    let mut responses = POLICIES.map(|_| (Vec::<f64>::new(), Vec::<f64>::new()));
    for round in 0..rounds {
        let arrivals = arrivals(u64::from(round));
        for (policy, (means, tails)) in POLICIES.iter().zip(&mut responses) {
            let label = format!("{policy}-{round}");
            let times = cores.on_load_core(|| run(&http, policy, &label, &arrivals))?;
            let mean = times.iter().sum::<f64>() / times.len() as f64;
            eprintln!("round {}, {policy}: {mean:.1} s on average", round + 1);
            means.push(mean);
            tails.push(times[times.len() * 99 / 100]);
        }
    }
    let report = &mut bench.report;
    report.part_alone(&format!(
        "{TASKS} tasks of {SERVICE:?} each on {} nodes at load {LOAD}, {BUSY} busy; response by policy",
        NODES.len()
    ));
    for (policy, (means, tails)) in POLICIES.iter().zip(responses) {
        report.spread(&format!("{policy}: mean"), Spread::of(means), "s");
        report.spread(&format!("{policy}: p99"), Spread::of(tails), "s");
    }
    Ok(())
}

/// Uses so much of a processor.
pub fn burn(work: Duration) {
    loop {
        let used = clock_gettime(ClockId::ProcessCPUTime);
        if Duration::try_from(used).is_ok_and(|used| used >= work) {
            return;
        }
    }
}

/// Poisson arrivals of exponential work, the same for the same seed.
fn arrivals(seed: u64) -> Vec<Arrival> {
    let mut chance = fastrand::Rng::with_seed(seed);
    let mut drawn = |mean: f64| Duration::from_secs_f64(-mean * (1.0 - chance.f64()).ln());
    let service = SERVICE.as_secs_f64();
    let between = service / (LOAD * NODES.len() as f64);
    (0..TASKS)
        .map(|_| Arrival { after: drawn(between), work: drawn(service).mul_f64(CORES_OF_A_NODE) })
        .collect()
}

/// Submits the tasks at their times and waits for their ends. Returns the response times in seconds, in order.
fn run(http: &Http, policy: &str, label: &str, arrivals: &[Arrival]) -> anyhow::Result<Vec<f64>> {
    let own = std::env::current_exe().context("where this program is")?;
    let mut at = Instant::now();
    for arrival in arrivals {
        at += arrival.after;
        std::thread::sleep(at.saturating_duration_since(Instant::now()));
        let millis = arrival.work.as_millis().max(1).to_string();
        super::tasks::submit(
            http,
            &json!({
                "command": [own, "burn", millis], "policy": policy, "labels": { "run": label },
                "resources": { "cpu": 0.01 },
            }),
        )?;
    }
    all_over(http)?;
    let answer = http.get(&format!("/api/tasks?labels=run={label}&limit=1000"));
    ensure!(answer.status == 200, "{answer}");
    let tasks: Vec<TaskRecord> = serde_json::from_value(answer.json()["tasks"].clone())?;
    ensure!(tasks.len() == arrivals.len(), "{} tasks of {}", tasks.len(), arrivals.len());
    let mut times: Vec<f64> = tasks.iter().map(response).collect::<anyhow::Result<_>>()?;
    times.sort_by(f64::total_cmp);
    Ok(times)
}

fn response(task: &TaskRecord) -> anyhow::Result<f64> {
    let ended = task.ended_at.filter(|_| task.state == "SUCCEEDED");
    let ended = ended.with_context(|| format!("{} did not succeed", task.id))?;
    Ok((ended - task.submitted_at).num_milliseconds() as f64 / 1e3)
}

/// Has each node count, and binds the pressure to that.
fn measure_pressure(http: &Http, groups: &Groups) -> anyhow::Result<()> {
    let folder = groups.entries(NODES[0]).swap_remove(0);
    let folder = folder.ancestors().nth(2).context("a group is in a folder")?;
    let registration: Value = json!({
        "dataName": RUNNABLE, "cmd": ["/bin/sh", "-c", COUNT], "params": { "groups": folder },
        "max-Time": FACTS_EVERY.as_secs_f64(),
    });
    register(http, &registration)?;
    let answer = http.send_json("PUT", &format!("/api/bindings/{PRESSURE}"), &json!({ "to": RUNNABLE }));
    ensure!((200..300).contains(&answer.status), "{answer}");
    let began = Instant::now();
    while http
        .get(&format!("/api/data?dataName={PRESSURE}"))
        .json()
        .as_array()
        .is_none_or(|all| all.len() < NODES.len())
    {
        ensure!(began.elapsed() < PATIENCE, "the nodes' pressure is not known");
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}

/// An agent inside the node's group; what it runs stays in there.
fn agent(groups: &Groups, node: &str, server: &str) -> anyhow::Result<Estimand> {
    let mut words: Vec<std::ffi::OsString> = vec!["-c".into(), ENTER.into(), "enter".into()];
    words.extend(groups.entries(node).into_iter().map(PathBuf::into_os_string));
    words.extend(["--".into(), program()?.into()]);
    words
        .extend(["agent", "--allow-all", "--no-cgroups", "--server", server, "--node", node].map(Into::into));
    Estimand::builder("/bin/sh").args(words).without_http().try_start().map_err(anyhow::Error::msg)
}

/// A command that runs in the node's group.
fn entered(groups: &Groups, node: &str, words: impl IntoIterator<Item = String>) -> Command {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", ENTER, "enter"]).args(groups.entries(node)).arg("--").args(words);
    command
}

fn enters(files: &[PathBuf]) -> bool {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", ENTER, "enter"]).args(files).args(["--", "true"]);
    command.stdin(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}
