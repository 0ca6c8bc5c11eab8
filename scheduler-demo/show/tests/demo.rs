//! The demo as people start it: real services, agents and workers, a small network, few images. What is checked is that
//! plans follow what is known, that every image is done once, and that nothing is left, however it ends.
//!
//! Times are not checked, since the machine may also compile; with `ESTIMAND_LONG` the order of the
//! three estimates is checked too, with the real network.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use estimand_testkit::{processes, wait};
use serde_json::Value;
use tempfile::TempDir;

/// Far longer than anything here takes on a machine that also compiles.
const SOON: Duration = Duration::from_secs(60);
const GROUPS: &str = "/sys/fs/cgroup";

/// A user with an own cache and an own folder for what is temporary, whose path is in all arguments.
struct User {
    home: TempDir,
}

impl User {
    fn new() -> User {
        let home = tempfile::Builder::new().prefix("demo-user-").tempdir().unwrap();
        for folder in ["tmp", "cache", "out"] {
            std::fs::create_dir(home.path().join(folder)).unwrap();
        }
        let model = home.path().join("small.onnx");
        let mut make = Command::new(worker());
        let made = make.args(["make-model", "--small", "--out"]).arg(&model).status().unwrap();
        assert!(made.success());
        User { home }
    }

    fn tmp(&self) -> PathBuf {
        self.home.path().join("tmp")
    }

    fn out(&self) -> PathBuf {
        self.home.path().join("out")
    }

    fn mark(&self) -> String {
        self.home.path().display().to_string()
    }

    /// A demo of the small network.
    fn demo(&self, args: &[&str]) -> Command {
        let model = self.home.path().join("small.onnx");
        let mut command = self.real_demo(args);
        command.arg("--model").arg(model);
        command
    }

    fn real_demo(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_estimand-show"));
        command
            .args(["--json", "--worker"])
            .arg(worker())
            .arg("--program")
            .arg(program())
            .arg("--out")
            .arg(self.out())
            .args(args);
        command.env("TMPDIR", self.tmp()).env("XDG_CACHE_HOME", self.home.path().join("cache"));
        command.stdin(Stdio::null());
        command
    }

    /// The whole of it; its runs.
    #[track_caller]
    fn show(&self, args: &[&str]) -> Vec<Value> {
        runs(self.demo(args))
    }

    /// Starts one and waits until its workers work.
    #[track_caller]
    fn begin(&self, args: &[&str]) -> Child {
        let mut child = self.demo(args).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut said = Vec::new();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        loop {
            let line = lines.next().unwrap_or_else(|| panic!("{said:#?}")).unwrap();
            let is_it = line.contains(" working");
            said.push(line);
            if is_it {
                break;
            }
        }
        // Read to the end, so that it is not stopped by a closed pipe.
        std::thread::spawn(move || lines.for_each(drop));
        child
    }

    #[track_caller]
    fn no_process_is_left(&self, deadline: Duration) {
        processes::none_with(&self.mark(), deadline);
    }

    fn folders_left(&self) -> Vec<PathBuf> {
        entries(&self.tmp())
    }
}

impl Drop for User {
    fn drop(&mut self) {
        if std::thread::panicking() {
            processes::kill9_all_with(&self.mark());
        }
    }
}

#[track_caller]
fn runs(mut command: Command) -> Vec<Value> {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{said}", output.status);
    let report: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}\n{said}"));
    report["runs"].as_array().unwrap().clone()
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    entries.map(|entry| entry.unwrap().path()).collect()
}

/// The groups of a demo's process, in whatever hierarchy.
fn groups_of(demo: u32) -> Vec<PathBuf> {
    let name = format!("estimand-demo-{demo}");
    let hierarchies = entries(Path::new(GROUPS)).into_iter().chain([PathBuf::from(GROUPS)]);
    hierarchies.map(|hierarchy| hierarchy.join(&name)).filter(|group| group.exists()).collect()
}

/// The binary under test, which another package builds: in its usual place, or in that of the environment.
fn built(variable: &str, usual: &str, how: &str) -> PathBuf {
    let usual = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(usual);
    let path = std::env::var_os(variable).map_or(usual, PathBuf::from);
    assert!(path.exists(), "{} is not there: `{how}`, or say where it is in {variable}", path.display());
    path.canonicalize().unwrap()
}

fn program() -> PathBuf {
    built("ESTIMAND_BIN", "target/debug/estimand", "cargo build -p estimand")
}

fn worker() -> PathBuf {
    built("ESTIMAND_WORKER", "target/debug/estimand-worker", "cargo build -p estimand-worker")
}

fn of_nodes(run: &Value, field: &str) -> Vec<f64> {
    run["nodes"].as_array().unwrap().iter().map(|node| node[field].as_f64().unwrap()).collect()
}

/// Every image was done, and counts for one node.
#[track_caller]
fn each_image_once(run: &Value, images: usize) {
    let nodes = run["nodes"].as_array().unwrap();
    let names: Vec<&str> = nodes
        .iter()
        .flat_map(|node| node["images"].as_array().unwrap())
        .map(|name| name.as_str().unwrap())
        .collect();
    assert_eq!(names.len(), images, "{run:#}");
    assert_eq!(names.into_iter().collect::<BTreeSet<_>>().len(), images);
    assert_eq!(run["conflicts"], 0, "{run:#}");
    // A stolen item may be done already on the other node.
    assert!(run["policy"] == "dynamic" || run["duplicates"] == 0, "{run:#}");
}

