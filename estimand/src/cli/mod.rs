//! The command line as people type it: the commands, their options, and a sentence about each.
//!
//! Arguments become the types of `estimand_api` here, so that a command never sees a wrong name or a wrong
//! duration; what is wrong ends with clap's message and exit code 2. Nothing is done here.

use clap::error::ErrorKind;
use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;

use estimand_cli::{ClientCommand, Remote, Remotely};

use crate::services::ServiceCommand;

pub mod collect;
pub mod engine;
pub mod export_metrics;
pub mod groups;
pub mod job;
pub mod partition;
pub mod pki;
pub mod platform;
pub mod services;
pub mod simulate;
pub mod simulate_deadlines;
pub mod simulate_reservations;
#[cfg(test)]
mod tests;
mod tips;
pub mod tls;

use collect::CollectArgs;
use engine::{AgentArgs, UpArgs};
use export_metrics::ExportMetricsArgs;
use job::JobArgs;
use partition::PartitionArgs;
use pki::PkiArgs;
use simulate::SimulateArgs;

/// Estimand keeps schedulers supplied with what they need to know about a cluster
#[derive(Debug, Parser)]
#[command(name = "estimand", version, max_term_width = 100)]
pub struct Cli {
    #[command(flatten)]
    pub remote: Remote,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Start everything in one process, for this machine
    Up(Box<UpArgs>),
    #[command(flatten)]
    Service(ServiceCommand),
    /// Start the agent of a node: it runs what is for it
    Agent(Box<AgentArgs>),
    #[command(flatten)]
    Client(ClientCommand),
    #[command(flatten)]
    Scheduler(SchedulerCommand),
    /// Send values to OpenTelemetry, as metrics
    ExportMetrics(Box<Remotely<ExportMetricsArgs>>),
    /// Measure this machine once, without any service
    Collect(CollectArgs),
    /// Compare placement policies under a virtual clock, without any service
    Simulate(SimulateArgs),
    /// Make an authority, and certificates for services, operators and nodes
    Pki(PkiArgs),
    /// Print a script that completes words in your shell
    Completions(CompletionsArgs),
    /// Write the manual pages of all commands to a folder
    Man(ManArgs),
}

#[derive(Debug, Subcommand)]
pub enum SchedulerCommand {
    /// Plan how to divide data among nodes by what they are capable of
    Partition(Remotely<PartitionArgs>),
    /// Divide data among nodes and have it worked on there
    Job(Box<Remotely<JobArgs>>),
}

const COMPLETIONS_EXAMPLES: &str = "\
Commands and options are completed, and names of data, registrations, bindings, nodes and tasks. The
services are asked for names, for at most 0.4 seconds; one that is away or refuses offers nothing.

Examples:
  estimand completions bash > ~/.local/share/bash-completion/completions/estimand
  echo 'source <(estimand completions zsh)' >> ~/.zshrc
  estimand completions fish > ~/.config/fish/completions/estimand.fish";

#[derive(Debug, Args)]
#[command(after_help = COMPLETIONS_EXAMPLES)]
pub struct CompletionsArgs {
    /// The shell that reads the script
    pub shell: Shell,
}

const MAN_EXAMPLES: &str = "\
Examples:
  estimand man ~/.local/share/man/man1 && man estimand-register";

#[derive(Debug, Args)]
#[command(after_help = MAN_EXAMPLES)]
pub struct ManArgs {
    /// The folder, which is made if it is not there
    #[arg(value_hint = clap::ValueHint::DirPath)]
    pub dir: std::path::PathBuf,
    /// Print where the pages are and how many, as JSON
    #[arg(long)]
    pub json: bool,
}

impl Cli {
    /// Ends the process if any of these options is given: a service does not speak to another one by them,
    /// and nothing that was asked for is passed over in silence.
    pub fn refuse_remote(remote: &Remote) {
        if *remote != Remote::default() {
            let message = "--server and --json belong to the commands that speak to a service, not to those \
                           that start one";
            groups::command().error(ErrorKind::ArgumentConflict, message).exit();
        }
    }
}
