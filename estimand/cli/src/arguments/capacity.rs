//! The commands about capacity and promises of it.

use clap::{Args, Subcommand};

use super::{Remote, Remotely};

const CAPACITY_EXAMPLES: &str = "\
Examples:
  estimand capacity
  estimand capacity promises
  estimand capacity promises --state PROMISED,ACTIVE --user ada --json";

#[derive(Debug, Args)]
#[command(after_help = CAPACITY_EXAMPLES)]
pub struct CapacityArgs {
    #[command(subcommand)]
    pub action: Option<CapacityAction>,
}

#[derive(Debug, Subcommand)]
pub enum CapacityAction {
    /// List the nodes with their capacity and the part of it that no task has
    Nodes(Remotely<NoArgs>),
    /// List promises of capacity in the order of their beginnings
    Promises(Remotely<PromisesArgs>),
}

#[derive(Debug, Default, Args)]
pub struct NoArgs {}

#[derive(Debug, Args)]
pub struct PromisesArgs {
    /// Only those in these states: PROMISED, ACTIVE, OVER, RELEASED, BROKEN; all: empty
    #[arg(long, value_name = "STATES", default_value = "PROMISED,ACTIVE")]
    pub state: String,
    /// Only those of this user
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
}

impl CapacityArgs {
    /// The common options that stood after the action.
    pub fn inner(&self) -> Option<&Remote> {
        Some(match self.action.as_ref()? {
            CapacityAction::Nodes(args) => &args.remote,
            CapacityAction::Promises(args) => &args.remote,
        })
    }
}
