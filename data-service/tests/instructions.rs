//! The instructions that the service executes for one request, counted by valgrind.
//!
//! They say nothing of caches, of waiting or of the kernel, but they are the same on a busy machine: a path that has become
//! longer is seen at once. A piece of memory of more than 2 KiB that is copied or cleared counts an instruction a byte, which
//! it does not take: much of the reading of a name is that, and a quarter of the reading of one value (two clearings of some
//! 3 KiB; by that size they are of the HTTP library's list of headers). `instructions.txt` has those that are meant to be, of a
//! debug build and of a release build:
//!
//! ```text
//! cargo build --release -p estimand-data-service --example alone
//! cargo test --release -p estimand-data-service --test instructions
//! ```
//!
//! With `ESTIMAND_INSTRUCTIONS=keep` in the environment the figures of that build are written down instead of compared.

#![allow(clippy::unwrap_used)]

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use estimand_testkit::http::{EventReader, Http};
use estimand_testkit::process::Estimand;
use tempfile::TempDir;

const NAMES: u32 = 20;
const NODES: u32 = 100;
const BATCH: u32 = 1_000;
const WATCHERS: u32 = 20;
/// The part by which a figure may differ from the one that is written down.
const TOLERANCE: f64 = 0.05;
/// Counting is fifty times slower than executing.
const PATIENCE: Duration = Duration::from_secs(120);
const WRITTEN_DOWN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/instructions.txt");
/// The column of this build.
const BUILD: usize = if cfg!(debug_assertions) { 0 } else { 1 };

#[test]
fn a_request_takes_as_many_instructions_as_are_written_down() {
    let counts = count_all();
    let text = fs::read_to_string(WRITTEN_DOWN).unwrap();
    if std::env::var("ESTIMAND_INSTRUCTIONS").is_ok_and(|wish| wish == "keep") {
        return fs::write(WRITTEN_DOWN, with(&text, &counts)).unwrap();
    }
    let mut wrong = String::new();
    for (what, count) in counts {
        let meant = written_down(&text, what)[BUILD];
        println!("{what}: {count:.0} instructions, {meant:.0} are written down");
        if (count - meant).abs() > meant * TOLERANCE {
            let _ = writeln!(wrong, "{what}: {count:.0} instructions instead of {meant:.0}");
        }
    }
    assert!(wrong.is_empty(), "{wrong}If that is meant to be so, write it down: see the head of this test");
}

