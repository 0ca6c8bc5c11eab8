//! The commands about values and bindings.

use clap::Args;
use estimand_api::duration::Span;
use estimand_api::names::{DataName, NodeName};
use estimand_api::value::State;

use super::parse;

const PUT_EXAMPLES: &str = "\
Examples:
  estimand put cpu_usage node-1 0.42 --valid-for 15s
  estimand put rack node-1 '{\"row\": 3, \"name\": \"b\"}'
  uname -r | estimand put kernel node-1 - --text";

const GET_EXAMPLES: &str = "\
Examples:
  estimand get cpu_usage
  estimand get cpu_usage memory --node node-1 --max-age 5s
  estimand get cpu_usage --node node-1 --raw
  estimand get capability --node node-1 --explain";

#[derive(Debug, Args)]
#[command(after_help = PUT_EXAMPLES)]
pub struct PutArgs {
    /// The data name
    pub name: DataName,
    /// The node that the value is about
    pub node: NodeName,
    /// The value: JSON if it is JSON, else a text; `-` reads it from standard input
    #[arg(allow_negative_numbers = true)]
    pub value: String,
    /// Take the value as a text even if it is JSON
    #[arg(long)]
    pub text: bool,
    /// For how long the value holds; then it turns stale [default: for ever]
    #[arg(long, value_name = "TIME")]
    pub valid_for: Option<Span>,
}

#[derive(Debug, Args)]
#[command(after_help = GET_EXAMPLES)]
pub struct GetArgs {
    /// The data names; all of them if none is given
    #[arg(value_name = "NAME")]
    pub names: Vec<DataName>,
    /// Only the values of this node
    #[arg(long)]
    pub node: Option<NodeName>,
    /// Only values in one of these states, with commas
    #[arg(long = "state", id = "states", value_name = "STATE", value_delimiter = ',', value_parser = parse::state())]
    pub states: Vec<State>,
    /// Only values that were collected no longer ago, e.g. 5s
    #[arg(long, value_name = "TIME")]
    pub max_age: Option<Span>,
    /// Say for each value what produced it
    #[arg(long, conflicts_with = "raw")]
    pub explain: bool,
    /// Print just the values, one a line, texts without quotes
    #[arg(long, conflicts_with = "json")]
    pub raw: bool,
}

#[derive(Debug, Args)]
pub struct DeleteArgs {
    /// The data name
    pub name: DataName,
    /// Only the value of this node
    #[arg(long)]
    pub node: Option<NodeName>,
}

#[derive(Debug, Args)]
pub struct WatchArgs {
    /// The data names; all of them if none is given
    #[arg(value_name = "NAME")]
    pub names: Vec<DataName>,
}

#[derive(Debug, Args)]
pub struct HistoryArgs {
    /// The data name, which must be registered with a history
    pub name: DataName,
    /// Only the values of this node
    #[arg(long)]
    pub node: Option<NodeName>,
    /// Since when: how long ago, e.g. 1h, or an instant
    #[arg(long, value_name = "TIME", value_parser = parse::moment)]
    pub since: Option<String>,
    /// Until when, in the same way
    #[arg(long, value_name = "TIME", value_parser = parse::moment)]
    pub until: Option<String>,
    /// At most so many values, the newest ones [default: 1000]
    #[arg(long, value_name = "N")]
    pub limit: Option<u32>,
}

#[derive(Debug, Args)]
pub struct BindArgs {
    /// The data name that readers ask for
    pub name: DataName,
    /// The data name whose values they get
    pub target: DataName,
}

#[derive(Debug, Args)]
pub struct UnbindArgs {
    /// The data name that is bound
    pub name: DataName,
}

#[derive(Debug, Args)]
pub struct BindingsArgs {}
