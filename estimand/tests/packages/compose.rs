//! The cluster of Compose: its own program starts it, and its containers come and go. The database is the machine's own
//! PostgreSQL in a container (`postgres.yaml`), since no image can be fetched.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Output};

use estimand_testkit::wait::{self, PATIENCE};
use serde_json::Value;
use tempfile::TempDir;

use crate::engine::{IMAGE, address};
use crate::{packages, well};

const AGENTS: [&str; 5] = ["agent-1", "agent-2", "agent-3", "agent-4", "agent-5"];

struct Cluster {
    folder: TempDir,
}

impl Cluster {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for file in ["compose.yaml", "start"] {
            std::fs::copy(packages().join("compose").join(file), folder.path().join(file)).unwrap();
        }
        let database = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/packages/postgres.yaml");
        std::fs::copy(database, folder.path().join("postgres.yaml")).unwrap();
        Self { folder }
    }

    fn run(&self, program: impl AsRef<OsStr>, arguments: &[&str]) -> Output {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(self.folder.path());
        command.envs([("COMPOSE_FILE", "compose.yaml:postgres.yaml"), ("COMPOSE_PROJECT_NAME", "composed")]);
        command.env("DOCKER_HOST", address()).env("ESTIMAND_IMAGE", IMAGE);
        command.env("POSTGRES_PROGRAMS", postgres_programs());
        command.output().expect("it runs")
    }

    #[track_caller]
    fn start(&self) -> String {
        let output = self.run(self.folder.path().join("start"), &[]);
        assert!(output.status.success(), "{output:?}\n{}", self.logs());
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    #[track_caller]
    fn compose(&self, arguments: &[&str]) -> String {
        well(&self.run("docker-compose", arguments))
    }

    fn estimand(&self, arguments: &[&str]) -> Output {
        self.run("docker-compose", &[&["exec", "-T", "services", "/bin/estimand"], arguments].concat())
    }

    fn logs(&self) -> String {
        let output = self.run("docker-compose", &["logs", "--no-color", "--tail", "10"]);
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// When the newest load of each node was received, if it is fresh.
    fn received(&self) -> BTreeMap<String, String> {
        let output = self.estimand(&["get", "load", "--json"]);
        let values: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let fresh = values.iter().filter(|value| value["state"] == "fresh");
        fresh.map(|value| (text(&value["nodeName"]), text(&value["receivedAt"]))).collect()
    }

    /// Returns when all nodes have sent their load once more.
    #[track_caller]
    fn wait_for_agents(&self) {
        let before = self.received();
        wait::until_ok(PATIENCE, "new values of all nodes", || {
            let now = self.received();
            let is_new = |node: &&str| now.get(*node).is_some_and(|at| Some(at) != before.get(*node));
            if AGENTS.iter().all(is_new) { Ok(()) } else { Err(format!("{now:?}\n{}", self.logs())) }
        });
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.run("docker-compose", &["kill"]);
        self.run("docker-compose", &["down", "--volumes"]);
    }
}

/// Debian has them in no folder of PATH.
fn postgres_programs() -> String {
    let versions = std::fs::read_dir("/usr/lib/postgresql").expect("apt-get install postgresql");
    let newest = versions.map(|version| version.unwrap().path().join("bin")).max();
    newest.expect("apt-get install postgresql").into_os_string().into_string().unwrap()
}

#[test]
fn a_cluster_of_compose_starts_and_its_containers_come_and_go() {
    let cluster = Cluster::new();
    cluster.start();
    cluster.wait_for_agents();
    let made = std::fs::read_to_string(cluster.folder.path().join(".env")).unwrap();
    well(&cluster.estimand(&["put", "kept", "here", "7"]));

    // Nothing of it is made again.
    cluster.start();
    assert_eq!(std::fs::read_to_string(cluster.folder.path().join(".env")).unwrap(), made);

    // All that counts is in the database and the volumes: other containers of both go on, and an agent needs no other token.
    cluster.compose(&["rm", "--stop", "--force", "services", "agent-1"]);
    cluster.start();
    cluster.wait_for_agents();
    let kept = well(&cluster.estimand(&["get", "kept", "--json"]));
    assert!(kept.contains("\"dataValue\":7") || kept.contains("\"dataValue\": 7"), "{kept}");
    let log = cluster.compose(&["logs", "--no-color", "services"]);
    assert!(log.contains("storing in postgres://"), "{log}");
}
