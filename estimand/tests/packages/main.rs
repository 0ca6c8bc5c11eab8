//! The packages that operators install: the Debian package on a machine that systemd has booted, the container image in a real engine,
//! the cluster of Compose, and the manifests of Kubernetes.

#![allow(clippy::unwrap_used)]

mod compose;
mod debian;
mod engine;
mod image;
mod kubernetes;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use estimand_testkit::process::binary;

/// The folder `packages`.
fn packages() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../packages")
}

/// The binary without what debuggers read, which is two thirds of it: it is packed and copied again and again.
fn stripped() -> &'static Path {
    static STRIPPED: OnceLock<PathBuf> = OnceLock::new();
    STRIPPED.get_or_init(|| {
        let stripped = Path::new(env!("CARGO_TARGET_TMPDIR")).join("estimand-stripped");
        well(&Command::new("strip").arg("-o").arg(&stripped).arg(binary()).output().expect("strip runs"));
        stripped
    })
}

/// The output of a program of the folder `packages`; it must end well.
#[track_caller]
fn build(program: &str, variables: &[(&str, &str)], arguments: &[&Path]) -> String {
    let mut command = Command::new(packages().join(program));
    command.args(arguments).envs(variables.iter().copied());
    let output = command.output().unwrap_or_else(|error| panic!("{program}: {error}"));
    well(&output).trim().to_owned()
}

/// The output of a program, which must have ended well.
#[track_caller]
fn well(output: &Output) -> String {
    let [said, complained] = [&output.stdout, &output.stderr].map(|said| String::from_utf8_lossy(said));
    assert!(output.status.success(), "{}: {said}{complained}", output.status);
    said.into_owned()
}
