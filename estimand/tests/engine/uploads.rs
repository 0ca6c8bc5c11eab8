//! Scripts that come along with their registration: fetched by digest, verified, run from a sealed copy, and gone when
//! nothing needs them.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use estimand_testkit::process;
use estimand_testkit::wait::{self, PATIENCE};
use estimand_testkit::{TOKEN, TOKEN_VARIABLE};

use crate::plane::{Agent, Plane};

const PYTHON: &str = "#!/usr/bin/env python3\nimport sys\nprint('{\"words\": %d}' % len(sys.argv[1:]))\n";

fn estimand(plane: &Plane, args: &[&str]) -> Output {
    let mut command = Command::new(process::binary());
    command.env(TOKEN_VARIABLE, TOKEN).env("ESTIMAND_SERVER", plane.services.base_url());
    command.args(args).output().unwrap()
}

/// Registers a file that goes along; `args` are further options and, behind `--`, its arguments.
#[track_caller]
fn upload(plane: &Plane, name: &str, text: &str, args: &[&str]) {
    let file = plane.file(&format!("{name}.script"));
    fs::write(&file, text).unwrap();
    let done = estimand(
        plane,
        &[&["register", name, "--every", "500ms", "--timeout", "10s", "--upload", &file], args].concat(),
    );
    fs::remove_file(&file).unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

fn kept(plane: &Plane) -> Vec<PathBuf> {
    let home = match &plane.beside {
        Some(agent) => agent.data_dir().to_owned(),
        None => plane.services.data_dir().join("agent"),
    };
    let files =
        fs::read_dir(home.join("uploads")).map(|all| all.flatten().map(|entry| entry.path()).collect());
    files.unwrap_or_default()
}

fn is_root() -> bool {
    fs::metadata("/proc/self").unwrap().uid() == 0
}

#[test]
fn an_uploaded_script_runs_through_outages_and_goes_when_nothing_needs_it() {
    let as_another: &[&str] = if is_root() { &["--run-as", "nobody"] } else { &[] };
    let mut plane =
        Plane::with_agent("uploaded", Agent::Beside, &[&["--allow-uploads"], as_another].concat());
    upload(&plane, "shell", "#!/bin/sh\nn=$(cat n 2>/dev/null || echo 0)\necho $((n + 1)) | tee n\n", &[]);
    upload(&plane, "python", PYTHON, &["--", "--fast", "a b"]);
    plane.until_value("python", "what it says", |value| value["dataValue"]["words"] == 2);
    plane.until_value("shell", "counted", |value| value["dataValue"].as_u64() >= Some(2));
    assert_eq!(kept(&plane).len(), 2);
    let shown = plane.http.get("/api/registry/python").json();
    assert_eq!(shown["cmd"], serde_json::json!(["python.script", "--fast", "a b"]), "{shown}");

    // The disk is not believed: another content is not run, and the right one is fetched again.
    let before = count(&plane);
    for file in kept(&plane) {
        fs::write(file, "#!/bin/sh\necho 999999\n").unwrap();
    }
    plane.until_value("shell", "counted further", |value| {
        assert_ne!(value["dataValue"], 999_999);
        value["dataValue"].as_u64() > Some(before + 1)
    });

    // Neither the services nor the machine where it was registered are needed from now on.
    plane.services.kill9();
    let agent = plane.beside.as_mut().unwrap();
    agent.kill9();
    agent.restart_on_same_port();
    let before = count(&plane);
    wait::until(PATIENCE, "it to run without any service", || (count(&plane) > before + 1).then_some(()));
    plane.services.restart_on_same_port();

    // Another version is another file; the former one goes.
    let file = plane.file("other");
    fs::write(&file, "#!/bin/sh\necho 5\n").unwrap();
    let replaced = estimand(&plane, &["register", "shell", "--replace", "--every", "1s", "--upload", &file]);
    assert!(replaced.status.success(), "{}", String::from_utf8_lossy(&replaced.stderr));
    plane.until_is("shell", 5);
    wait::until(PATIENCE, "the former file to go", || (kept(&plane).len() == 2).then_some(()));
    plane.unregister("shell");
    plane.unregister("python");
    wait::until(PATIENCE, "all files to go", || kept(&plane).is_empty().then_some(()));
    plane.end();
}

/// How often the script has run, as it counts itself.
fn count(plane: &Plane) -> u64 {
    let file = plane.agent().data_dir().join("slots/shell/n");
    fs::read_to_string(file).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}

#[test]
fn an_agent_takes_no_uploads_unless_it_was_told_to_and_names_the_flag() {
    let plane = Plane::up("no-uploads");
    upload(&plane, "probe", PYTHON, &[]);
    let slot = plane.until_instance("probe", "to be refused", |slot| slot["doing"] == "refused");
    assert!(slot["lastError"].as_str().unwrap().contains("--allow-uploads"), "{slot}");
    assert_eq!(kept(&plane), [] as [PathBuf; 0], "nothing is fetched either");
    plane.end();
}

#[test]
fn with_a_key_only_what_it_signed_runs() {
    let keys = tempfile::tempdir().unwrap();
    let made = |name: &str| {
        let folder = keys.path().join(name);
        let out = folder.to_str().unwrap();
        let done =
            Command::new(process::binary()).args(["pki", "upload-key", "--out", out]).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        folder
    };
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let (ours, theirs) = (made("ours"), made("theirs"));
    let public = text(&ours.join("upload.pub"));
    let plane = Plane::with_agent("signed", Agent::Beside, &["--allow-uploads", "--upload-key", &public]);
    let (right, wrong) = (text(&ours.join("upload.key")), text(&theirs.join("upload.key")));
    upload(&plane, "signed", PYTHON, &["--sign-with", &right]);
    upload(&plane, "unsigned", "#!/bin/sh\necho 1\n", &[]);
    upload(&plane, "forged", "#!/bin/sh\necho 2\n", &["--sign-with", &wrong]);
    plane.until_value("signed", "what it says", |value| value["dataValue"]["words"] == 0);
    for name in ["unsigned", "forged"] {
        let slot = plane.until_instance(name, "to be refused", |slot| slot["doing"] == "refused");
        assert!(slot["lastError"].as_str().unwrap().contains("--upload-key"), "{slot}");
        assert_eq!(plane.read(name), None);
    }
    // A signature is of one content: the right one beside another file is worth nothing.
    let signature = plane.http.get("/api/registry/signed").json()["upload"]["signature"].clone();
    let mut stolen = plane.http.get("/api/registry/forged").json();
    stolen["upload"]["signature"] = signature;
    plane.http.send_json("PUT", "/api/registry", &stolen).expect_status(200);
    let again = plane
        .until_instance("forged", "to be refused", |slot| slot["doing"] == "refused" && slot["version"] == 2);
    assert!(again["lastError"].as_str().unwrap().contains("not signed by that key"), "{again}");
    plane.end();
}

/// The agent believes neither the manager nor the database.
#[test]
fn another_content_than_the_digest_says_does_not_run() {
    let plane = Plane::with_agent("mismatch", Agent::Beside, &["--allow-uploads"]);
    let file = b"#!/bin/sh\necho right\n";
    let stored = plane.http.request("POST", "/api/uploads", &[], file).expect_status(201).json();
    let store = plane.services.data_dir().join("estimand.db");
    let other = "UPDATE t_upload SET content = CAST('#!/bin/sh' || char(10) || 'echo wrong' AS BLOB)";
    let done = Command::new("sqlite3").arg(store).args(["-cmd", ".timeout 5000", other]).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let registration = serde_json::json!({
        "dataName": "swapped", "cmd": ["swapped"], "max-Time": 0.5, "upload": { "sha256": stored["sha256"] },
    });
    plane.http.send_json("POST", "/api/registry", &registration).expect_status(201);
    plane.until_error("swapped", "is an uploaded file that is not here");
    assert_eq!((plane.read("swapped"), kept(&plane)), (None, Vec::new()));
    plane.end();
}
