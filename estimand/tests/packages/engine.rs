//! The Docker engine of these tests, with networks, and the image in it.

use std::process::{Command, Output};
use std::sync::OnceLock;

use estimand_testkit::docker::Docker;

use crate::{build, stripped, well};

pub const IMAGE: &str = "estimand/packaged:1";
/// All that an orchestrator that trusts nobody takes away: root, every capability, and every file that can be written but the
/// data.
pub const CLOSED: [&str; 7] =
    ["--cap-drop", "ALL", "--read-only", "--tmpfs", "/tmp", "--security-opt", "no-new-privileges"];

/// The engine that the tests share. The image is in it.
pub fn engine() -> &'static Docker {
    static ENGINE: OnceLock<Docker> = OnceLock::new();
    ENGINE.get_or_init(|| {
        let engine = Docker::with_networks();
        let context = tempfile::tempdir().unwrap();
        build("image/build", &[], &["--context".as_ref(), stripped(), context.path()]);
        engine.build(context.path(), IMAGE);
        engine
    })
}

pub fn address() -> String {
    format!("unix://{}", engine().socket().display())
}

/// How a command of Docker's ends.
pub fn docker(arguments: &[&str]) -> Output {
    Command::new("docker").args(["--host", &address()]).args(arguments).output().expect("docker runs")
}

/// The output of a command of Docker's, which must end well.
#[track_caller]
pub fn docker_well(arguments: &[&str]) -> String {
    well(&docker(arguments))
}

/// A command of estimand's in a container.
pub fn inside(container: &str, arguments: &[&str]) -> Output {
    docker(&[&["exec", container, "/bin/estimand"], arguments].concat())
}

/// The end of what a container has logged.
pub fn log(container: &str) -> String {
    let output = docker(&["logs", "--tail", "15", container]);
    String::from_utf8_lossy(&output.stderr).into_owned()
}
