//! The command that plans a partition and has it carried out through the agents.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use estimand_scheduler_demo::job::JobNames;

use super::partition::PlanArgs;
use estimand_cli::arguments::parse;

const EXAMPLES: &str = "\
Plans as `estimand partition` does, has the agents start the worker on all nodes, tells each its
part, and goes on until every image has a result; it fails if one has none. The protocol of workers
is in scheduler-demo/README.md.

Ctrl-C ends the workers and leaves nothing of the job but its results. If this is killed, they work
on at what they have, and `estimand unregister NAME.work` ends them.

Examples:
  estimand job birds --param images=/images --param out=/results --report . -- my-worker --fast
  estimand job birds --policy dynamic --json -- estimand-worker work";

// Runs a job.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct JobArgs {
    /// Name of the job: data names and results begin with it
    #[arg(value_parser = JobNames::new)]
    pub name: JobNames,
    /// The worker, as it is called on the nodes: one word is split like a shell splits words
    #[arg(last = true, required = true, value_name = "WORKER", value_hint = ValueHint::CommandWithArguments)]
    pub worker: Vec<String>,
    /// A parameter, which workers find in $ESTIMAND_PARAM_KEY; may be repeated. `out` is the folder of the results
    #[arg(long = "param", id = "params", value_name = "KEY=VALUE", value_parser = parameter)]
    pub params: Vec<(String, String)>,
    /// Write report.json and report.html into this folder
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub report: Option<PathBuf>,
    #[command(flatten)]
    pub plan: PlanArgs,
}

impl JobArgs {
    pub fn param(&self, name: &str) -> Option<&str> {
        self.params.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

fn parameter(text: &str) -> Result<(String, String), String> {
    let (key, value) = parse::pair(text)?;
    match key.as_str() {
        // These two are set for every worker anyway.
        "job" | "run" => Err(format!("`{key}` is the job's own")),
        _ => Ok((key, value)),
    }
}
