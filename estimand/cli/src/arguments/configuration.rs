//! The commands that take registrations and bindings out of files, and write them.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use estimand_api::names::DataName;

const APPLY_NOTES: &str = "\
A document is a registration (as `estimand export` writes it), a binding (`dataName`, `to` and maybe
`field`), or an array of these; a file may have several, in any order. What becomes different is
printed, and then done: all registrations in one transaction, then the bindings. What is in no file
stays, unless --prune is given: that removes registrations that an earlier `apply` of the same --set
has made or changed, and nothing else.

The value of a secret stands in no export: `null` keeps the value that is registered, and
`TOKEN: {fromFile: PATH}` or `TOKEN: {fromEnv: NAME}` in `env` takes it from this machine.

Examples:
  estimand export > site.yaml
  estimand apply -f site.yaml --dry-run
  estimand apply -f conf.d --prune --set site";

#[derive(Debug, Args)]
#[command(after_help = APPLY_NOTES)]
pub struct ApplyArgs {
    /// A file, a folder with *.yaml, *.yml and *.json, or `-` for standard input; may be repeated
    #[arg(short = 'f', long = "file", id = "files", value_name = "PATH", required = true, value_hint = ValueHint::AnyPath)]
    pub files: Vec<PathBuf>,
    /// Read the folders in folders, too
    #[arg(short = 'R', long)]
    pub recursive: bool,
    /// Check everything, print what would become different, and do nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Remove registrations of the set that the files have no more; none that others read or bindings serve
    #[arg(long)]
    pub prune: bool,
    /// The set to which belongs what is registered or changed
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub set: DataName,
    /// Also prune what others need, and bind to names that nothing produces or that have no values yet
    #[arg(long)]
    pub force: bool,
}

#[derive(Debug, Args)]
pub struct ExportArgs {
    /// Only these data names
    #[arg(value_name = "NAME")]
    pub names: Vec<DataName>,
}
