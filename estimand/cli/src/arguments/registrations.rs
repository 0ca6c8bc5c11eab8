//! The commands about registrations.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use estimand_api::names::{DataName, NamePattern};

use super::field_options::FieldOptions;
use super::parse;

const REGISTER_EXAMPLES: &str = "\
Examples:
  estimand register cpu_usage --every 5s -- cpu-usage --percent
  estimand register disk --every 1m --timeout 10s -- sh -c 'df --output=pcent / | tail -n 1'
  estimand register capability --every 5s --inputs cpu_usage,memory -- capability
  estimand register probe --every 1m --upload ./probe.py -- --fast
  estimand register --file registrations.json --replace";

const LIST_NOTES: &str = "\
OK is how many of its instances have had a good run and no trouble since, of those that there are or
should be. Troubles stand below the line; `estimand instances` says more.";

#[derive(Debug, Args)]
#[command(after_help = REGISTER_EXAMPLES)]
pub struct RegisterArgs {
    /// The data name whose values the command produces
    #[arg(required_unless_present = "file", conflicts_with = "file")]
    pub name: Option<DataName>,
    /// The command: one word is split like a shell splits words, several are taken as they are; no shell is started
    #[arg(last = true, value_name = "CMD", required_unless_present_any = ["file", "upload"], conflicts_with = "file",
        value_hint = ValueHint::CommandWithArguments)]
    pub cmd: Vec<String>,

    /// Replace the registration if there is one of this name
    #[arg(long)]
    pub replace: bool,
    /// Read the registration, or an array of them, as JSON from a file (`-`: standard input)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: Option<PathBuf>,

    #[command(flatten)]
    pub fields: FieldOptions,

    /// A variable of `env` whose value is shown to nobody but the command; may be repeated. Other users of this machine can
    /// see the arguments of programs: --secret-file keeps it out of them
    #[arg(long = "secret", id = "secrets", value_name = "KEY=VALUE", help_heading = "What it is", value_parser = parse::pair,
        conflicts_with = "file")]
    pub secrets: Vec<(String, String)>,
    /// The same with the content of a file (`-`: standard input), without the line's end; may be repeated
    #[arg(long = "secret-file", id = "secret_files", value_name = "KEY=FILE", help_heading = "What it is", value_parser = parse::pair,
        conflicts_with = "file")]
    pub secret_files: Vec<(String, String)>,
    /// Run this file, which goes along: a script that begins with `#!`, or a program, of at most 1 MiB. What stands behind `--`
    /// are its arguments. Agents take it if they were started with --allow-uploads
    #[arg(long, value_name = "FILE", help_heading = "What it is", value_hint = ValueHint::FilePath,
        conflicts_with_all = ["sha256", "pin", "file"])]
    pub upload: Option<PathBuf>,
    /// Sign it with this key, which `estimand pki upload-key` made
    #[arg(long, value_name = "KEY", help_heading = "What it is", value_hint = ValueHint::FilePath, requires = "upload")]
    pub sign_with: Option<PathBuf>,
    /// Like --sha256, with the SHA-256 that the file has on this machine now
    #[arg(long, help_heading = "What it is", conflicts_with_all = ["sha256", "file"])]
    pub pin: bool,
}

#[derive(Debug, Args)]
pub struct UnregisterArgs {
    /// The data names
    #[arg(required = true, value_name = "NAME")]
    pub names: Vec<DataName>,
}

#[derive(Debug, Args)]
#[command(after_help = LIST_NOTES)]
pub struct ListArgs {
    /// Only these data names; a `*` in a name stands for any text
    #[arg(value_name = "NAME")]
    pub names: Vec<NamePattern>,
    /// Only those that need attention on some node; the exit code is 1 if there are any
    #[arg(long)]
    pub failing: bool,
}

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
