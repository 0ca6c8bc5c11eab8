//! Containers end to end: placed only where they run, read while they run, ended with their own exit code.

use estimand_testkit::docker::{self, IMAGE};
use estimand_testkit::wait::{self, PATIENCE};
use serde_json::json;

use crate::plane::Plane;

#[test]
fn a_command_in_a_container_behaves_as_if_it_ran_here() {
    let plane = Plane::with(&["n1"], &["--docker", docker::shared().socket().to_str().unwrap()]);
    let volume = format!("{}:/data:ro", plane.folder.path().display());
    std::fs::write(plane.folder.path().join("in"), "from a volume\n").unwrap();
    let script = "echo hi; cat /data/in; echo oops >&2; exit 3";
    let args = ["run-task", "--image", IMAGE, "--volume", &volume, "--", "sh", "-c", script];
    let ran = plane.cli(&args).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&ran.stdout), "hi\nfrom a volume\n", "{ran:?}");
    assert!(String::from_utf8_lossy(&ran.stderr).contains("oops\n"), "{ran:?}");
    assert_eq!(ran.status.code(), Some(3));
}

#[test]
fn a_container_waits_for_a_node_that_runs_containers() {
    let plane = Plane::start(&["n1"]);
    let id = plane.submit(&json!({ "image": IMAGE, "command": ["true"] }));
    wait::until_ok(PATIENCE, "it to say why it waits", || {
        let task = plane.task(&id);
        match task["waits"].as_str() {
            Some(why) if why.contains("`--docker`") => Ok(()),
            _ => Err(task),
        }
    });
    assert_eq!(plane.task(&id)["state"], "QUEUED");
}
