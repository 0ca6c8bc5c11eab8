//! The first start of a new cluster: nobody is told anything wrong meanwhile, and ready means ready.

use std::ffi::OsString;
use std::fs;
use std::time::{Duration, Instant};

use estimand_testkit::http::Http;
use estimand_testkit::process::{self, Estimand, free_port};
use estimand_testkit::wait::{self, PATIENCE};

use crate::{long_or, refused};

/// Longer than any start takes that waits for nothing, beside the pace of the machine.
const STANDSTILL: Duration = Duration::from_secs(1);

/// Every answer that is not "not yet" has to be right.
fn look(base: &str, folder: &std::path::Path, defaults: usize) -> bool {
    let http = Http::new(base).showing(None);
    let ready = http.try_request("GET", "/readyz", &[], b"").is_ok_and(|answer| answer.status == 200);
    if let Ok(token) = fs::read_to_string(folder.join("token")) {
        let operator = Http::new(base).showing(Some(token.trim()));
        if let Ok(answer) = operator.try_request("GET", "/api/tokens", &[], b"") {
            assert!(matches!(answer.status, 200 | 503), "the operator's token: {answer}");
        }
        // It has an input that is a default.
        let estimator = br#"{"dataName":"cap","cmd":"capability_config","mode":"builtin","kind":"processor","inputs":["cpu"],"max-Time":5}"#;
        if let Ok(answer) = operator.try_request("POST", "/api/registry", &[], estimator) {
            assert!(matches!(answer.status, 201 | 409 | 503), "an estimator: {answer}");
        }
    }
    if let Ok(answer) = http.try_request("GET", "/api/registry", &[], b"") {
        assert!(matches!(answer.status, 200 | 503), "{answer}");
        if answer.status == 200 {
            let count = answer.json().as_array().unwrap().len();
            assert!(count >= defaults, "only {count} registrations are there");
        }
    }
    ready
}

#[test]
fn first_starts_neither_stand_still_nor_answer_wrongly() {
    let mut took = Vec::new();
    for _ in 0..long_or(200, 10) {
        let folder = tempfile::tempdir().unwrap();
        let (data, port) = (folder.path().join("data"), free_port());
        let began = Instant::now();
        let starting = process::estimand().args(["up", "--no-agent", "--defaults", "standard"]);
        let starting = starting.without_token().data_dir(&data).port(port);
        let (mut service, looked) = std::thread::scope(|scope| {
            let starting = scope.spawn(|| starting.start());
            let base = format!("http://127.0.0.1:{port}");
            let looking = scope.spawn(move || {
                wait::until(PATIENCE, "it to be ready", || look(&base, &data, 8).then(Instant::now))
            });
            (starting.join().unwrap(), looking.join().unwrap())
        });
        took.push(looked - began);
        service.terminate();
    }
    took.sort();
    let median = took[took.len() / 2];
    println!("{} first starts: {median:?}, at most {:?}", took.len(), took[took.len() - 1]);
    // A machine that stands still once makes one start long.
    assert!(took[took.len() - 2] < median * 2 + STANDSTILL, "{took:?}");
}

/// In seconds. A failure that lasts longer is told, also at a start: this machine may take longer for one.
const PASSING: f64 = 1.0;
const DAY: f64 = 86_400.0;

/// The time of day of a line of the log, in seconds.
fn seconds(line: &str) -> Option<f64> {
    let clock = line.get("2026-01-01T".len()..)?.split('Z').next()?;
    clock.split(':').try_fold(0.0, |sum, part| Some(sum * 60.0 + part.parse::<f64>().ok()?))
}

/// A warning that is right on any start.
const OF_ROOT: &str = "what runs here runs as root";

#[test]
fn a_first_start_warns_of_nothing_and_knows_its_nodes_once_it_is_ready() {
    for _ in 0..long_or(50, 5) {
        let mut up = process::estimand().args(["up", "--defaults", "standard", "--node", "n1"]).start();
        let http = up.http();
        for path in ["/api/capacity", "/api/capacity/timeline"] {
            http.get(path).expect_status(200);
        }
        wait::until(PATIENCE, "a value", || (http.get("/api/data/load/n1").status == 200).then_some(()));
        up.terminate();
        let log = up.stderr_tail();
        let began = log.lines().find_map(seconds).unwrap();
        let passing = |line: &&str| seconds(line).is_some_and(|at| (at - began).rem_euclid(DAY) < PASSING);
        let warned = |line: &&str| line.contains(" WARN ") && !line.contains(OF_ROOT);
        assert_eq!(log.lines().filter(passing).find(warned), None, "{log}");
    }
}

/// It waits for the nodes, but not for ever.
#[test]
fn a_task_service_gets_ready_while_its_manager_is_away() {
    let away = format!("http://127.0.0.1:{}", free_port());
    let service = process::estimand().args(["task-service", "--manager", &away, "--data-service", &away]);
    let service = service.start();
    service.http().get("/api/tasks").expect_status(200);
    service.http().get("/api/capacity").expect_status(503);
}

#[test]
fn limits_that_leave_too_little_are_told_in_words() {
    let limited = |program: &str, words: &[&str]| {
        let up = [process::binary().into_os_string(), "up".into(), "--no-agent".into()];
        let said = refused(Estimand::builder(program).args(words.iter().map(OsString::from).chain(up)));
        assert!(said.contains("at least"), "{said}");
        said
    };
    let said = limited("/usr/bin/prlimit", &["--nofile=40:40", "--"]);
    assert!(said.contains("40 files open") && said.contains("ulimit -n"), "{said}");
    // Root is not held to it.
    let nobody = ["--reuid=65534", "--regid=65534", "--clear-groups", "prlimit", "--nproc=20:20", "--"];
    let said = limited("/usr/bin/setpriv", &nobody);
    assert!(said.contains("20 processes and threads") && said.contains("ulimit -u"), "{said}");
}
