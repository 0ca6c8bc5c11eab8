//! Celery as Debian ships it, with a Redis that keeps everything in memory.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, ensure};
use estimand_testkit::process::free_port;

use super::{AT_ONCE, TaskSystem};
use crate::cores::Cores;
use crate::peer::{Peer, find};

/// The system's own, which has Debian's packages.
const PYTHON: &str = "/usr/bin/python3";
const REDIS: &str = "redis-server";
/// The application and its submitter, which prints how long it took.
const PROGRAM: &str = r#"import os, subprocess, sys, time
from celery import Celery

app = Celery("bench", broker=os.environ["BROKER"], backend=os.environ["BROKER"])

@app.task(name="run")
def run():
    return subprocess.run(["/bin/true"]).returncode

if __name__ == "__main__":
    run.delay().get(timeout=60)
    began = time.perf_counter()
    results = [run.delay() for _ in range(int(sys.argv[1]))]
    assert all(result.get(timeout=600) == 0 for result in results)
    print(time.perf_counter() - began)
"#;

pub(super) struct Celery {
    cores: Cores,
    folder: PathBuf,
    broker: String,
    _redis: Peer,
    _worker: Peer,
}

impl Celery {
    pub fn start(cores: Cores, folder: &Path) -> anyhow::Result<Option<Celery>> {
        let Some(redis) = find(REDIS) else { return Ok(None) };
        let has = Command::new(PYTHON).args(["-c", "import celery, redis"]).output();
        if !has.is_ok_and(|output| output.status.success()) {
            return Ok(None);
        }
        fs::create_dir_all(folder)?;
        fs::write(folder.join("bench_tasks.py"), PROGRAM)?;
        let port = free_port();
        let broker = format!("redis://127.0.0.1:{port}/0");
        let port = port.to_string();
        let args = ["--port", &port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"];
        let redis = Peer::start_on(cores.load, &redis, args, &folder.join("redis"))?;
        let (broker_variable, path) =
            (format!("BROKER={broker}"), format!("PYTHONPATH={}", folder.display()));
        let at_once = AT_ONCE.to_string();
        let worker = [
            broker_variable.as_str(),
            &path,
            PYTHON,
            "-m",
            "celery",
            "-A",
            "bench_tasks",
            "worker",
            "--concurrency",
            &at_once,
            "--loglevel",
            "ERROR",
        ];
        let worker = Peer::start(Path::new("env"), worker, &folder.join("worker"))?;
        Ok(Some(Celery { cores, folder: folder.to_owned(), broker, _redis: redis, _worker: worker }))
    }
}

impl TaskSystem for Celery {
    fn name(&self) -> &'static str {
        "celery, redis in memory"
    }

    fn many(&self, tasks: usize) -> anyhow::Result<Duration> {
        let mut command = Command::new(PYTHON);
        command.arg(self.folder.join("bench_tasks.py")).arg(tasks.to_string()).env("BROKER", &self.broker);
        let output = self.cores.on_load_core(|| command.output().context("the submitter"))?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let seconds = String::from_utf8_lossy(&output.stdout);
        let seconds = seconds.trim().parse().with_context(|| format!("{seconds:?} is no time"))?;
        Ok(Duration::from_secs_f64(seconds))
    }

    /// Within a Python that has loaded everything.
    fn single(&self) -> anyhow::Result<Duration> {
        self.many(1)
    }
}
