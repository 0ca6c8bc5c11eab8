//! Against real files, which are written, renamed, cut off and replaced between collections.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::{KIND, LogTail, made};
use crate::{Collector, Failure, Params, Reading, Surroundings};

mod bounds;
mod moving;
mod steps;

struct Log {
    folder: TempDir,
    path: PathBuf,
}

impl Log {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("state")).unwrap();
        let path = folder.path().join("worker.log");
        Log { folder, path }
    }

    fn with(text: &str) -> Self {
        let log = Log::new();
        log.add(text);
        log
    }

    fn beside(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn add(&self, text: impl AsRef<[u8]>) {
        add(&self.path, text);
    }

    fn rename(&self, to: &str) {
        fs::rename(&self.path, self.beside(to)).unwrap();
    }

    fn tail(&self, more: &[(&str, &str)]) -> Tail {
        tail(self.path.to_str().unwrap(), more, None)
    }

    /// One that keeps its state.
    fn lasting(&self, more: &[(&str, &str)]) -> Tail {
        tail(self.path.to_str().unwrap(), more, Some(self.beside("state")))
    }
}

fn add(path: &Path, text: impl AsRef<[u8]>) {
    let mut file = OpenOptions::new().create(true).append(true).open(path).unwrap();
    file.write_all(text.as_ref()).unwrap();
}

const FPS: &str = "avg_fps=(?<fps>[0-9.]+)";

fn new(path: &str, more: &[(&str, &str)], folder: Option<PathBuf>) -> Result<LogTail, String> {
    let mut params = BTreeMap::from([("path".to_owned(), json!(path)), ("pattern".to_owned(), json!(FPS))]);
    params.extend(more.iter().map(|(name, value)| ((*name).to_owned(), json!(value))));
    made(&Params::new(&KIND, &params)?, &Surroundings { folder, ..Surroundings::default() })
}

fn tail(path: &str, more: &[(&str, &str)], folder: Option<PathBuf>) -> Tail {
    Tail(new(path, more, folder).unwrap())
}

struct Tail(LogTail);

impl Tail {
    fn ask(&mut self) -> Result<Value, Failure> {
        match self.0.collect(Instant::now() + Duration::from_secs(60))? {
            Reading::Here(value) => Ok(value),
            Reading::PerNode(_) => panic!("it is of this node"),
        }
    }

    /// The last value and how many there were.
    fn fps(&mut self) -> (Value, u64) {
        let value = self.ask().unwrap();
        (value["matched"]["fps"].clone(), value["count"].as_u64().unwrap())
    }

    fn refused(&mut self) -> String {
        match self.ask().unwrap_err() {
            Failure::Failed(why) | Failure::Refused(why) => why,
            Failure::NotHere(why) => panic!("not a failure: {why}"),
        }
    }

    fn absent(&mut self) -> String {
        match self.ask().unwrap_err() {
            Failure::NotHere(why) => why,
            Failure::Failed(why) | Failure::Refused(why) => panic!("a failure: {why}"),
        }
    }

    fn read(&self) -> u64 {
        self.0.follower.reads.so_far()
    }
}

#[test]
fn the_last_match_gives_its_groups() {
    let log = Log::with("avg_fps=1\nrun=7 avg_fps=31.5 state=good id=00123456789012345678901\r\nend\n");
    let pattern =
        r"(run=(?<run>\d+) )?avg_fps=(?<fps>[0-9.]+)( state=(?<state>\w+) id=(?<id>\d+))?(?<rest>x)?$";
    let value = log.tail(&[("pattern", pattern)]).ask().unwrap();
    let at = chrono::DateTime::parse_from_rfc3339(value["at"].as_str().unwrap()).unwrap();
    assert!(SystemTime::from(at).elapsed().unwrap() < Duration::from_secs(600));
    assert_eq!(
        value,
        json!({
            "matched": {"run": 7, "fps": 31.5, "state": "good", "id": "00123456789012345678901", "rest": null},
            "line": "run=7 avg_fps=31.5 state=good id=00123456789012345678901",
            "at": value["at"], "count": 1, "path": log.path.canonicalize().unwrap(),
        })
    );
}