type Counts = Vec<(&'static str, f64)>;

fn count_all() -> Counts {
    let mut service = CountedService::start();
    let http = service.http();
    let post = |path, body: String| drop(http.request("POST", path, &[], body.as_bytes()).expect_status(200));
    let mut counts = Counts::new();

    let one = |number| {
        let (name, node) = key(number);
        http.get(&format!("/api/data/{name}/{node}")).expect_status(200);
    };
    counts.push(("read of one value", service.count(200, one)));
    let all = |number| drop(http.get(&format!("/api/data?dataName={}", name(number))).expect_status(200));
    counts.push(("read of a name", service.count(100, all)));
    counts.push(("write", service.count(50, |number| post("/api/data", value(number)))));
    let batch = |number| post("/api/data/batch", batch(number * BATCH / 2));
    counts.push(("batch of 1,000", service.count(1, batch)));

    let path = format!("/api/data/watch?dataName={}", name(0));
    let watch = |_| {
        let mut events = http.sse(&path, &[]);
        events.next_event(PATIENCE);
        events
    };
    let mut watchers: Vec<EventReader> = (0..WATCHERS).map(watch).collect();
    let change = |number| {
        post("/api/data", value(number * NAMES));
        for watcher in &mut watchers {
            while watcher.next_event(PATIENCE).event != "settled" {}
        }
    };
    counts.push(("change, told to 20 watchers", service.count(20, change)));
    counts
}

fn name(number: u32) -> String {
    format!("name_{:03}", number % NAMES)
}

/// The name and node of a value; each number up to the number of values is another one.
fn key(number: u32) -> (String, String) {
    (name(number), format!("node-{:03}", number / NAMES % NODES))
}

/// The body of a write; whenever a value comes again, it is another one.
fn value(number: u32) -> String {
    let (name, node) = key(number);
    format!(r#"{{"dataName":"{name}","nodeName":"{node}","dataValue":0.{number:06}}}"#)
}

fn batch(from: u32) -> String {
    let values: Vec<String> = (from..from + BATCH).map(value).collect();
    format!("[{}]", values.join(","))
}

/// A service whose instructions are counted.
struct CountedService {
    process: Estimand,
    folder: TempDir,
    looks: u32,
}

impl CountedService {
    fn start() -> Self {
        let test = std::env::current_exe().unwrap();
        let alone = test.parent().unwrap().with_file_name("examples").join("alone");
        let build = ["", " --release"][BUILD];
        assert!(
            alone.is_file(),
            "{} is not there: `cargo build{build} -p estimand-data-service --example alone`",
            alone.display()
        );
        let folder = tempfile::tempdir().unwrap();
        let counts = format!("--callgrind-out-file={}", folder.path().join("counts").display());
        let program = [alone.into_os_string(), "serve".into()];
        let args = ["--quiet".into(), "--tool=callgrind".into(), counts.into()].into_iter().chain(program);
        let process = Estimand::builder("valgrind").args(args).data_dir(folder.path().join("data")).start();
        let service = CountedService { process, folder, looks: 0 };
        for from in (0..NAMES * NODES).step_by(BATCH as usize) {
            let body = batch(from);
            service.http().request("POST", "/api/data/batch", &[], body.as_bytes()).expect_status(200);
        }
        service
    }

    fn http(&self) -> Http {
        self.process.http().showing(None).with_deadline(PATIENCE)
    }

    /// The instructions of one request: the difference between so many requests and twice as many. What is done at the
    /// first ones only is done before.
    fn count(&mut self, times: u32, mut request: impl FnMut(u32)) -> f64 {
        let mut numbers = 0..;
        let mut repeat = |times: u32| numbers.by_ref().take(times as usize).for_each(&mut request);
        repeat(times);
        self.look();
        repeat(times);
        let once = self.look();
        repeat(2 * times);
        (self.look() - once) / f64::from(times)
    }

    /// The instructions since the last look.
    fn look(&mut self) -> f64 {
        self.looks += 1;
        let control =
            Command::new("callgrind_control").args(["--dump", &self.process.pid().to_string()]).output();
        let control = control.unwrap();
        assert!(control.status.success(), "{control:?}");
        let file: PathBuf = self.folder.path().join(format!("counts.{}", self.looks));
        let text = fs::read_to_string(file).unwrap();
        let sum = text.lines().find_map(|line| line.strip_prefix("summary: "));
        sum.unwrap().trim().parse().unwrap()
    }
}

/// The two figures of a kind of request; none are zero.
fn written_down(text: &str, what: &str) -> [f64; 2] {
    let line = text.lines().find_map(|line| line.strip_prefix(what));
    let mut figures = line.unwrap_or_default().split_whitespace().map(|figure| figure.parse().unwrap());
    [figures.next().unwrap_or(0.0), figures.next().unwrap_or(0.0)]
}

/// The text with the figures of this build.
fn with(text: &str, counts: &Counts) -> String {
    let remarks = text.lines().filter(|line| line.starts_with('#'));
    let lines = counts.iter().map(|(what, count)| {
        let mut figures = written_down(text, what);
        figures[BUILD] = *count;
        let [debug, release] = figures;
        format!("{what:<28} {debug:>12.0} {release:>12.0}")
    });
    remarks.map(str::to_owned).chain(lines).fold(String::new(), |text, line| text + &line + "\n")
}
