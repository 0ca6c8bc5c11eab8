//! The image has one program and the libraries that it needs, and both parts of a cluster run in it.

use std::process::{Command, Output};

use estimand_testkit::docker::{self, Docker};
use estimand_testkit::process::binary;
use estimand_testkit::wait::{self, PATIENCE};
use serde_json::{Value, json};

use crate::build;

const IMAGE: &str = "estimand/packaged:1";

fn docker(engine: &Docker, arguments: &[&str]) -> Output {
    let socket = format!("unix://{}", engine.socket().display());
    Command::new("docker").args(["--host", &socket]).args(arguments).output().expect("docker runs")
}

#[track_caller]
fn well(output: &Output) -> String {
    let [said, complained] = [&output.stdout, &output.stderr].map(|said| String::from_utf8_lossy(said));
    assert!(output.status.success(), "{}: {said}{complained}", output.status);
    said.into_owned()
}

#[test]
fn services_and_an_agent_run_in_an_image_without_a_shell() {
    let engine = docker::shared();
    let context = tempfile::tempdir().unwrap();
    build("image/build", None, &["--context".as_ref(), &binary(), context.path()]);
    engine.build(context.path(), IMAGE);

    let version = well(&docker(engine, &["run", "--rm", IMAGE, "--version"]));
    assert!(version.starts_with("estimand "), "{version}");
    let shell = docker(engine, &["run", "--rm", "--entrypoint", "/bin/sh", IMAGE]);
    assert!(!shell.status.success(), "it has a shell");

    // As an orchestrator that trusts nobody runs it: not root, no capability, and no file that can be written but its data.
    let closed =
        ["--cap-drop", "ALL", "--read-only", "--tmpfs", "/tmp", "--security-opt", "no-new-privileges"];
    let up =
        [&["run", "--detach", "--name", "packaged"], &closed[..], &[IMAGE, "up", "--node", "n1"]].concat();
    well(&docker(engine, &up));
    let inside =
        |arguments: &[&str]| docker(engine, &[&["exec", "packaged", "/bin/estimand"], arguments].concat());
    wait::until_ok(PATIENCE, "a value in the container", || {
        let output = inside(&["get", "memory", "--json"]);
        let values: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let fresh = values.to_string().contains("\"n1\"") && values.to_string().contains("fresh");
        fresh.then_some(()).ok_or_else(|| {
            let log = docker(engine, &["logs", "packaged"]);
            format!("{output:?} {}", String::from_utf8_lossy(&log.stderr))
        })
    });
    // What is stored is in the volume, where the next container finds it.
    well(&inside(&["put", "kept", "here", "7"]));
    well(&docker(engine, &["restart", "--time", "10", "packaged"]));
    wait::until_ok(PATIENCE, "the value after a restart", || {
        let output = inside(&["get", "kept", "--json"]);
        let there = String::from_utf8_lossy(&output.stdout).contains("7");
        there.then_some(()).ok_or_else(|| format!("{output:?}"))
    });
    let state = engine.inspect("packaged");
    assert_eq!(state["Config"]["User"], json!("65532:65532"));
    well(&docker(engine, &["rm", "--force", "--volumes", "packaged"]));
    engine.remove_image(IMAGE);
}
