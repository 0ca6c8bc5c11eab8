//! The script that completes commands in a shell: it asks this program, which knows its own options and asks the services
//! for names.

use clap_complete::Shell;

use crate::candidates::{SHELLS, VARIABLE};
use crate::cli::CompletionsArgs;
use estimand_cli::Failure;
use estimand_cli::output::Output;

/// In a folder of completions zsh runs the script as the function that completes: when it is asked for the first time.
const ZSH_FIRST_TIME: &str = r#"
if [[ ${funcstack[1]} == _estimand ]]; then
    _clap_dynamic_completer_estimand "$@"
fi
"#;

pub fn print(args: &CompletionsArgs) -> Result<(), Failure> {
    let shell = args.shell.to_string();
    let Some(completer) = SHELLS.completer(&shell) else {
        return Err(Failure::Usage(format!("`{shell}` cannot be completed for")));
    };
    let mut script = Vec::new();
    completer.write_registration(VARIABLE, "estimand", "estimand", "estimand", &mut script)?;
    if args.shell == Shell::Zsh {
        script.extend_from_slice(ZSH_FIRST_TIME.as_bytes());
    }
    let mut out = Output::new(false);
    out.verbatim(String::from_utf8_lossy(&script).trim_end())?;
    Ok(out.flush()?)
}
