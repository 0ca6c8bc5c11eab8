//! A scheduler that runs for as long as there are jobs: one a line on standard input, and for each a line of JSON of
//! how it went. What it knows of the cluster it reads under the three names of data, anew for each job.
//!
//!     echo 'birds dynamic' | cargo run --example scheduler -- SERVER '{"model":"…","images":"…","out":"…"}' \
//!         estimand-worker work
//!
//! A job that fails is said to have, and the next one begins. Ctrl-C ends the job that runs, of which nothing is left;
//! between jobs it ends this, as the end of standard input does.

use std::collections::BTreeMap;
use std::error::Error;
use std::io;

use estimand_api::command::Command;
use estimand_client::Client;
use estimand_scheduler_demo::dispatch::AgentDispatcher;
use estimand_scheduler_demo::facts::{self, Names};
use estimand_scheduler_demo::job::{Job, JobNames};
use estimand_scheduler_demo::job_plan::{JobPlan, Options as PlanOptions};
use estimand_scheduler_demo::plan::DynamicSettings;
use estimand_scheduler_demo::run::{Options, Run, run};
use serde_json::{Value, json};
use tokio::sync::mpsc;

const SETTINGS: DynamicSettings = DynamicSettings { min_chunk: 4, ahead_seconds: 1.0, smoothing: 0.4 };

struct Scheduler {
    client: Client,
    params: BTreeMap<String, Value>,
    worker: Command,
}

fn main() -> Result<(), Box<dyn Error>> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut args = std::env::args().skip(1);
    let (Some(server), Some(params)) = (args.next(), args.next()) else {
        return Err("usage: scheduler SERVER PARAMS WORKER [ARGUMENT…]".into());
    };
    let scheduler = Scheduler {
        client: Client::of_environment(&server)?,
        params: serde_json::from_str(&params)?,
        worker: Command::words(args.collect())?,
    };
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(scheduler.serve())
}

impl Scheduler {
    async fn serve(&self) -> Result<(), Box<dyn Error>> {
        let mut lines = lines();
        loop {
            let line = tokio::select! {
                line = lines.recv() => line,
                _ = tokio::signal::ctrl_c() => None,
            };
            let Some(line) = line.transpose()? else { return Ok(()) };
            let Some((name, policy)) = line.split_once(' ') else {
                return Err(format!("`{line}` is no job; expected: JOB POLICY").into());
            };
            let said = match self.job(name, policy).await {
                Ok(run) => in_short(&run),
                Err(error) => json!({ "job": name, "error": error.to_string() }),
            };
            println!("{said}");
        }
    }

    async fn job(&self, name: &str, policy: &str) -> Result<Run, Box<dyn Error>> {
        let facts = facts::read(&self.client, &Names::new(None, None, None)?).await?;
        let options = PlanOptions { policy: policy.parse()?, settings: SETTINGS, ..PlanOptions::default() };
        let job_plan = JobPlan::new(facts, options)?;
        let mut job = Job::new(JobNames::new(name)?, self.worker.clone());
        job.params.clone_from(&self.params);
        let mut agents = AgentDispatcher::new(self.client.clone(), format!("{name}-{}", std::process::id()));
        let interrupted = async { drop(tokio::signal::ctrl_c().await) };
        Ok(run(&job, &job_plan, &mut agents, &Options::new(name), interrupted, |_| {}).await?)
    }
}

/// Standard input, which can only be waited for in a thread of its own.
fn lines() -> mpsc::Receiver<io::Result<String>> {
    let (tell, lines) = mpsc::channel(1);
    std::thread::spawn(move || io::stdin().lines().try_for_each(|line| tell.blocking_send(line)));
    lines
}

fn in_short(run: &Run) -> Value {
    let targets: BTreeMap<&str, u64> =
        run.nodes.iter().map(|node| (node.name.as_str(), node.target)).collect();
    json!({
        "job": run.job, "policy": run.policy, "revision": run.revision, "targets": targets,
        "makespan": run.makespan, "ideal": run.ideal, "moved": run.moved, "duplicates": run.duplicates,
    })
}
