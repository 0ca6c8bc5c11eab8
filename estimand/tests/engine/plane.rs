//! A plane with one node, what it is told, and what it says.
//!
//! Every process in its slots carries a mark among its arguments, by which it is found in the process table.

use std::path::{Path, PathBuf};
use std::time::Duration;

use estimand_testkit::http::{Http, Response};
use estimand_testkit::mock;
use estimand_testkit::plane::Plane as Services;
use estimand_testkit::process::{self, Estimand, free_port};
use estimand_testkit::processes::{self, Process};
use estimand_testkit::wait::{self, PATIENCE};
use serde_json::{Map, Value, json};
use tempfile::TempDir;

pub const NODE: &str = "node-1";

/// Where the agent is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Agent {
    /// In the same process as the services.
    Within,
    /// A process of its own.
    Beside,
    /// The same, which has to do without cgroups.
    WithoutCgroups,
}

pub struct Plane {
    pub services: Estimand,
    /// Unless it is within the services.
    pub beside: Option<Estimand>,
    pub http: Http,
    pub mark: String,
    pub folder: TempDir,
}

impl Plane {
    /// Services and agent in one process, as `up` has them.
    pub fn up(name: &str) -> Self {
        Self::with_agent(name, Agent::Within, &[])
    }

    /// `more` are further options of the agent.
    pub fn with_agent(name: &str, agent: Agent, more: &[&str]) -> Self {
        let folder = tempfile::Builder::new().prefix("engine-").tempdir().unwrap();
        let mut node = vec!["--node".to_owned(), NODE.to_owned()];
        for allowed in [folder.path(), mock().parent().unwrap()] {
            node.extend(["--allow".to_owned(), allowed.display().to_string()]);
        }
        node.extend(more.iter().map(|&option| option.to_owned()));
        // A certain port, so that a start after a kill finds it free.
        let services = process::estimand().args(["up"]).port(free_port());
        let (services, beside) = match agent {
            Agent::Within => (services.args(node).start(), None),
            Agent::Beside | Agent::WithoutCgroups => {
                let services = services.args(["--no-agent"]).start();
                let agent_args = ["agent", "--server", services.base_url()].map(str::to_owned);
                let mut args: Vec<String> = agent_args.into_iter().chain(node).collect();
                if agent == Agent::WithoutCgroups {
                    args.push("--no-cgroups".to_owned());
                }
                let beside = process::estimand().args(args).without_http();
                (services, Some(beside.start()))
            }
        };
        let http = services.http();
        Plane { services, beside, http, mark: processes::unique_mark(name), folder }
    }

    /// The process that the agent is in.
    pub fn agent(&self) -> &Estimand {
        self.beside.as_ref().unwrap_or(&self.services)
    }

    /// The parent of all that runs.
    pub fn launcher(&self) -> u32 {
        let agent = self.agent().pid();
        let is_it = |process: &Process| {
            process.ppid == agent && process.cmdline.iter().any(|arg| arg == "slot-launcher")
        };
        wait::until(PATIENCE, "the launcher", || {
            Some(processes::descendants(agent).into_iter().find(is_it)?.pid)
        })
    }

