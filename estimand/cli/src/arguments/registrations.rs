//! The commands about registrations.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use estimand_api::names::{DataName, NamePattern, NodeName};

use super::field_options::{ChangedFields, RegistrationFields};
use super::parse;

const REGISTER_EXAMPLES: &str = "\
Examples:
  estimand register cpu_usage --every 5s -- cpu-usage --percent
  estimand register disk --every 1m --timeout 10s -- sh -c 'df --output=pcent / | tail -n 1'
  estimand register capability --every 5s --inputs cpu_usage,memory -- capability
  estimand register cpu_usage --every 5s --try -- cpu-usage --percent
  estimand register probe --every 1m --upload ./probe.py -- --fast
  estimand register --file registrations.json --replace";

const EDIT_EXAMPLES: &str = "\
Everything that is not named stays as it is, secrets and history included. In --env, --param and --limit
the other keys stay too; --unset takes one of them out.

Examples:
  estimand edit cpu_usage --every 7s
  estimand edit cpu_usage --history 1h --unset timeout,env.LANG
  estimand edit cpu_usage -- cpu-usage --percent --fast";

const RENAME_NOTES: &str = "\
The registration goes over in one step with everything in it. Its values and their history stay under
the old name, where nothing renews them; `estimand delete` removes them. A name that other
registrations read, or that bindings serve, is renamed only with --force: the readers' programs and
expressions have the name in them. Instead, register the new name and bind the old one to it.";

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
    /// Register nothing: run it once on a node, and show everything that comes of it; the exit code is 1 if it fails. The
    /// node need not be named if there is one only
    #[arg(long = "try", value_name = "NODE", num_args = 0..=1, require_equals = true, conflicts_with = "replace")]
    pub trial: Option<Option<NodeName>>,
    /// Do not wait for the first run. Without this its value or its failure is shown, if it comes within 10 seconds; that of
    /// a calendar, of several registrations in one file, and with --json is never waited for
    #[arg(long, conflicts_with = "trial")]
    pub no_wait: bool,
    /// Read the registration, or an array of them, as JSON from a file (`-`: standard input)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath,
        conflicts_with_all = ["secrets", "secret_files", "pin", "upload"])]
    pub file: Option<PathBuf>,

    #[command(flatten)]
    pub fields: RegistrationFields,

    #[command(flatten)]
    pub local: LocalOptions,
}

#[derive(Debug, Args)]
#[command(after_help = EDIT_EXAMPLES)]
pub struct EditArgs {
    /// The data name whose registration changes
    pub name: DataName,
    /// Another command
    #[arg(last = true, value_name = "CMD", value_hint = ValueHint::CommandWithArguments)]
    pub cmd: Vec<String>,

    /// Take a field out, or a key of one such as env.LANG; with commas between several
    #[arg(long, value_name = "FIELD", value_delimiter = ',')]
    pub unset: Vec<String>,
    /// Only if the registration is at this version
    #[arg(long = "if-version", value_name = "N")]
    pub version: Option<u64>,

    #[command(flatten)]
    pub fields: ChangedFields,

    #[command(flatten)]
    pub local: LocalOptions,
}

// The parts of a registration that come from this machine.
#[derive(Debug, Default, Args)]
pub struct LocalOptions {
    /// A variable of `env` whose value is shown to nobody but the command; may be repeated. Other users of this machine can
    /// see the arguments of programs: --secret-file keeps it out of them
    #[arg(long = "secret", id = "secrets", value_name = "KEY=VALUE", help_heading = "What it is", value_parser = parse::pair)]
    pub secrets: Vec<(String, String)>,
    /// The same with the content of a file (`-`: standard input), without the line's end; may be repeated
    #[arg(long = "secret-file", id = "secret_files", value_name = "KEY=FILE", help_heading = "What it is", value_parser = parse::pair)]
    pub secret_files: Vec<(String, String)>,
    /// Run this file, which goes along: a script that begins with `#!`, or a program, of at most 1 MiB. What stands behind `--`
    /// are its arguments. Agents take it if they were started with --allow-uploads
    #[arg(long, value_name = "FILE", help_heading = "What it is", value_hint = ValueHint::FilePath,
        conflicts_with_all = ["sha256", "pin"])]
    pub upload: Option<PathBuf>,
    /// Sign it with this key, which `estimand pki upload-key` made
    #[arg(long, value_name = "KEY", help_heading = "What it is", value_hint = ValueHint::FilePath, requires = "upload")]
    pub sign_with: Option<PathBuf>,
    /// Like --sha256, with the SHA-256 that the file has on this machine now
    #[arg(long, help_heading = "What it is", conflicts_with = "sha256")]
    pub pin: bool,
}

#[derive(Debug, Args)]
pub struct PauseArgs {
    /// The data names
    #[arg(required = true, value_name = "NAME")]
    pub names: Vec<DataName>,
}

#[derive(Debug, Args)]
#[command(after_help = RENAME_NOTES)]
pub struct RenameArgs {
    /// The data name of the registration
    pub name: DataName,
    /// Its new name
    #[arg(value_name = "NEW")]
    pub to: DataName,
    /// Rename it also if others read it or bindings serve it
    #[arg(long)]
    pub force: bool,
}

#[derive(Debug, Args)]
pub struct UnregisterArgs {
    /// The data names
    #[arg(required = true, value_name = "NAME")]
    pub names: Vec<DataName>,
    /// Also if others read them or bindings serve them
    #[arg(long)]
    pub force: bool,
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
