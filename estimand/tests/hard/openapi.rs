//! Requests made from the description of the interface are answered as it says.
//!
//! Requests are made by `schemathesis`, which comes from PyPI: only with `ESTIMAND_LONG`.

use std::process::Command;

use estimand_testkit::TOKEN;
use estimand_testkit::process::{estimand, free_port};

use crate::is_long;

const VERSION: &str = "schemathesis==4.32.5";
/// The checks that differ, and the reasons: `schemathesis.toml` and `unsayable.py`.
const SETTINGS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/hard/openapi");
/// For how long requests are made, and after how long something hangs.
const SECONDS: &str = "240";
const AT_MOST_SECONDS: &str = "900";

#[test]
fn every_answer_is_as_described() {
    if !is_long() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("venv");
    run(Command::new("python3").args(["-m", "venv"]).arg(&home));
    run(Command::new(home.join("bin/pip")).args(["install", "--quiet", VERSION]));
    let mut up = estimand().args(["up", "--no-agent"]).port(free_port()).start();
    run(Command::new("timeout")
        .arg(AT_MOST_SECONDS)
        .arg(home.join("bin/schemathesis"))
        .args(["--config-file", &format!("{SETTINGS}/schemathesis.toml")])
        .args(["run", &format!("{}/openapi.json", up.base_url())])
        .args(["--header", &format!("Authorization: Bearer {TOKEN}")])
        .args(["--max-time", SECONDS])
        // These have no end.
        .args(["--exclude-path-regex", "watch$", "--continue-on-failure", "--request-timeout", "30"])
        .env("PYTHONPATH", SETTINGS)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .current_dir(folder.path()));
    assert!(up.exited().is_none(), "{}", up.stderr_tail());
}

#[track_caller]
fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stdout);
    let failed = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{said}\n{failed}", output.status);
}
