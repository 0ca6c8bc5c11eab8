//! The command that measures without any service.

use clap::Args;

const EXAMPLES: &str = "\
Examples:
  estimand collect                      list the collectors and their parameters
  estimand collect cpu                  measure once, for people
  estimand collect memory --json        for programs: one line of JSON
  estimand collect log_tail --param path=/var/log/worker.log --param 'pattern=fps=(?<fps>[0-9.]+)'

The same collectors run inside the agents, without a process, if they are registered with the mode builtin:
  estimand register cpu --mode builtin --every 5s -- cpu";

// Measures here, once.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct CollectArgs {
    /// Collector to run; all of them are listed if there is no name
    pub name: Option<String>,
    /// A parameter of the collector; may be repeated
    #[arg(long = "param", id = "params", value_name = "NAME=VALUE", value_parser = param)]
    pub params: Vec<(String, String)>,
    /// How long it may take, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 30.0)]
    pub timeout: f64,
    /// Print JSON, on one line
    #[arg(long)]
    pub json: bool,
}

fn param(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("expected NAME=VALUE".to_owned()),
    }
}
