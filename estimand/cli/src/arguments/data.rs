//! The commands about values and bindings.

use clap::Args;
use estimand_api::condition::Condition;
use estimand_api::duration::Span;
use estimand_api::names::{DataName, NamePattern, NodeName};
use estimand_api::order::ValueOrder;
use estimand_api::pointer::Pointer;
use estimand_api::selector::Selector;
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
  estimand get cpu_usage --wait=30s
  estimand get cpu_usage --node node-1 --raw
  estimand get memory --field /availableBytes
  estimand get 'cpu*' --nodes zone=a,!old
  estimand get load --sort -/one --limit 5
  estimand get load --where '/one>4'
  estimand get capability --node node-1 --explain";

const BIND_EXAMPLES: &str = "\
Examples:
  estimand bind node_capability capability_history
  estimand bind node_capability capability_ewma --field /value
  estimand bind node_capability capability_cpu --from capability_ewma
  estimand bind node_capability --rollback";

const COMPARE_AFTER: &str = "\
For each node: what each name says now, with its spread and its number of samples if it tells
them; its share of the sum over all nodes, which is what a partition by capability uses; how
far that is from the share by the first name that is compared with, in points; and mean,
standard deviation and number of its values in the past, if a history is kept. A node without
a number has no share. The name that is served now is marked with `*`, and is what the others
are compared with.

Then for each two names: how much of all work would go to other nodes (the total variation
distance), and whether they order the nodes alike (Kendall's tau: 1 alike, -1 the other way).

With --json: `name`, `boundTo`, `revision`, `since`; `columns`, each with `dataName`, `serves`,
`field`, `noShares` (why there are none), `historyKept`, `historyCut`, and `nodes`, each with
`nodeName`, `value`, `number`, `spread`, `samples`, `state`, `share`, and `past` with `mean`,
`deviation`, `count`; `pairs`, each with `a`, `b`, `totalVariation`, `kendallTau`, `sameOrder`,
`nodesInBoth`, and `nodes`, each with `nodeName` and `difference`. A missing one is null.

Examples:
  estimand compare node_capability capability_cpu capability_history
  estimand compare node_capability capability_cpu capability_ewma --since 1h --json";

#[derive(Debug, Args)]
#[command(after_help = PUT_EXAMPLES)]
pub struct PutArgs {
    /// The data name
    pub name: DataName,
    /// The node that the value is about
    pub node: NodeName,
    /// The value: JSON if it is JSON, else a text that begins with none of { [ "; `-` reads it from standard input
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
    /// The data names; all of them if none is given; a `*` in a name stands for any text
    #[arg(value_name = "NAME")]
    pub names: Vec<NamePattern>,
    /// Only the values of this node, or of several with commas
    #[arg(long, value_name = "NODE", value_delimiter = ',')]
    pub node: Vec<NodeName>,
    /// Only the values of nodes with these labels, e.g. zone=a,gpu,!old
    #[arg(long, value_name = "SELECTOR", conflicts_with = "node", value_parser = Selector::parse_of_read)]
    pub nodes: Option<Selector>,
    /// Only values for which this holds, e.g. value>0.9 or /one>2,/state=up
    #[arg(long = "where", id = "where", value_name = "CONDITION")]
    pub condition: Option<Condition>,
    /// Only values in one of these states, with commas
    #[arg(long = "state", id = "states", value_name = "STATE", value_delimiter = ',', value_parser = parse::state())]
    pub states: Vec<State>,
    /// Only values that were collected no longer ago, e.g. 5s
    #[arg(long, value_name = "TIME")]
    pub max_age: Option<Span>,
    /// Only this part of each value, e.g. /value; values without it are left out
    #[arg(long, value_name = "POINTER")]
    pub field: Option<Pointer>,
    /// Order by the number or text at this place of each value, e.g. /one, or by the whole `value`; with `-` before it
    /// the greatest come first
    #[arg(long, value_name = "[-]POINTER", allow_hyphen_values = true)]
    pub sort: Option<ValueOrder>,
    /// At most so many values, the first ones
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub limit: Option<u32>,
    /// Wait until each of the names has such a value, at most so long; without a time 10 s
    #[arg(long, value_name = "TIME", num_args = 0..=1, require_equals = true, default_missing_value = "10s",
        requires = "names")]
    pub wait: Option<Span>,
    /// Say for each value what produced it
    #[arg(long, conflicts_with_all = ["raw", "field"])]
    pub explain: bool,
    /// Print just the values, one a line, texts without quotes
    #[arg(long, conflicts_with = "json")]
    pub raw: bool,
}

