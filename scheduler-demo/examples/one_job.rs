//! Runs one job on a plane that is there, as `estimand demo` does, and shows how far it is. Ctrl-C ends it cleanly.
//!
//!     cargo run --example one_job -- SERVER JOB POLICY '{"model":"…","images":"…","out":"…"}' estimand-worker work

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::PathBuf;

use estimand_api::client::Client;
use estimand_api::command::Command;
use estimand_scheduler_demo::dispatch::ThroughAgents;
use estimand_scheduler_demo::facts::{self, Names};
use estimand_scheduler_demo::job::{Job, JobNames};
use estimand_scheduler_demo::plan::Settings;
use estimand_scheduler_demo::planned::{Options as PlanOptions, Planned};
use estimand_scheduler_demo::report;
use estimand_scheduler_demo::results::merge_folder;
use estimand_scheduler_demo::run::{Now, Options, run};
use serde_json::Value;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(job())
}

async fn job() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let mut next = |what: &str| args.next().ok_or(format!("{what} is missing"));
    let (server, name, policy, params) =
        (next("the server")?, next("the job")?, next("the policy")?, next("params")?);
    let params: BTreeMap<String, Value> = serde_json::from_str(&params)?;
    let client = Client::new(&server)?;
    let facts = facts::read(&client, &Names::new(None, None, None)?).await?;
    let settings = Settings { min_chunk: 4, ahead_seconds: 1.0, ..Settings::default() };
    let options = PlanOptions { method: policy.parse()?, settings, ..PlanOptions::default() };
    let planned = Planned::new(facts, options)?;
    print!("{planned}");
    let mut job = Job::new(JobNames::new(&name)?, Command::words(args.collect())?);
    job.params.clone_from(&params);
    let mut agents = ThroughAgents::new(client, format!("{name}-{}", std::process::id()));
    let interrupted = async { drop(tokio::signal::ctrl_c().await) };
    let mut done = run(&job, &planned, &mut agents, &Options::new(name.as_str()), interrupted, show).await?;
    println!();
    if let Some(out) = params.get("out").and_then(Value::as_str) {
        let merged = merge_folder(&PathBuf::from(out), &name)?;
        done.take_merged(&merged);
        let missing = merged.missing(planned.holdings.items().iter().map(String::as_str));
        println!("{} results, {} missing", merged.answers.len(), missing.len());
    }
    print!("{}", report::text(std::slice::from_ref(&done)));
    std::fs::write("report.json", report::to_json(std::slice::from_ref(&done)).to_string())?;
    std::fs::write("report.html", report::page(&[done]))?;
    Ok(())
}

fn show(now: &Now) {
    let node = |node: &estimand_scheduler_demo::run::NodeNow| {
        format!("{} {} {}/{} {:.1}/s", node.name, node.standing.as_str(), node.done, node.of, node.fps)
    };
    let nodes: Vec<String> = now.nodes.iter().map(node).collect();
    print!("\r{}/{}  {}    ", now.done, now.of, nodes.join("  "));
    let _ = std::io::stdout().flush();
}
