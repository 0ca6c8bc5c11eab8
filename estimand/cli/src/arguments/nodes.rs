//! The commands about nodes, and about what runs on them.

use clap::{Args, Subcommand};
use estimand_api::names::{DataName, NodeName};

use super::{Remote, Remotely, parse};

// One or the other; clap would forbid the common options together with an action, if it were told so.
const NODES_USAGE: &str = "\
estimand nodes [OPTIONS] [NAME]
       estimand nodes [OPTIONS] <COMMAND> <NAME>";

const NODES_EXAMPLES: &str = "\
Examples:
  estimand nodes
  estimand nodes node-1
  estimand nodes label node-1 gpu=a100 ssd old-     # `old-` takes the label `old` away
  estimand nodes cordon node-1
  estimand nodes remove node-1";

const INSTANCES_EXAMPLES: &str = "\
V is the version that runs. RUNS counts its runs, FAIL those that gave no value, TOUT those of them
that took too long; OVER counts how often it was due while it still ran. Counts begin with the start
of the agent.

DOING is what it does now: pending (its agent has not told of it yet), idle (until its next time),
waiting (as many run there as may), running, backing-off (until its process is started again),
refused (the line below says why), unleased (until the manager is heard of again), stopping.

Examples:
  estimand instances
  estimand instances cpu_usage --node node-1
  estimand instances --failing";

const LOGS_EXAMPLES: &str = "\
Of each instance the end of what its last run wrote there is kept, 4 KiB at most; of a stream
also what it writes while it goes on.

Examples:
  estimand logs cpu_usage
  estimand logs cpu_usage --node node-1 --follow";

const RUN_EXAMPLES: &str = "\
It is run as its slot runs it: by the node's agent, with the same environment, limits and timeout. Its
values are shown and not stored. The exit code is 1 if it failed, whatever its own exit code was.

Examples:
  estimand run cpu_usage --node node-1
  estimand run cpu_usage --json";

#[derive(Debug, Args)]
#[command(after_help = NODES_EXAMPLES, override_usage = NODES_USAGE)]
pub struct NodesArgs {
    /// The node to show all about; without one, all are listed
    pub name: Option<NodeName>,
    #[command(subcommand)]
    pub action: Option<NodesAction>,
}

#[derive(Debug, Subcommand)]
pub enum NodesAction {
    /// Set labels of a node, or take them away; they count more than those that its agent claims
    Label(Remotely<LabelArgs>),
    /// Place nothing further on a node; what is there stays, and what runs on all nodes runs there too
    Cordon(Remotely<NodeArgs>),
    /// Undo `cordon`
    Uncordon(Remotely<NodeArgs>),
    /// Forget a lost node and delete its values
    Remove(Remotely<NodeArgs>),
}

#[derive(Debug, Args)]
pub struct LabelArgs {
    /// The node
    pub name: NodeName,
    /// KEY=VALUE or KEY sets a label, KEY- takes it away
    #[arg(value_name = "LABEL", required = true, value_parser = parse::label_change)]
    pub changes: Vec<(String, Option<String>)>,
}

#[derive(Debug, Args)]
pub struct NodeArgs {
    /// The node
    pub name: NodeName,
}

#[derive(Debug, Args)]
#[command(after_help = INSTANCES_EXAMPLES)]
pub struct InstancesArgs {
    /// Only those of this data name
    pub name: Option<DataName>,
    /// Only those on this node
    #[arg(long)]
    pub node: Option<NodeName>,
    /// Only those that need attention: refused, without a good run so far, failed three times in a row, or on a lost
    /// node; the exit code is 1 if there are some
    #[arg(long)]
    pub failing: bool,
}

#[derive(Debug, Args)]
#[command(after_help = LOGS_EXAMPLES)]
pub struct LogsArgs {
    /// The data name
    pub name: DataName,
    /// Only what was written on this node
    #[arg(long)]
    pub node: Option<NodeName>,
    /// Go on with what is written from now on, until Ctrl-C; a run that writes what the one before wrote is
    /// left out
    #[arg(long, short)]
    pub follow: bool,
}

#[derive(Debug, Args)]
#[command(after_help = RUN_EXAMPLES)]
pub struct RunArgs {
    /// The data name
    pub name: DataName,
    /// The node to run it on; may be left out if there is only one
    #[arg(long)]
    pub node: Option<NodeName>,
}

impl NodesArgs {
    /// The common options that stood after the action.
    pub fn inner(&self) -> Option<&Remote> {
        match self.action.as_ref()? {
            NodesAction::Label(args) => Some(&args.remote),
            NodesAction::Cordon(args) | NodesAction::Uncordon(args) | NodesAction::Remove(args) => {
                Some(&args.remote)
            }
        }
    }
}
