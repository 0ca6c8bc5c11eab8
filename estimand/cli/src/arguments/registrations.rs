//! The commands about registrations.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use estimand_api::cron::CronExpr;
use estimand_api::duration::Span;
use estimand_api::names::DataName;
use estimand_api::registration::Sha256;
use estimand_api::selector::Selector;

use super::parse;

const REGISTER_EXAMPLES: &str = "\
Examples:
  estimand register cpu_usage --every 5s -- cpu-usage --percent
  estimand register disk --every 1m --timeout 10s -- sh -c 'df --output=pcent / | tail -n 1'
  estimand register capability --every 5s --inputs cpu_usage,memory -- capability
  estimand register --file registrations.json --replace";

const LIST_NOTES: &str = "\
OK is how many of its instances have had a good run and no trouble since, of those that there are or
should be. What is wrong stands below the line; `estimand instances` says more.";

#[derive(Debug, Args)]
#[command(after_help = REGISTER_EXAMPLES)]
pub struct RegisterArgs {
    /// The data name whose values the command produces
    #[arg(required_unless_present = "file")]
    pub name: Option<DataName>,
    /// The command: one word is split like a shell splits words, several are taken as they are; no shell is started
    #[arg(last = true, value_name = "CMD", required_unless_present = "file", value_hint = ValueHint::CommandWithArguments)]
    pub cmd: Vec<String>,

    /// Replace the registration if there is one of this name
    #[arg(long)]
    pub replace: bool,
    /// Read the registration, or an array of them, as JSON from a file (`-`: standard input)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with_all = [
        "name", "cmd", "every", "gap", "schedule", "phase", "timeout", "kind", "inputs", "mode", "format", "strict", "params",
        "env", "secrets", "secret_files", "sha256", "pin", "limits", "schema", "range", "unit", "nodes", "replicas", "history", "history_max",
    ])]
    pub file: Option<PathBuf>,

    /// Run it this often, from start to start, e.g. 5s or 250ms
    #[arg(long, value_name = "TIME", help_heading = "When it runs", conflicts_with_all = ["gap", "schedule"],
        required_unless_present_any = ["gap", "schedule", "file"])]
    pub every: Option<Span>,
    /// Run it again so long after the run before has ended
    #[arg(long, value_name = "TIME", help_heading = "When it runs", conflicts_with = "schedule")]
    pub gap: Option<Span>,
    /// Run it at the times of a cron expression, e.g. '*/5 * * * *' (UTC, or begin with TZ=Europe/Berlin)
    #[arg(long, value_name = "CRON", help_heading = "When it runs")]
    pub schedule: Option<CronExpr>,
    /// With --every: on each node at moments of its own, or on all nodes at the same ones [default: staggered]
    #[arg(long, help_heading = "When it runs", value_parser = ["staggered", "aligned"])]
    pub phase: Option<String>,
    /// End a run that takes longer
    #[arg(long, value_name = "TIME", help_heading = "When it runs")]
    pub timeout: Option<Span>,

    /// Whether it measures or derives [default: collector, with --inputs processor]
    #[arg(long, help_heading = "What it is", value_parser = ["collector", "processor"])]
    pub kind: Option<String>,
    /// The data names that a processor reads, with commas
    #[arg(long, value_name = "NAMES", help_heading = "What it is", value_delimiter = ',', alias = "input")]
    pub inputs: Vec<DataName>,
    /// How it runs: a process a run, one process that prints a value a line, a built-in, an expression [default: exec]
    #[arg(long, help_heading = "What it is", value_parser = ["exec", "stream", "builtin", "expr"])]
    pub mode: Option<String>,
    /// How its output becomes values; `nodes` is an object of node name to value [default: auto]
    #[arg(long, help_heading = "What it is", value_parser = ["auto", "text", "json", "number", "nodes", "prometheus",
        "influx", "nagios", "munin", "netdata", "csv", "logfmt"])]
    pub format: Option<String>,
    /// Take no output with a bad record in it, instead of leaving that out
    #[arg(long, help_heading = "What it is")]
    pub strict: bool,
    /// A parameter, which the command finds in $ESTIMAND_PARAM_KEY; may be repeated
    #[arg(long = "param", id = "params", value_name = "KEY=VALUE", help_heading = "What it is", value_parser = parse::pair)]
    pub params: Vec<(String, String)>,
    /// A variable of the command's environment; may be repeated
    #[arg(long, value_name = "KEY=VALUE", help_heading = "What it is", value_parser = parse::pair)]
    pub env: Vec<(String, String)>,
    /// A variable whose value is shown to nobody, but for the command; may be repeated. Other users of this machine can
    /// see the arguments of programs: --secret-file keeps it out of them
    #[arg(long = "secret", id = "secrets", value_name = "KEY=VALUE", help_heading = "What it is", value_parser = parse::pair)]
    pub secrets: Vec<(String, String)>,
    /// The same with the content of a file (`-`: standard input), without the line's end; may be repeated
    #[arg(long = "secret-file", id = "secret_files", value_name = "KEY=FILE", help_heading = "What it is", value_parser = parse::pair)]
    pub secret_files: Vec<(String, String)>,
    /// Run the executable only as long as its file has this SHA-256
    #[arg(long, value_name = "DIGEST", help_heading = "What it is")]
    pub sha256: Option<Sha256>,
    /// The same with the SHA-256 that the file has on this machine now
    #[arg(long, help_heading = "What it is", conflicts_with = "sha256")]
    pub pin: bool,
    /// What it may use, e.g. memory=256MiB, cpu=0.5, processes=20, open-files=100; may be repeated
    #[arg(long = "limit", id = "limits", value_name = "KEY=VALUE", help_heading = "What it is", value_parser = parse::pair)]
    pub limits: Vec<(String, String)>,

    /// What a value must be, as JSON Schema; others are kept from readers
    #[arg(long, value_name = "JSON", help_heading = "What its values are", value_parser = parse::json)]
    pub schema: Option<serde_json::Value>,
    /// From where to where a value may be: 0..1, 0.., ..100, or JSON such as {"/load": {"min": 0}}
    #[arg(long, value_name = "RANGE", help_heading = "What its values are", value_parser = parse::range)]
    pub range: Option<serde_json::Value>,
    /// The unit of its values, or an object of pointers to units
    #[arg(long, value_name = "UNIT", help_heading = "What its values are", value_parser = parse::unit)]
    pub unit: Option<serde_json::Value>,

    /// The nodes it runs on, by their labels, e.g. 'zone=a,gpu' [default: all]
    #[arg(long, value_name = "SELECTOR", help_heading = "Where it runs")]
    pub nodes: Option<Selector>,
    /// On how many of these nodes: all, or a number [default: all; of a processor 1]
    #[arg(long, value_name = "N", help_heading = "Where it runs")]
    pub replicas: Option<String>,

    /// Keep its past values for so long, e.g. 1h
    #[arg(long, value_name = "TIME", help_heading = "What is kept")]
    pub history: Option<Span>,
    /// Keep so many past values of each node
    #[arg(long, value_name = "N", help_heading = "What is kept")]
    pub history_max: Option<u64>,
}

#[derive(Debug, Args)]
pub struct UnregisterArgs {
    /// The data names
    #[arg(required = true, value_name = "NAME")]
    pub names: Vec<DataName>,
}

#[derive(Debug, Args)]
#[command(after_help = LIST_NOTES)]
pub struct ListArgs {}

#[derive(Debug, Args)]
pub struct ShowArgs {
    /// The data name
    pub name: DataName,
}

#[derive(Debug, Args)]
pub struct ChangesArgs {
    /// The data name
    pub name: DataName,
}