#[test]
fn several_lines_come_oldest_first() {
    let log = Log::with("avg_fps=1\nx\navg_fps=2\navg_fps=3\n");
    let mut tail = log.tail(&[("lines", "2")]);
    let fps = |value: &Value| -> Vec<Value> {
        value["matches"].as_array().unwrap().iter().map(|one| one["matched"]["fps"].clone()).collect()
    };
    assert_eq!(fps(&tail.ask().unwrap()), [2, 3]);
    log.add("avg_fps=4\ny\n");
    let value = tail.ask().unwrap();
    assert_eq!((fps(&value), &value["count"]), (vec![json!(3), json!(4)], &json!(3)));

    // Matches that would not fit into a value are left out, the oldest first.
    let log = Log::with(&format!("avg_fps=1 {}\n", "\"".repeat(2000)).repeat(100));
    let value = log.tail(&[("lines", "100")]).ask().unwrap();
    let size = value.to_string().len();
    assert!((50_000..64 * 1024).contains(&size), "{size}");
    assert_eq!(value["line"].as_str().unwrap().len(), 1024);
}

#[test]
fn a_line_without_an_end_waits_until_it_has_one_or_stays_as_it_is() {
    let log = Log::with("avg_fps=1\navg_fps=2");
    let mut tail = log.tail(&[]);
    assert_eq!(tail.fps(), (json!(1), 1));
    assert_eq!(tail.fps(), (json!(2), 2), "unchanged between two collections");
    assert_eq!(tail.fps(), (json!(2), 2));
    // It was not whole after all: what it gave is taken back.
    log.add("5");
    assert_eq!(tail.fps(), (json!(2), 2));
    assert_eq!(tail.fps(), (json!(25), 2));
    log.add("0\n");
    assert_eq!(tail.fps(), (json!(250), 2));
    log.add("x");
    tail.ask().unwrap();
    log.add("avg_fps=4\r");
    assert_eq!(tail.fps(), (json!(250), 2));
    log.add("\n");
    assert_eq!(tail.fps(), (json!(4), 3));
}

#[test]
fn a_taken_line_that_no_longer_matches_gives_way_to_the_one_before() {
    let log = Log::with("avg_fps=1\navg_fps=2");
    let mut tail = log.tail(&[("pattern", "^avg_fps=(?<fps>[0-9]+)$")]);
    tail.ask().unwrap();
    assert_eq!(tail.fps(), (json!(2), 2));
    log.add(" aborted\n");
    assert_eq!(tail.fps(), (json!(1), 1));
}

#[test]
fn a_file_that_nobody_writes_has_its_last_line_whole() {
    let log = Log::with("avg_fps=2");
    let file = OpenOptions::new().append(true).open(&log.path).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_secs(60)).unwrap();
    assert_eq!(log.tail(&[]).fps(), (json!(2), 1));
}

#[test]
fn each_of_the_nodes_that_share_a_disk_has_a_log_of_its_own() {
    let log = Log::new();
    add(&log.beside("n1.log"), "avg_fps=1\n");
    fs::create_dir(log.beside("n2")).unwrap();
    add(&log.beside("n2/n2.log.1"), "avg_fps=2\n");
    let of = |node: Option<&str>, path: &str| {
        let path = log.beside(path).display().to_string();
        let params = BTreeMap::from([("path".to_owned(), json!(path)), ("pattern".to_owned(), json!(FPS))]);
        let around = Surroundings { node: node.map(str::to_owned), ..Surroundings::default() };
        Tail(made(&Params::new(&KIND, &params).unwrap(), &around).unwrap())
    };
    assert_eq!(of(Some("n1"), "{node}.log").fps(), (json!(1), 1));
    assert_eq!(of(Some("n2"), "{node}/{node}.log*").fps(), (json!(2), 1));
    // Where there is no node there is no log of it either.
    assert!(of(None, "{node}.log").absent().contains("{node}.log"));
}

#[test]
fn parameters_that_make_no_sense_are_refused() {
    let (big, groups) = ("x".repeat(5000), "(a)".repeat(33));
    for (name, value) in [
        ("pattern", "("),
        ("pattern", ""),
        ("pattern", "(\\w{1000}){1000}"),
        ("pattern", big.as_str()),
        ("pattern", groups.as_str()),
        ("lines", "0"),
        ("lines", "101"),
        ("lines", "1.5"),
        ("lines", "-1"),
        ("search", "1"),
        ("path", "/var/*/x.log"),
        ("path", "/var/log*/"),
        ("path", ""),
    ] {
        assert!(new("/x", &[(name, value)], None).is_err(), "{name}={value}");
    }
}