/// Targets are capabilities' shares of the images, in whole ones.
#[track_caller]
fn follows(run: &Value, capabilities: &[f64]) {
    let (sum, images): (f64, f64) = (capabilities.iter().sum(), run["items"].as_f64().unwrap());
    for (target, capability) in of_nodes(run, "target").into_iter().zip(capabilities) {
        assert!((target - images * capability / sum).abs() <= 1.0, "{target} of {images}: {capabilities:?}");
    }
}

#[track_caller]
fn is_figure8(runs: &[Value], images: usize) {
    runs.iter().for_each(|run| each_image_once(run, images));
    let [equal, by_load, by_history] = runs else { panic!("{} runs", runs.len()) };
    follows(equal, &[1.0; 4]);
    let load = of_nodes(by_load, "capability");
    follows(by_load, &load);
    assert!(load.iter().all(|part| (0.0..=1.0).contains(part)), "{load:?}");
    let history = of_nodes(by_history, "capability");
    follows(by_history, &history);
    // The log agrees with the scheduler, as far as two clocks allow.
    for (logged, seen) in history.iter().zip(of_nodes(by_load, "fps")) {
        assert!((0.5..2.0).contains(&(logged / seen)), "{logged} and {seen}");
    }
    let revisions: Vec<u64> = runs.iter().map(|run| run["revision"].as_u64().unwrap()).collect();
    assert!(revisions.is_sorted_by(|a, b| a < b), "each was planned by newer facts: {revisions:?}");
}

#[test]
fn a_killed_demo_leaves_no_process_and_the_next_one_clears_the_rest() {
    let user = User::new();
    let mut killed = user.begin(&["--act", "figure8", "--images", "400"]);
    let number = killed.id();
    processes::kill9(number);
    killed.wait().unwrap();
    user.no_process_is_left(SOON);
    assert_eq!(user.folders_left().len(), 1);
    let runs = user.show(&["--act", "figure8", "--images", "48"]);
    is_figure8(&runs, 48);
    assert!(user.folders_left().is_empty());
    assert!(groups_of(number).is_empty());
    user.no_process_is_left(Duration::ZERO);
    for name in ["report.html", "report.json", "figure8.svg"] {
        let text = std::fs::read_to_string(user.out().join(name)).unwrap();
        assert!(text.contains("CPU load"), "{name}");
    }
}

#[test]
fn an_interrupted_demo_clears_everything_away() {
    let user = User::new();
    let mut child = user.begin(&["--act", "figure8", "--images", "400"]);
    let number = child.id();
    let kill = Command::new("kill").args(["-INT", &number.to_string()]).status().unwrap();
    assert!(kill.success());
    let status = wait::until(SOON, "the demo to end", || child.try_wait().unwrap());
    assert_eq!(status.code(), Some(1));
    user.no_process_is_left(Duration::ZERO);
    assert!(user.folders_left().is_empty());
    assert!(groups_of(number).is_empty());
    assert!(entries(&user.out()).is_empty(), "half a report");
}

#[test]
fn without_groups_workers_pause_and_a_change_under_way_is_in_the_report() {
    let user = User::new();
    let keep = user.home.path().join("kept");
    let runs =
        user.show(&["--act", "change", "--images", "300", "--no-cgroups", "--keep", keep.to_str().unwrap()]);
    runs.iter().for_each(|run| each_image_once(run, 300));
    let [learnt, fixed, dynamic] = runs.as_slice() else { panic!("{} runs", runs.len()) };
    let free = |node: &str| std::fs::read_to_string(keep.join("pace").join(node).join("free")).unwrap();
    assert_eq!(free("node-3").trim(), "0.5000");
    follows(learnt, &[1.0; 4]);
    let known = of_nodes(fixed, "capability");
    follows(fixed, &known);
    assert_eq!(known, of_nodes(dynamic, "capability"), "both were planned by the same");
    assert_eq!((&fixed["policy"], &dynamic["policy"]), (&"static".into(), &"dynamic".into()));
    for run in [fixed, dynamic] {
        let happened = &run["happenings"].as_array().unwrap()[0];
        assert_eq!((&happened["what"], &happened["node"]), (&"changed".into(), &"node-1".into()), "{run:#}");
    }
    user.no_process_is_left(Duration::ZERO);
    assert!(user.folders_left().is_empty());
}

#[test]
fn a_missing_program_or_worker_is_reported_before_anything_is_started() {
    let user = User::new();
    let output = user.demo(&["--worker", "/no/such/worker"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "given twice");
    let mut command = Command::new(env!("CARGO_BIN_EXE_estimand-show"));
    command.args(["--worker", "/no/such/worker"]).env("TMPDIR", user.tmp());
    let output = command.env("XDG_CACHE_HOME", user.tmp()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("/no/such/worker"), "{said}");
    assert!(user.folders_left().is_empty());
}

/// The paper's figure, by the clock: not on a machine that does something else.
#[test]
fn history_is_better_than_load_and_load_is_better_than_nothing() {
    if std::env::var_os("ESTIMAND_LONG").is_none() {
        return;
    }
    let user = User::new();
    let runs = runs(user.real_demo(&["--act", "all", "--images", "400"]));
    let over: Vec<f64> = runs.iter().map(|run| run["overIdeal"].as_f64().unwrap()).collect();
    is_figure8(&runs[..3], 400);
    assert!(over[0] > over[1] && over[1] > over[2], "{over:?}");
    assert!(over[3] > over[4], "{over:?}");
}
