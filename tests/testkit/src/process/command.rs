//! The binary under test, and programs that use a client: its commands above all.

use std::env;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::{Builder, Estimand};

/// The binary under test. Cargo builds it beside the tests of its own package.
#[track_caller]
pub fn binary() -> PathBuf {
    let own = env::current_exe().expect("this program has a path");
    // Tests are in `target/PROFILE/deps`, programs in `target/PROFILE`.
    let found =
        own.ancestors().skip(1).take(2).map(|folder| folder.join("estimand")).find(|path| path.is_file());
    found.unwrap_or_else(|| {
        panic!("no `estimand` beside {}: `cargo build -p estimand` makes it", own.display())
    })
}

/// How to start the binary under test.
#[track_caller]
pub fn estimand() -> Builder {
    Estimand::builder(binary())
}

/// A program that shows the token of all tests, and gets neither input nor the settings of the test's own environment.
pub fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command
        .env(crate::TOKEN_VARIABLE, crate::TOKEN)
        .env_remove("ESTIMAND_SERVER")
        .env_remove("ESTIMAND_NODE");
    command.stdin(Stdio::null());
    command
}
