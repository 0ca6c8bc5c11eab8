//! The image has one program and the libraries that it needs, and both parts of a cluster run in it.

use estimand_testkit::wait::{self, PATIENCE};
use serde_json::{Value, json};

use crate::engine::{CLOSED, IMAGE, docker, docker_well, engine, inside, log};
use crate::well;

#[test]
fn services_and_an_agent_run_in_an_image_without_a_shell() {
    let engine = engine();
    let version = docker_well(&["run", "--rm", IMAGE, "--version"]);
    assert!(version.starts_with("estimand "), "{version}");
    let shell = docker(&["run", "--rm", "--entrypoint", "/bin/sh", IMAGE]);
    assert!(!shell.status.success(), "it has a shell");

    let up =
        [&["run", "--detach", "--name", "packaged"], &CLOSED[..], &[IMAGE, "up", "--node", "n1"]].concat();
    docker_well(&up);
    let inside = |arguments: &[&str]| inside("packaged", arguments);
    wait::until_ok(PATIENCE, "a value in the container", || {
        let output = inside(&["get", "memory", "--json"]);
        let values: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let fresh = values.to_string().contains("\"n1\"") && values.to_string().contains("fresh");
        fresh.then_some(()).ok_or_else(|| format!("{output:?} {}", log("packaged")))
    });
    // All that is stored is in the volume, where the next container finds it.
    well(&inside(&["put", "kept", "here", "7"]));
    docker_well(&["restart", "--time", "10", "packaged"]);
    wait::until_ok(PATIENCE, "the value after a restart", || {
        let output = inside(&["get", "kept", "--json"]);
        let there = String::from_utf8_lossy(&output.stdout).contains("7");
        there.then_some(()).ok_or_else(|| format!("{output:?}"))
    });
    let state = engine.inspect("packaged");
    assert_eq!(state["Config"]["User"], json!("65532:65532"));
    docker_well(&["rm", "--force", "--volumes", "packaged"]);
}
