//! Programs that use a client, the commands of the binary under test above all.

use std::ffi::OsStr;
use std::process::{Command, Stdio};

/// It shows the token of all tests, hears nothing of the test's own environment that it would listen to, and is told nothing.
pub fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command
        .env(crate::TOKEN_VARIABLE, crate::TOKEN)
        .env_remove("ESTIMAND_SERVER")
        .env_remove("ESTIMAND_NODE");
    command.stdin(Stdio::null());
    command
}
