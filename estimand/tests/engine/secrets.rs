//! A secret reaches the executable that needs it, and nobody else: looked for in everything that can be read.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use estimand_testkit::process::{self, Estimand};
use estimand_testkit::processes;
use estimand_testkit::wait::{self, PATIENCE};
use serde_json::{Value, json};

use crate::plane::NODE;

const SCRIPT: &str = "uses-it";
/// It occurs nowhere else.
const SECRET: &str = "hush-4711-only-for-the-collector";

struct World {
    services: Estimand,
    agent: Estimand,
    folder: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        // Before anything runs it: a file that runs cannot be written.
        let path = folder.path().join(SCRIPT);
        let script = "#!/bin/sh\nsleep 0.05\nprintf %s \"$KEY\" | cksum | tr ' ' -\n";
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        let builder = |args: &[&str]| {
            let args: Vec<String> = args.iter().map(|&arg| arg.to_owned()).collect();
            process::estimand().args(args).env("ESTIMAND_LOG", "debug")
        };
        let services = builder(&["up", "--no-agent", "--defaults", "none"]).start();
        let allowed = folder.path().display().to_string();
        let server = services.base_url();
        let agent = ["agent", "--server", server, "--node", NODE, "--allow", &allowed, "--allow-env", "*"];
        let agent = builder(&agent).without_http().start();
        World { services, agent, folder }
    }

    /// A script that says whether the secret is what it should be, and holds still for a moment.
    fn script(&self) -> String {
        self.folder.path().join(SCRIPT).display().to_string()
    }

    fn put(&self, method: &str, body: &Value) -> Value {
        let answer = self.services.http().send_json(method, "/api/registry", body);
        assert!(!answer.text().contains(SECRET), "{answer}");
        answer.json()
    }

    #[track_caller]
    fn until_is(&self, expected: &str, version: u64) {
        wait::until_ok(PATIENCE, "the value", || {
            let instances = self.services.http().get("/api/mng/instances").text().to_owned();
            let value = self.services.http().get(&format!("/api/data/uses/{NODE}?explain=1"));
            let value = if value.status == 200 { value.json() } else { Value::Null };
            let right = value["dataValue"] == expected && value["provenance"]["version"] == version;
            if right { Ok(()) } else { Err(format!("{value} {instances}")) }
        });
    }

    /// Everything that somebody can read who is not the operator.
    #[track_caller]
    fn is_told_nobody(&self) {
        let http = self.services.http();
        let paths = [
            "/api/registry",
            "/api/registry/uses",
            "/api/registry/uses/history",
            "/api/mng/instances",
            "/api/nodes",
            "/api/data?dataName=*",
            "/api/data/uses/node-1?explain=1",
            "/metrics",
            "/openapi.json",
        ];
        for path in paths {
            let answer = http.get(path).expect_status(200);
            assert!(!answer.text().contains(SECRET), "{path}: {answer}");
        }
        for process in [&self.services, &self.agent] {
            for text in [process.stderr_tail(), process.stdout_tail()] {
                assert!(!text.contains(SECRET), "{text}");
            }
        }
        assert!(processes::with_argument(SECRET).is_empty());
        for command in
            [&["list"][..], &["show", "uses"], &["changes", "uses"], &["instances"], &["list", "--json"]]
        {
            let output = self.command(command);
            assert!(output.contains("uses") && !output.contains(SECRET), "{command:?}: {output}");
        }
    }

    /// The output of a client command.
    fn command(&self, args: &[&str]) -> String {
        let mut command = process::command(process::binary());
        let output = command.args(["--server", self.services.base_url()]).args(args).output().unwrap();
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
    }
}

fn cksum(text: &str) -> String {
    let output =
        std::process::Command::new("sh").args(["-c", "printf %s \"$0\" | cksum | tr ' ' -", text]).output();
    String::from_utf8(output.unwrap().stdout).unwrap().trim().to_owned()
}

