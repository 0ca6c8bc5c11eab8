//! Variables with which a registration would make an allowed program run something else.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::plane::{Agent, Plane};

/// A script of bash's, and a file that bash would run before it.
fn prepare(plane: &Plane) -> (String, String, String) {
    let script = plane.file("script");
    fs::write(&script, "#!/bin/bash\necho \"\\\"$SLOT_WORD\\\"\"\n").unwrap();
    let allowed = <fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o755);
    fs::set_permissions(&script, allowed).unwrap();
    let (before, mark) = (plane.file("before.not-executable"), plane.file("it-ran"));
    fs::write(&before, format!("touch '{mark}'\n")).unwrap();
    (script, before, mark)
}

fn sha256(path: &str) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, &fs::read(path).unwrap());
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn a_variable_cannot_make_an_allowed_program_run_something_else() {
    let plane = Plane::up("variables");
    let (script, before, mark) = prepare(&plane);
    let register = |name: &str, env: Value, more: Value| {
        let mut all = json!({ "env": env, "format": "json" });
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        plane.register_cmd(name, json!([script]), all);
    };
    register("plain", json!({ "BASH_ENV": before }), json!({}));
    register("pinned", json!({ "BASH_ENV": before }), json!({ "sha256": sha256(&script) }));
    register("loader", json!({ "LD_PRELOAD": before }), json!({}));
    register("path", json!({ "PATH": plane.file("") }), json!({}));
    register("python", json!({ "PYTHONWARNINGS": "all:0:antigravity.x:0:0", "BROWSER": before }), json!({}));
    register("secret", json!({ "PERL5OPT": "-Mx" }), json!({ "secrets": ["PERL5OPT"] }));
    for name in ["plain", "pinned", "loader", "path", "python", "secret"] {
        let slot = plane.until_instance(name, "to be refused", |slot| slot["doing"] == "refused");
        assert!(slot["lastError"].as_str().unwrap().contains("--allow-env "), "{slot}");
    }
    assert!(!Path::new(&mark).exists());
    // Names of its own are free, and so is the language.
    register("free", json!({ "SLOT_WORD": "own", "LC_ALL": "C" }), json!({}));
    plane.until_is("free", "own");
    plane.end();
}

#[test]
fn the_operator_of_a_node_may_allow_a_variable() {
    let plane = Plane::with_agent("variables-allowed", Agent::Within, &["--allow-env", "BASH_*"]);
    let (script, before, mark) = prepare(&plane);
    plane.register_cmd("plain", json!([script]), json!({ "env": { "BASH_ENV": before }, "format": "json" }));
    plane.until_is("plain", "");
    assert!(Path::new(&mark).exists());
    plane.end();
}