    /// A file in the plane's own folder, in which executables are allowed.
    pub fn file(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    /// An executable script, run by the shell.
    pub fn script(&self, name: &str, text: &str) -> String {
        let path = self.file(name);
        // Moved to its place, so that nobody executes a file that is still open for writing here.
        let beside = format!("{path}.new");
        std::fs::write(&beside, format!("#!/bin/sh\n{text}\n")).unwrap();
        make_executable(Path::new(&beside));
        std::fs::rename(beside, &path).unwrap();
        path
    }

    /// The command of a mock that carries this plane's mark, with its data name, and does `words`.
    pub fn mock(&self, name: &str, words: &[&str]) -> Value {
        let (program, mark) = (mock().display().to_string(), format!("mark:{}", self.mark_of(name)));
        json!([&[&program, mark.as_str()][..], words].concat())
    }

    fn mark_of(&self, name: &str) -> String {
        format!("{}.{name}.", self.mark)
    }

    /// Registers a mock; `more` is the rest of the registration. Unless that says otherwise it runs twice a second,
    /// and may take far longer than it does, for on a busy machine anything now and then lasts half a second.
    #[track_caller]
    pub fn register(&self, name: &str, words: &[&str], more: Value) {
        self.register_cmd(name, self.mock(name, words), more);
    }

    #[track_caller]
    pub fn register_cmd(&self, name: &str, cmd: Value, more: Value) {
        self.http.send_json("POST", "/api/registry", &registration(name, cmd, more)).expect_status(201);
    }

    /// Replaces what is registered under the name.
    #[track_caller]
    pub fn replace(&self, name: &str, words: &[&str], more: Value) {
        self.replace_cmd(name, self.mock(name, words), more);
    }

    #[track_caller]
    pub fn replace_cmd(&self, name: &str, cmd: Value, more: Value) {
        self.http.send_json("PUT", "/api/registry", &registration(name, cmd, more)).expect_status(200);
    }

    /// Changes some fields of a registration.
    #[track_caller]
    pub fn patch(&self, name: &str, patch: &Value) {
        self.http.send_json("PATCH", &format!("/api/registry/{name}"), patch).expect_status(200);
    }

    /// Deletes a registration, and expects that its end is confirmed.
    #[track_caller]
    pub fn unregister(&self, name: &str) {
        let answer =
            self.http.request("DELETE", &format!("/api/registry/{name}"), &[], b"").expect_status(204);
        assert_eq!(answer.header("estimand-hint"), None, "{answer}");
    }

    /// The value as read, if there is one.
    pub fn read(&self, name: &str) -> Option<Value> {
        self.read_of(name, NODE)
    }

    pub fn read_of(&self, name: &str, node: &str) -> Option<Value> {
        let answer = self.http.get(&format!("/api/data/{name}/{node}?explain=1"));
        match answer.status {
            404 => None,
            _ => Some(answer.expect_status(200).json()),
        }
    }

    /// Waits for a value that is as it should be, and returns it.
    #[track_caller]
    pub fn until_value(&self, name: &str, what: &str, mut right: impl FnMut(&Value) -> bool) -> Value {
        wait::until_ok(PATIENCE, &format!("`{name}` to be {what}"), || match self.read(name) {
            Some(value) if right(&value) => Ok(value),
            Some(value) => Err(format!("{value}\nand its slot: {:?}", self.instance(name))),
            None => Err(format!("no value; its slot: {:?}", self.instance(name))),
        })
    }

    /// Waits until the value is this.
    #[track_caller]
    pub fn until_is(&self, name: &str, expected: impl Into<Value>) -> Value {
        let expected = expected.into();
        self.until_value(name, &expected.to_string(), |value| value["dataValue"] == expected)
    }

    /// The slot as the manager reports it.
    pub fn instance(&self, name: &str) -> Option<Value> {
        let answer = self.http.get(&format!("/api/mng/instances?dataName={name}&dataNode={NODE}"));
        // A manager on a machine that is short of everything may have to pause.
        if answer.status == 503 {
            None
        } else {
            answer.expect_status(200).json().as_array()?.first().cloned()
        }
    }

    #[track_caller]
    pub fn until_instance(&self, name: &str, what: &str, right: impl FnMut(&Value) -> bool) -> Value {
        Services::of(&self.services).until_instance(name, NODE, what, right)
    }

    /// Waits until the slot says what is wrong with its last run.
    #[track_caller]
    pub fn until_error(&self, name: &str, part: &str) -> Value {
        self.until_instance(name, &format!("to have failed with {part:?}"), |slot| {
            slot["lastError"].as_str().is_some_and(|error| error.contains(part))
        })
    }

    /// The history of a name that is registered with one.
    #[track_caller]
    pub fn history(&self, name: &str) -> Vec<Value> {
        let answer = self.http.get(&format!("/api/data/history?dataName={name}&dataNode={NODE}"));
        serde_json::from_slice(&answer.expect_status(200).body).unwrap()
    }

    /// A run that somebody asks for.
    pub fn run_by_hand(&self, name: &str) -> Response {
        self.http.request("POST", &format!("/api/mng/instances/{name}/{NODE}/run"), &[], b"")
    }

    /// Waits until the manager has heard of the node.
    pub fn until_known(&self) {
        estimand_testkit::plane::Plane::of(&self.services).until_known(NODE);
    }

    /// A run of a registration that is not made yet.
    pub fn try_out(&self, registration: &Value) -> Response {
        self.http.send_json("POST", &format!("/api/mng/nodes/{NODE}/try"), registration)
    }

    /// The processes that carry the mark.
    pub fn running(&self) -> Vec<Process> {
        processes::with_argument(&self.mark)
    }

    /// The same of one slot.
    pub fn running_of(&self, name: &str) -> Vec<Process> {
        processes::with_argument(&self.mark_of(name))
    }

    /// Waits until something runs in a slot that was told this word.
    #[track_caller]
    pub fn until_runs(&self, name: &str, word: &str) -> Process {
        let told = |process: &Process| process.cmdline.iter().any(|told| told == word);
        wait::until(PATIENCE, &format!("`{name}` to run with {word:?}"), || {
            self.running_of(name).into_iter().find(told)
        })
    }

    /// At this moment nothing of the slot is there.
    #[track_caller]
    pub fn nothing_runs_of(&self, name: &str) {
        processes::none_with(&self.mark_of(name), Duration::ZERO);
    }

    /// Ends it as an operator does, and checks that nothing is left.
    #[track_caller]
    pub fn end(mut self) {
        for process in [self.beside.as_mut(), Some(&mut self.services)].into_iter().flatten() {
            let status = process.terminate();
            assert!(status.success(), "{status}: {}", process.stderr_tail());
        }
        processes::none_with(&self.mark, Duration::ZERO);
        assert_eq!(self.cgroups(), Vec::<PathBuf>::new());
    }

    /// The cgroups of this plane's agent, which are named for it.
    pub fn cgroups(&self) -> Vec<PathBuf> {
        let home = match &self.beside {
            Some(agent) => agent.data_dir().to_owned(),
            None => self.services.data_dir().join("agent"),
        };
        let id = std::fs::read_to_string(home.join("agent")).unwrap();
        groups_below(Path::new("/sys/fs/cgroup"), id.trim())
    }
}

impl Drop for Plane {
    fn drop(&mut self) {
        // Only a test that fails leaves something.
        if std::thread::panicking() {
            for process in [self.beside.as_mut(), Some(&mut self.services)].into_iter().flatten() {
                let log = process.stderr_tail();
                let notable = log.lines().filter(|line| !line.contains("estimand::access"));
                eprintln!("the end of its log:\n{}", notable.collect::<Vec<_>>().join("\n"));
                process.kill9();
            }
            processes::kill9_all_with(&self.mark);
        }
    }
}

/// The program that does as it is told.
pub fn mock() -> PathBuf {
    mock::of_estimand()
}

fn registration(name: &str, cmd: Value, more: Value) -> Value {
    let mut map = Map::new();
    map.insert("dataName".to_owned(), json!(name));
    map.insert("cmd".to_owned(), cmd);
    if let Value::Object(more) = more {
        map.extend(more);
    }
    match map.get("timeout") {
        None if !map.contains_key("mode") => drop(map.insert("timeout".to_owned(), json!(10))),
        Some(Value::Null) => drop(map.remove("timeout")),
        _ => {}
    }
    if !["max-Time", "gap", "schedule"].iter().any(|timing| map.contains_key(*timing)) {
        map.insert("max-Time".to_owned(), json!(0.5));
    }
    Value::Object(map)
}

fn make_executable(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// Groups in whose path the agent's id is, in whichever hierarchy.
fn groups_below(folder: &Path, id: &str) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let folders = entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let mut found = Vec::new();
    for inner in folders.map(|entry| entry.path()) {
        match inner.file_name().is_some_and(|name| name.to_string_lossy().contains(id)) {
            true => found.push(inner),
            false => found.extend(groups_below(&inner, id)),
        }
    }
    found
}