#[test]
fn a_secret_reaches_its_executable_and_nobody_else() {
    let world = World::new();
    let key = world.folder.path().join("key");
    fs::write(&key, format!("{SECRET}\n")).unwrap();
    let (script, from_file) = (world.script(), format!("KEY={}", key.display()));
    let said = world.command(&[
        "register",
        "uses",
        "--every",
        "100ms",
        "--format",
        "text",
        "--secret-file",
        &from_file,
        "--env",
        "PLAIN=seen",
        "--json",
        "--",
        &script,
    ]);
    assert!(said.contains("seen") && !said.contains(SECRET), "{said}");
    let right = cksum(SECRET);
    world.until_is(&right, 1);
    world.is_told_nobody();

    // A registration as read can be written again, with a change.
    let mut shown = world.services.http().get("/api/registry/uses").json();
    assert_eq!(
        (&shown["env"], &shown["secrets"]),
        (&json!({ "PLAIN": "seen", "KEY": null }), &json!(["KEY"]))
    );
    shown["timeout"] = json!(20);
    assert_eq!(world.put("PUT", &shown)["version"], 2);
    world.until_is(&right, 2);
    world.is_told_nobody();

    // It cannot be had by making it an ordinary variable, and is nothing that could be taken along.
    shown["version"] = Value::Null;
    let mut open = shown.clone();
    open["secrets"] = json!([]);
    let refused = world.put("PUT", &open);
    assert!(refused["detail"].as_str().unwrap().contains("only the value of a secret"), "{refused}");
    for name in ["createdAt", "updatedAt"] {
        shown[name] = Value::Null;
    }
    let mut other = shown.clone();
    other["dataName"] = json!("other");
    let refused = world.put("POST", &other);
    assert_eq!(refused["errors"][0]["field"], "env.KEY", "{refused}");
    // Neither is what is wrong repeated.
    other["env"] = json!({ "KEY": [SECRET] });
    assert_eq!(world.put("POST", &other)["status"], 400);

    // Another value, and then none.
    shown["env"]["KEY"] = json!("another");
    assert_eq!(world.put("PUT", &shown)["version"], 3);
    world.until_is(&cksum("another"), 3);
    let gone = world.services.http().request("DELETE", "/api/registry/uses", &[], b"");
    assert_eq!(gone.status, 204, "{gone}");
    let history = world.services.http().get("/api/registry/uses/history").expect_status(200);
    assert!(history.text().contains("KEY") && !history.text().contains(SECRET), "{history}");
    assert!(!history.text().contains("another"), "{history}");
}

#[test]
fn a_parameter_that_becomes_a_secret_was_one_all_the_time() {
    let world = World::new();
    let registration = |value: &str, secrets: Value| {
        json!({
            "dataName": "uses", "cmd": world.script(), "max-Time": 0.1, "format": "text",
            "env": { "KEY": value }, "secrets": secrets,
        })
    };
    let plain = registration(SECRET, Value::Null);
    let answer = world.services.http().send_json("POST", "/api/registry", &plain).expect_status(201);
    assert!(answer.text().contains(SECRET), "{answer}");
    world.until_is(&cksum(SECRET), 1);
    let mut closed = registration("", json!(["KEY"]));
    closed["env"]["KEY"] = Value::Null;
    assert_eq!(world.put("PUT", &closed)["version"], 2);
    world.until_is(&cksum(SECRET), 2);
    world.is_told_nobody();
}

/// On disk it is in the store and in the agent's folder; both are closed to others.
#[test]
fn where_a_secret_is_kept_is_closed_to_others() {
    let world = World::new();
    world.put(
        "POST",
        &json!({
            "dataName": "uses", "cmd": world.script(), "max-Time": 0.1, "format": "text",
            "env": { "KEY": SECRET }, "secrets": ["KEY"],
        }),
    );
    world.until_is(&cksum(SECRET), 1);
    // The agent keeps what it was told beside running it.
    for folder in [world.services.data_dir(), world.agent.data_dir()] {
        wait::until(PATIENCE, &format!("the secret to be kept in {}", folder.display()), || {
            (holding(folder) > 0).then_some(())
        });
    }
}

/// How many files of the folder hold the secret. They must be closed to others.
fn holding(folder: &Path) -> usize {
    let mut count = 0;
    for file in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        // A file may be replaced at this moment.
        let Ok(bytes) = fs::read(&file) else { continue };
        let Ok(about) = file.metadata() else { continue };
        if bytes.windows(SECRET.len()).any(|window| window == SECRET.as_bytes()) {
            let mode = about.permissions().mode();
            assert!(mode & 0o077 == 0, "{} has {mode:o}", file.display());
            count += 1;
        }
    }
    count
}
