//! The script that completes commands in a shell; made from the command line's own definition.

use crate::cli::{CompletionsArgs, groups};
use estimand_cli::Failure;
use estimand_cli::output::Output;

pub fn print(args: &CompletionsArgs) -> Result<(), Failure> {
    // The generator panics when it cannot write, hence into memory first.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut groups::command(), "estimand", &mut script);
    let mut out = Output::new(false);
    out.verbatim(String::from_utf8_lossy(&script).trim_end())?;
    Ok(out.flush()?)
}
