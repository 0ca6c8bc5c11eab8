//! What operators install: the Debian package on a machine that systemd has booted, and the container image in a real engine.

#![allow(clippy::unwrap_used)]

mod debian;
mod image;

use std::path::Path;
use std::process::Command;

/// What a program of the folder `packages` prints; it must end well.
#[track_caller]
fn build(program: &str, version: Option<&str>, arguments: &[&Path]) -> String {
    let packages = Path::new(env!("CARGO_MANIFEST_DIR")).join("../packages");
    let mut command = Command::new(packages.join(program));
    command.args(arguments);
    if let Some(version) = version {
        command.env("VERSION", version);
    }
    let output = command.output().unwrap_or_else(|error| panic!("{program}: {error}"));
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}
