//! The script that completes commands in a shell: it asks this program, which knows its own options and asks the services
//! for names.

use clap_complete::env::Shells;

use crate::candidates::VARIABLE;
use crate::cli::CompletionsArgs;
use estimand_cli::Failure;
use estimand_cli::output::Output;

pub fn print(args: &CompletionsArgs) -> Result<(), Failure> {
    let shell = args.shell.to_string();
    let shells = Shells::builtins();
    let Some(completer) = shells.completer(&shell) else {
        return Err(Failure::Usage(format!("`{shell}` cannot be completed for")));
    };
    let mut script = Vec::new();
    completer.write_registration(VARIABLE, "estimand", "estimand", "estimand", &mut script)?;
    let mut out = Output::new(false);
    out.verbatim(String::from_utf8_lossy(&script).trim_end())?;
    Ok(out.flush()?)
}
