//! A real worker of Celery 5, as Debian ships it, which notes what it runs.

use std::fs::{self, OpenOptions};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::databases::kill_family;
use crate::{spawner, wait};

const READY_DEADLINE: Duration = Duration::from_secs(120);
/// The system's own, which has Debian's packages.
const PYTHON: &str = "/usr/bin/python3";
/// The application. A run notes when it begins, that it lives, that its soft limit was reached, and when it ends. A stubborn one
/// goes on after its soft limit.
const PROGRAM: &str = r#"import json, os, time
from celery import Celery
from celery.exceptions import SoftTimeLimitExceeded

app = Celery("work", broker=os.environ["BROKER"])
app.conf.broker_connection_retry_on_startup = True
app.conf.broker_connection_max_retries = None

def note(request, name, what):
    line = {"what": what, "name": name, "id": request.id, "at": time.time(), "timelimit": request.timelimit,
            "estimand": getattr(request, "estimand", None), "eta": request.eta, "args": request.args,
            "redelivered": (request.delivery_info or {}).get("redelivered")}
    with open(os.environ["RUNS"], "a") as runs:
        runs.write(json.dumps(line) + "\n")

def work(request, name, seconds):
    end = time.time() + seconds
    while time.time() < end:
        note(request, name, "lives")
        time.sleep(0.1)

@app.task(name="app.run", bind=True, ignore_result=True)
def run(self, name, seconds=0, stubborn=False):
    note(self.request, name, "begins")
    try:
        work(self.request, name, seconds)
    except SoftTimeLimitExceeded:
        note(self.request, name, "soft")
        if not stubborn:
            return
        work(self.request, name, 60)
    note(self.request, name, "ends")
"#;

pub struct CeleryWorker {
    child: Child,
    folder: TempDir,
}

impl CeleryWorker {
    /// Starts a worker with so many processes that reads a queue; returns when it is ready.
    #[track_caller]
    pub fn start(broker: &str, queue: &str, processes: u32) -> Self {
        let has = Command::new(PYTHON).args(["-c", "import celery, redis"]).output();
        let packages = "apt-get install python3-celery python3-redis";
        assert!(has.is_ok_and(|output| output.status.success()), "this test needs Celery: {packages}");
        let folder = tempfile::Builder::new().prefix("estimand-celery-").tempdir().expect("a folder");
        fs::write(folder.path().join("estimand_work.py"), PROGRAM).expect("a file in the folder");
        let log = OpenOptions::new().create(true).append(true).open(folder.path().join("log"));
        let log = log.expect("a log of the worker");
        let mut command = spawner::bound_command(PYTHON, None);
        command
            .args(["-m", "celery", "-A", "estimand_work", "worker", "--without-gossip", "--without-mingle"])
            .args(["--loglevel", "INFO", "--queues", queue, "--concurrency", &processes.to_string()])
            .current_dir(folder.path())
            .env("PYTHONPATH", folder.path())
            .env("BROKER", broker)
            .env("RUNS", folder.path().join("runs"))
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a file can be opened twice"))
            .stderr(log);
        let child = spawner::spawn(command).unwrap_or_else(|error| panic!("Celery: {error}"));
        let worker = CeleryWorker { child, folder };
        wait::until_ok(READY_DEADLINE, "Celery to be ready", || {
            let log = worker.log();
            if log.contains(" ready.") { Ok(()) } else { Err(log) }
        });
        worker
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// All notes, the oldest first.
    pub fn notes(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.folder.path().join("runs")).unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// The notes of one kind about a run.
    pub fn noted(&self, name: &str, what: &str) -> Vec<Value> {
        self.notes().into_iter().filter(|note| note["name"] == name && note["what"] == what).collect()
    }
}

impl Drop for CeleryWorker {
    fn drop(&mut self) {
        kill_family(&mut self.child);
    }
}
