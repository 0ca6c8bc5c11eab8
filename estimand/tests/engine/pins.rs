//! An executable whose content its registration names: that content runs, and nothing else, whoever changes what when.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::Path;

use estimand_testkit::wait::PATIENCE;
use serde_json::{Value, json};

use crate::plane::{Plane, mock};

/// As another program computes it.
fn sha256(path: &Path) -> String {
    let bytes = fs::read(path).unwrap();
    let digest = ring::digest::digest(&ring::digest::SHA256, &bytes);
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Puts a program at a place, as an installation does: a new file takes the place of the old one.
fn install(plane: &Plane, name: &str, more: &[u8]) -> String {
    let (beside, path) = (plane.file("beside"), plane.file(name));
    fs::copy(mock(), &beside).unwrap();
    // Bytes behind a program in its file do not concern it.
    fs::OpenOptions::new().append(true).open(&beside).unwrap().write_all(more).unwrap();
    fs::rename(beside, &path).unwrap();
    sha256(Path::new(&path))
}

#[track_caller]
fn until_refused(plane: &Plane, name: &str, found: &str, wanted: &str) {
    let slot = plane.until_instance(name, "to be refused", |slot| slot["doing"] == "refused");
    let error = slot["lastError"].as_str().unwrap();
    assert!(error.contains(&format!("has the SHA-256 {found}")) && error.contains(wanted), "{error}");
    plane.nothing_runs_of(name);
}

fn words(plane: &Plane, program: &str, name: &str, words: &[&str]) -> Value {
    let Value::Array(mut argv) = plane.mock(name, words) else { unreachable!() };
    argv[0] = json!(plane.file(program));
    Value::Array(argv)
}

#[test]
fn a_program_that_is_replaced_is_not_run_until_it_is_back() {
    let plane = Plane::up("pinned");
    let right = install(&plane, "program", b"");
    let cmd = words(&plane, "program", "pinned", &["print:1"]);
    plane.register_cmd("pinned", cmd, json!({ "sha256": right.to_uppercase(), "max-Time": 0.2 }));
    plane.until_is("pinned", 1);
    let shown = plane.http.get("/api/registry/pinned").json();
    assert_eq!(shown["sha256"], right, "{shown}");

    let wrong = install(&plane, "program", b"another");
    until_refused(&plane, "pinned", &wrong, &right);
    plane.until_value("pinned", "failed", |value| value["state"] == "failed");
    let report = plane.run_by_hand("pinned").expect_status(200).json();
    assert!(report["error"].as_str().unwrap().contains(&wrong), "{report}");
    install(&plane, "program", b"");
    plane.until_value("pinned", "fresh again", |value| value["state"] == "fresh");

    // The same file with another content, of the same length.
    let long_ago = fs::metadata(plane.file("program")).unwrap().modified().unwrap();
    let mut bytes = fs::read(mock()).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    let changed = || {
        let mut file = fs::OpenOptions::new().write(true).open(plane.file("program"))?;
        file.write_all(&bytes)?;
        // An attacker who changes a file may set this time back, but not the one of the change itself.
        file.set_modified(long_ago)
    };
    // While it runs it cannot be written to.
    estimand_testkit::wait::until_ok(PATIENCE, "the program to be written to", changed);
    until_refused(&plane, "pinned", &sha256(Path::new(&plane.file("program"))), &right);
    plane.end();
}

#[test]
fn a_link_that_is_changed_leads_nowhere_else() {
    let plane = Plane::up("relinked");
    let (inside, outside) = (plane.file("program"), tempfile::tempdir().unwrap());
    let right = install(&plane, "program", b"");
    let elsewhere = outside.path().join("program");
    fs::copy(&inside, &elsewhere).unwrap();
    let link = |target: &Path| {
        let new = plane.file("link.new");
        symlink(target, &new).unwrap();
        fs::rename(new, plane.file("link")).unwrap();
    };
    link(Path::new(&inside));
    for (name, more) in [("pinned", json!({ "sha256": right })), ("plain", json!({}))] {
        let cmd = words(&plane, "link", name, &["print:1"]);
        plane.register_cmd(name, cmd, more);
        plane.until_is(name, 1);
    }
    link(&elsewhere);
    for name in ["pinned", "plain"] {
        plane.until_error(name, "allows only");
        plane.until_instance(name, "to be refused", |slot| slot["doing"] == "refused");
    }
    plane.end();
}

#[test]
fn a_script_runs_as_it_was_when_it_was_looked_at() {
    let plane = Plane::up("pinned-script");
    let text = |number: u8| format!("echo $0 {number} \"$1\"");
    let path = plane.script("script", &text(1));
    let right = sha256(Path::new(&path));
    let more = json!({ "sha256": right, "format": "text", "max-Time": 0.2 });
    plane.register_cmd("script", json!([path, "a b"]), more);
    plane.until_value("script", "what it says", |value| {
        let said = value["dataValue"].as_str().unwrap_or_default();
        said.starts_with("/dev/fd/") && said.ends_with(" 1 a b")
    });
    plane.script("script", &text(2));
    until_refused(&plane, "script", &sha256(Path::new(&path)), &right);
    plane.end();
}

#[test]
fn a_stream_is_pinned_as_well() {
    let plane = Plane::up("pinned-stream");
    let right = install(&plane, "program", b"");
    let wrong = "0".repeat(64);
    let cmd = |name: &str| words(&plane, "program", name, &["stream:100ms"]);
    plane.register_cmd("good", cmd("good"), json!({ "mode": "stream", "sha256": right }));
    plane.register_cmd("bad", cmd("bad"), json!({ "mode": "stream", "sha256": wrong }));
    plane.until_value("good", "there", |_| true);
    until_refused(&plane, "bad", &right, &wrong);
    assert_eq!(plane.read("bad"), None);
    plane.unregister("good");
    plane.end();
}
