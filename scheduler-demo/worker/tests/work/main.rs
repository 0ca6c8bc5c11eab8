//! The worker as an agent runs it: a process with an environment, a part that changes under it, and sudden ends.

#![allow(clippy::unwrap_used)]

mod plane;

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::LazyLock;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use estimand_worker::images::Images;
use estimand_worker::model::{self, alexnet::Width};
use estimand_worker::pictures;
use plane::Plane;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

/// For anything that a worker is waited for; a busy machine is slow.
const PATIENCE: Duration = Duration::from_secs(120);

/// One network and a few pictures for all tests.
static SHARED: LazyLock<tempfile::TempDir> = LazyLock::new(|| {
    let folder = tempfile::tempdir().unwrap();
    model::write(Width::SMALL, 1, &mut File::create(folder.path().join("small.onnx")).unwrap()).unwrap();
    let images = Images::make(folder.path().join("images").to_str().unwrap()).unwrap();
    pictures::write(&images, 24, 7, None).unwrap();
    fs::write(folder.path().join("images/broken.jpg"), &pictures::jpeg(7, 0).unwrap()[..9_000]).unwrap();
    folder
});

fn names(range: std::ops::Range<usize>) -> Vec<String> {
    range.map(pictures::name).collect()
}

/// A place for results, and a plane that has a part.
struct Job {
    plane: Plane,
    folder: tempfile::TempDir,
}

impl Job {
    fn new() -> Self {
        Job { plane: Plane::start(), folder: tempfile::tempdir().unwrap() }
    }

    fn part(&self, images: &[String], revision: u64) {
        self.plane.write(json!({ "images": images, "revision": revision }));
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    fn start(&self, throttle: &str) -> Worker {
        let shared = SHARED.path();
        let mut child = Command::new(env!("CARGO_BIN_EXE_estimand-worker"))
            .arg("work")
            .env("ESTIMAND_SERVER", &self.plane.address)
            .env("ESTIMAND_NODE", "n1")
            .env("ESTIMAND_DATA_NAME", "birds.work")
            .env("ESTIMAND_PARAM_JOB", "birds")
            .env("ESTIMAND_PARAM_MODEL", shared.join("small.onnx"))
            .env("ESTIMAND_PARAM_IMAGES", shared.join("images"))
            .env("ESTIMAND_PARAM_OUT", self.folder.path())
            .env("ESTIMAND_PARAM_LOG", self.log())
            .env("ESTIMAND_PARAM_THROTTLE", throttle)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (sender, lines) = channel();
        let stdout = child.stdout.take().unwrap();
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let _ = sender.send(serde_json::from_str(&line).unwrap());
            }
        });
        Worker { stdin: child.stdin.take(), child, lines }
    }

    /// Every readable line of the node's files.
    fn results(&self) -> Vec<Value> {
        let files = fs::read_dir(self.folder.path().join("birds")).unwrap();
        let paths = files.map(|entry| entry.unwrap().path());
        let texts = paths.filter(|path| path.extension().is_some_and(|end| end == "jsonl")).map(read);
        texts.flat_map(|text| whole_lines(&text)).collect()
    }

    /// How many lines each image has.
    fn counts(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for line in self.results() {
            *counts.entry(line["image"].as_str().unwrap().to_owned()).or_default() += 1;
        }
        counts
    }
}

fn read(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path).unwrap()
}

fn whole_lines(text: &str) -> Vec<Value> {
    let lines = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    lines.filter_map(|line| serde_json::from_str(line).ok()).collect()
}

struct Worker {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<Value>,
}

