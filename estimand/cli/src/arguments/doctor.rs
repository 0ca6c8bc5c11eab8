//! The command that finds out what is wrong.

use clap::Args;

const EXAMPLES: &str = "\
Looks at the services (address, TLS, clock, readiness, token, open files, store), at the nodes
(lost, cordoned, versions, deliveries, cgroups), at registrations that fail, at names that are read
and that nothing produces, and at tasks that fit on no node. Where no service answers, it says why
as far as this machine shows it. It changes nothing.

The exit code is 1 if something fails, 6 if no service answers, else 0; with --strict it is 1 for
warnings, too.

Examples:
  estimand doctor
  estimand doctor --server https://10.0.0.1:7070 --strict --json";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct DoctorArgs {
    /// Warnings are failures
    #[arg(long)]
    pub strict: bool,
}
