//! Services in one process, and an agent for each node that may run everything.

use std::path::{Path, PathBuf};
use std::process::Command;

use estimand_testkit::disk::Disk;
use estimand_testkit::http::Http;
use estimand_testkit::process::{self, Estimand, free_port};
use estimand_testkit::wait::{self, PATIENCE};
use serde_json::{Value, json};
use tempfile::TempDir;

pub struct Plane {
    pub services: Estimand,
    pub agents: Vec<Estimand>,
    pub http: Http,
    pub folder: TempDir,
}

impl Plane {
    pub fn start(nodes: &[&str]) -> Self {
        Self::with(nodes, &[])
    }

    /// One node, whose agent keeps everything on this disk.
    pub fn on_disk(node: &str, disk: &Disk) -> Self {
        Self::around(&[node], &[], |_| disk.path().join("data"))
    }

    /// `more` are further options of the agents, which run users' tasks as themselves.
    pub fn with(nodes: &[&str], more: &[&str]) -> Self {
        Self::around(nodes, &[more, &["--allow-users-as-agent"]].concat(), |folder| folder.to_owned())
    }

    /// The agents have these options alone.
    pub fn with_only(nodes: &[&str], options: &[&str]) -> Self {
        Self::around(nodes, options, |folder| folder.to_owned())
    }

    fn around(nodes: &[&str], more: &[&str], data: impl Fn(&Path) -> PathBuf) -> Self {
        let folder = tempfile::Builder::new().prefix("tasks-").tempdir().unwrap();
        // A certain port, so that a start after a kill finds it free.
        let services = process::estimand().args(["up", "--no-agent", "--defaults", "none"]).port(free_port());
        let services = services.start();
        let agent = |node: &&str| {
            let args = ["agent", "--server", services.base_url(), "--node", node, "--allow-all"];
            process::estimand()
                .args(args)
                .args(more.iter().copied())
                .data_dir(data(folder.path()).join(node))
                .without_http()
                .start()
        };
        let agents = nodes.iter().map(agent).collect();
        let http = services.http();
        Plane { services, agents, http, folder }
    }

    /// A command of the binary that asks these services.
    pub fn cli(&self, args: &[&str]) -> Command {
        let mut command = process::command(process::binary());
        command.args(args).env("ESTIMAND_SERVER", self.services.base_url());
        command
    }

    #[track_caller]
    pub fn submit(&self, document: &Value) -> String {
        let task = self.http.send_json("POST", "/api/tasks", document).expect_status(201).json();
        task["id"].as_str().unwrap().to_owned()
    }

    #[track_caller]
    pub fn task(&self, id: &str) -> Value {
        self.http.get(&format!("/api/tasks/{id}")).expect_status(200).json()
    }

    /// The task when it is over.
    #[track_caller]
    pub fn over(&self, id: &str) -> Value {
        wait::until_ok(PATIENCE, &format!("{id} to be over"), || {
            let task = self.task(id);
            if task.get("endedAt").is_some() { Ok(task) } else { Err(task) }
        })
    }

    /// The whole log, which is read in pieces.
    #[track_caller]
    pub fn log(&self, id: &str) -> Vec<String> {
        let (mut lines, mut from) = (Vec::new(), json!(0));
        loop {
            let page = self.http.get(&format!("/api/tasks/{id}/logs?from={from}")).expect_status(200).json();
            let some = page["lines"].as_array().unwrap();
            lines.extend(some.iter().map(|line| line["text"].as_str().unwrap().to_owned()));
            if page["over"] == true || some.is_empty() {
                return lines;
            }
            from = page["next"].clone();
        }
    }

    /// Waits until a log has so many lines.
    #[track_caller]
    pub fn wait_lines(&self, id: &str, count: usize) {
        wait::until_ok(PATIENCE, &format!("{count} lines of {id}"), || {
            let lines = self.log(id).len();
            if lines >= count { Ok(()) } else { Err(lines) }
        });
    }
}