impl Worker {
    /// The first line of which this is true.
    fn wait_for(&self, what: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + PATIENCE;
        let mut last = Value::Null;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) if is_it(&line) => return line,
                Ok(line) => last = line,
                Err(error) => panic!("{error} for a line with {what}; the last one was {last}"),
            }
        }
    }

    fn wait_for_all(&self, revision: u64) -> Value {
        self.wait_for(&format!("all of revision {revision}"), |line| {
            line["revision"] == revision && line["done"] == line["of"]
        })
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    fn end(mut self) -> ExitStatus {
        self.stdin.take();
        self.child.wait().unwrap()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_part_is_worked_off_in_its_order_and_its_speed_is_logged() {
    let job = Job::new();
    let mut images = names(0..10);
    images.extend(["broken.jpg".to_owned(), "missing.jpg".to_owned()]);
    job.part(&images, 1);
    let worker = job.start("");
    assert_eq!(worker.wait_for("a start", |_| true)["activity"], "starting");
    let last = worker.wait_for_all(1);
    assert_eq!(
        (&last["done"], &last["activity"], &last["extra"]),
        (&json!(12), &json!("waiting"), &json!([]))
    );
    let results = job.results();
    let order: Vec<&str> = results.iter().map(|line| line["image"].as_str().unwrap()).collect();
    assert_eq!(order, images);
    for line in &results[..10] {
        assert!(line["label"].as_u64().unwrap() < 1000, "{line}");
        assert!((0.0..=1.0).contains(&line["score"].as_f64().unwrap()), "{line}");
    }
    for (line, reason) in results[10..].iter().zip(["its JPEG is broken or cut off", "it can't be read"]) {
        assert!(line["error"].as_str().unwrap().starts_with(reason), "{line}");
    }
    let log = read(job.log());
    let words: Vec<&str> = log.trim_end().split(' ').collect();
    assert_eq!(words[1..4], ["job=birds", "node=n1", "images=12"], "{log}");
    let figure = |word: &str, name: &str| word.strip_prefix(name).unwrap().parse::<f64>().unwrap();
    let (seconds, fps) = (figure(words[4], "seconds="), figure(words[5], "avg_fps="));
    assert!((12.0 / seconds / fps - 1.0).abs() < 0.02, "{log}");
    assert_eq!(job.plane.requests(), ["GET /api/data/watch?dataName=birds.part&dataNode=n1 HTTP/1.1"]);
    assert!(worker.end().success());
}

#[test]
fn a_part_that_changes_is_followed() {
    let job = Job::new();
    let worker = job.start("");
    // There is none yet.
    let line = worker.wait_for("no part", |line| line["activity"] == "waiting");
    assert_eq!((&line["revision"], &line["of"]), (&json!(null), &json!(0)));
    job.part(&names(0..4), 1);
    worker.wait_for_all(1);
    // Two are taken away that were done; three are new, one of them named twice.
    let mut images = names(2..7);
    images.push(pictures::name(6));
    job.part(&images, 2);
    let line = worker.wait_for_all(2);
    assert_eq!((&line["done"], &line["extra"]), (&json!(5), &json!(names(0..2))));
    // Nonsense changes nothing.
    job.plane.write(json!({ "images": 5 }));
    let line = worker.wait_for("a problem", |line| line["problem"].is_string());
    assert_eq!((&line["revision"], &line["done"]), (&json!(2), &json!(5)));
    job.part(&names(0..8), 3);
    let line = worker.wait_for_all(3);
    assert_eq!((&line["problem"], &line["extra"]), (&json!(null), &json!([])));
    job.plane.delete();
    worker.wait_for("no part", |line| line["revision"].is_null());
    assert_eq!(job.counts(), names(0..8).into_iter().map(|name| (name, 1)).collect());
    // One line for each time that there was something to do.
    let log = read(job.log());
    let counts: Vec<&str> = log.lines().map(|line| line.split(' ').nth(3).unwrap()).collect();
    assert_eq!(counts, ["images=4", "images=3", "images=1"]);
    assert!(worker.end().success());
}

#[test]
fn after_a_sudden_end_nothing_is_repeated_and_nothing_missing() {
    let job = Job::new();
    let images = names(0..24);
    job.part(&images, 1);
    for life in 1..=2 {
        // So slow that it has not done all of it when this test gets its turn on a busy machine.
        let worker = job.start("0.01");
        worker.wait_for("a few done", |line| {
            let done = line["done"].as_u64().unwrap();
            done >= life * 6 && done < 24
        });
        worker.signal(Signal::KILL);
        drop(worker);
        // The rest of a line after a crash in the middle of a write.
        let path = job.folder.path().join(format!("birds/n1.{life}.jsonl"));
        let mut file = OpenOptions::new().append(true).open(path).unwrap();
        file.write_all(br#"{"image":"img-00023.jpg","label":4"#).unwrap();
    }
    let before = job.results().len();
    let worker = job.start("");
    let first = worker.wait_for("its part", |line| line["revision"] == 1);
    assert_eq!(first["done"].as_u64().unwrap() as usize, before, "what was durable is done");
    worker.wait_for_all(1);
    assert!(worker.end().success());
    assert_eq!(job.counts(), images.into_iter().map(|name| (name, 1)).collect());
}

#[test]
fn a_worker_that_is_told_to_end_leaves_what_it_did() {
    let job = Job::new();
    job.part(&names(0..24), 1);
    let mut worker = job.start("0.05");
    worker.wait_for("some work", |line| line["activity"] == "working" && line["done"].as_u64().unwrap() > 0);
    worker.signal(Signal::TERM);
    assert!(worker.child.wait().unwrap().success());
    let mut last = Value::Null;
    while let Ok(line) = worker.lines.recv() {
        last = line;
    }
    let counts = job.counts();
    assert_eq!(last["done"].as_u64().unwrap() as usize, counts.len(), "{last}");
    assert!(counts.len() < 24, "it had all the time it needed: this shows nothing");
}

#[test]
fn an_agent_that_wants_a_value_gets_one() {
    let job = Job::new();
    job.part(&names(0..1), 1);
    let mut worker = job.start("");
    worker.wait_for_all(1);
    worker.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    let line = worker.wait_for("an answer", |_| true);
    assert_eq!((&line["done"], &line["images"]), (&json!(1), &json!([])));
    assert!(worker.end().success());
}

#[test]
fn an_error_at_the_start_is_one_sentence() {
    let output =
        Command::new(env!("CARGO_BIN_EXE_estimand-worker")).arg("work").env_clear().output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(text, "estimand-worker: ESTIMAND_NODE is not set; this node's name is expected there\n");
    assert!(!output.status.success());
}
