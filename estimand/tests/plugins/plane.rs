//! One `estimand up` whose agent may run the plugins, and a folder for what they leave and look at.

use std::path::PathBuf;

use estimand_testkit::plane::Plane as Services;
use estimand_testkit::process::{self, Estimand};
use estimand_testkit::wait::{self, PATIENCE};
use serde_json::{Map, Value, json};
use tempfile::TempDir;

use crate::beside::RunBeside;
use crate::outcome::{Package, Plugin};
use crate::peers::Peers;

const NODE: &str = "node-1";
/// The text of the file that plugins look at.
pub const FILE: &str = "root was here\n";

pub struct Plane<'a> {
    services: Estimand,
    client: Services,
    folder: TempDir,
    peers: &'a Peers,
}

impl<'a> Plane<'a> {
    pub fn up(peers: &'a Peers) -> Self {
        let folder = tempfile::Builder::new().prefix("plugins-").tempdir().unwrap();
        std::fs::write(folder.path().join("file"), FILE).unwrap();
        std::fs::create_dir(folder.path().join("state")).unwrap();
        let mut args = vec!["up", "--node", NODE, "--allow-env", "*"];
        for package in [Package::Nagios, Package::Munin, Package::Prometheus] {
            args.extend(["--allow", package.folder()]);
        }
        let services = process::estimand().args(args).start();
        let client = Services::of(&services);
        Plane { services, client, folder, peers }
    }

    /// Registers the plugin as the one at this place of the table, and says under which data name.
    pub fn register(&self, at: usize, plugin: &Plugin) -> String {
        let program = plugin.command.split(' ').next().unwrap_or_default();
        let called = plugin.called.unwrap_or(program);
        let name = format!("p{at}_{}", called.replace(|c: char| !c.is_ascii_alphanumeric(), "_"));
        let env: Map<String, Value> =
            self.env(plugin).into_iter().map(|(name, value)| (name, json!(value))).collect();
        self.post(&json!({
            "dataName": name, "cmd": self.command(plugin), "format": plugin.package.format(),
            "env": env, "max-Time": 300, "timeout": 60,
        }));
        name
    }

    /// Runs it without the agent, in a folder of its own, after the agent has.
    pub fn run_beside(&self, plugin: &Plugin) -> RunBeside {
        let folder = tempfile::Builder::new().prefix("beside-").tempdir_in(self.folder.path()).unwrap();
        RunBeside::of(&self.command(plugin), &self.env(plugin), folder.path())
    }

    /// The words of a shell, of which the first is a path.
    fn command(&self, plugin: &Plugin) -> String {
        let program = plugin.command.split(' ').next().unwrap_or_default();
        let path = PathBuf::from(plugin.package.folder()).join(program);
        let path = match plugin.called {
            None => path,
            Some(called) => {
                let link = self.folder.path().join(called);
                if !link.is_symlink() {
                    std::os::unix::fs::symlink(path, &link).unwrap();
                }
                link
            }
        };
        format!("{}{}", path.display(), self.fill(&plugin.command[program.len()..]))
    }

    fn env(&self, plugin: &Plugin) -> Vec<(String, String)> {
        plugin.env.iter().map(|(name, value)| ((*name).to_owned(), self.fill(value))).collect()
    }

    #[track_caller]
    fn post(&self, registration: &Value) {
        self.client.register(registration);
    }

    fn fill(&self, text: &str) -> String {
        self.peers.fill(text).replace("{folder}", &self.folder.path().display().to_string())
    }

    /// Waits until it has run, and returns what is known of its slot.
    #[track_caller]
    pub fn until_ran(&self, name: &str) -> Value {
        self.client.until_instance(name, NODE, "to have run", |one| one["runs"].as_u64() >= Some(1))
    }

    /// Waits for a value that can only come after those of all that has run by now, for values are delivered in
    /// their order.
    #[track_caller]
    pub fn until_all_is_delivered(&self) {
        let last = "the_last";
        let cmd = format!("{}/check_dummy 0", Package::Nagios.folder());
        self.post(&json!({"dataName": last, "cmd": cmd, "format": "nagios", "max-Time": 300}));
        wait::until(PATIENCE, "the last value", || self.value(last));
    }

    /// The value, if there is one.
    pub fn value(&self, name: &str) -> Option<Value> {
        let answer = self.client.data.get(&format!("/api/data/{name}/{NODE}"));
        match answer.status {
            404 => None,
            _ => Some(answer.expect_status(200).json()["dataValue"].take()),
        }
    }

    pub fn end(mut self) {
        let status = self.services.terminate();
        assert!(status.success(), "{status}: {}", self.services.stderr_tail());
    }
}