#[derive(Debug, Args)]
pub struct DeleteArgs {
    /// The data names
    #[arg(value_name = "NAME", required = true)]
    pub names: Vec<DataName>,
    /// Only the values of this node
    #[arg(long)]
    pub node: Option<NodeName>,
}

#[derive(Debug, Args)]
pub struct WatchArgs {
    /// The data names; all of them if none is given; a `*` in a name stands for any text
    #[arg(value_name = "NAME")]
    pub names: Vec<NamePattern>,
    /// Only the values of this node, or of several with commas
    #[arg(long, value_name = "NODE", value_delimiter = ',')]
    pub node: Vec<NodeName>,
    /// Only the values of nodes with these labels, e.g. zone=a,gpu,!old
    #[arg(long, value_name = "SELECTOR", conflicts_with = "node", value_parser = Selector::parse_of_read)]
    pub nodes: Option<Selector>,
    /// Only values for which this holds, e.g. value>0.9; one for which it does not counts as deleted
    #[arg(long = "where", id = "where", value_name = "CONDITION")]
    pub condition: Option<Condition>,
    /// Only this part of each value, e.g. /value; a value without it counts as deleted
    #[arg(long, value_name = "POINTER")]
    pub field: Option<Pointer>,
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
    /// Only this part of each value, e.g. /value; values without it are left out
    #[arg(long, value_name = "POINTER")]
    pub field: Option<Pointer>,
}

#[derive(Debug, Args)]
#[command(after_help = COMPARE_AFTER)]
pub struct CompareArgs {
    /// The subject: a bound name, of which the name that it serves is marked, or any other
    pub name: DataName,
    /// The data names that are compared
    #[arg(value_name = "COLUMN", required = true, num_args = 2..)]
    pub columns: Vec<DataName>,
    /// How far to look back: how long ago, e.g. 1h, or an instant
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = parse::moment)]
    pub since: String,
    /// Where the number stands in values that are objects [default: what NAME serves, else /value]
    #[arg(long, value_name = "POINTER")]
    pub field: Option<Pointer>,
}

#[derive(Debug, Args)]
#[command(after_help = BIND_EXAMPLES)]
pub struct BindArgs {
    /// The data name that readers ask for
    pub name: DataName,
    /// The data name whose values they get
    #[arg(required_unless_present = "rollback")]
    pub target: Option<DataName>,
    /// They get only this part of each value, e.g. /value
    #[arg(long, value_name = "POINTER", conflicts_with = "rollback")]
    pub field: Option<Pointer>,
    /// They get again what they got before; twice is back again
    #[arg(long, conflicts_with = "target")]
    pub rollback: bool,
    /// Only if they get this one's values until now
    #[arg(long, value_name = "NAME")]
    pub from: Option<DataName>,
    /// Also to a name that no registration produces, and one without values if readers get some now
    #[arg(long)]
    pub force: bool,
}

#[derive(Debug, Args)]
pub struct UnbindArgs {
    /// The data name that is bound
    pub name: DataName,
}

#[derive(Debug, Args)]
pub struct BindingsArgs {
    /// Only this data name
    pub name: Option<DataName>,
    /// Every change of its binding with time and author; newest first
    #[arg(long, requires = "name")]
    pub history: bool,
    /// At most so many changes, the newest ones [default: 1000]
    #[arg(long, value_name = "N", requires = "history")]
    pub limit: Option<u32>,
}
