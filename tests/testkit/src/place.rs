//! The place of a story: a folder that all of its processes share, the registrations that it uses, and
//! what runs leave there for it to check.
//!
//! All that slots run is the mock, with a mark by which it is found in the process table. When a place is
//! dropped its agents are gone, and so must be whatever they ran.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::mock;
use crate::process::{Builder, Estimand, estimand};
use crate::processes::{self, Process};
use crate::wait::{self, PATIENCE};

/// How often what counts runs.
pub const INTERVAL: Duration = Duration::from_millis(500);

pub struct Place {
    folder: TempDir,
    mark: String,
    mock: PathBuf,
}

/// A node's agent. Killed when dropped.
pub struct Agent {
    pub node: String,
    pub process: Estimand,
}

impl Place {
    pub fn new(story: &str) -> Self {
        let folder =
            tempfile::Builder::new().prefix("estimand-cluster-").tempdir().expect("a folder can be made");
        let place = Place { folder, mark: processes::unique_mark(story), mock: mock::of_estimand() };
        let script = format!(
            "#!/bin/sh\nexec '{}' \"$@\" \"print:{{\\\"everyone\\\": \\\"$ESTIMAND_NODE\\\"}}\" sleep:200ms\n",
            place.mock.display()
        );
        fs::write(place.script(), script).expect("the script can be written");
        fs::set_permissions(place.script(), fs::Permissions::from_mode(0o755)).expect("a mode can be set");
        place
    }

    /// How to start an agent of that node, which is the same agent each time. More arguments may be given.
    pub fn builder(&self, node: &str, servers: &[&str]) -> Builder {
        let servers = servers.iter().flat_map(|server| ["--server", server]);
        estimand()
            .args(["agent", "--node", node])
            .args(servers)
            .args(["--allow".into(), self.mock.parent().expect("it is in a folder").as_os_str().to_owned()])
            .args(["--allow".into(), self.folder.path().as_os_str().to_owned()])
            .without_http()
            .data_dir(self.agent_folder(node))
    }

    #[track_caller]
    pub fn agent(&self, node: &str, server: &str) -> Agent {
        Agent { node: node.to_owned(), process: self.builder(node, &[server]).start() }
    }

    /// Counts its runs, and keeps a history of that.
    pub fn counting(&self, name: &str) -> Value {
        json!({
            "dataName": name, "cmd": self.command(name, &["count:n"]), "max-Time": INTERVAL.as_secs_f64(),
            "timeout": 10, "history": {"max": 10_000},
        })
    }

    /// Counts in one long life, and keeps a history of that.
    pub fn streaming(&self, name: &str) -> Value {
        json!({
            "dataName": name, "cmd": self.command(name, &["stream:300ms"]), "max-Time": 1, "mode": "stream",
            "history": {"max": 10_000},
        })
    }

    /// Must not run twice in the cluster, and runs all the time, with a child that would survive it.
    pub fn single(&self, name: &str) -> Value {
        let alone = self.alone(name);
        json!({
            "dataName": name, "cmd": self.command(name, &[&alone, "orphan", "stream:300ms"]), "max-Time": 1,
            "mode": "stream", "kind": "processor", "replicas": 1,
        })
    }

    /// Must not run twice in the cluster; a run at each due time, which says for the node `everyone` where it ran.
    pub fn single_for_everyone(&self, name: &str) -> Value {
        let mark = self.mark_of(name);
        json!({
            "dataName": name, "cmd": [self.script(), mark, self.alone(name), "orphan"], "format": "nodes",
            "max-Time": INTERVAL.as_secs_f64(), "timeout": 10, "kind": "processor", "replicas": 1,
        })
    }

    /// The mock, doing what `words` say, with a mark of `of`.
    pub fn command(&self, of: &str, words: &[&str]) -> Value {
        let mark = self.mark_of(of);
        let words = words.iter().map(|word| json!(word));
        [json!(self.mock), json!(mark)].into_iter().chain(words).collect()
    }

    /// How often the agent of `node` has run what counts as `name`.
    pub fn runs(&self, node: &str, name: &str) -> u64 {
        let file = self.agent_folder(node).join("slots").join(name).join("n");
        fs::read_to_string(file).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
    }

    /// Lets time pass: until the agent of `node` has run what counts as `name` so often as goes into `span`.
    /// The number of its runs then.
    #[track_caller]
    pub fn while_it_runs(&self, node: &str, name: &str, span: Duration) -> u64 {
        let begun = self.runs(node, name);
        let more = u64::try_from(span.as_millis() / INTERVAL.as_millis()).expect("a test is not that long");
        let what = format!("{more} more runs of {name} on {node} after {begun}");
        wait::until(span * 2 + PATIENCE, &what, || {
            Some(self.runs(node, name)).filter(|runs| *runs >= begun + more)
        })
    }

    /// Nothing that must run alone has ever found itself to run twice.
    #[track_caller]
    pub fn check_alone(&self, name: &str) {
        let twice = self.folder.path().join(format!("{name}.lock.twice"));
        let said = fs::read_to_string(twice).unwrap_or_default();
        assert!(said.is_empty(), "{name} ran twice at once:\n{said}");
        assert!(self.folder.path().join(format!("{name}.lock")).exists(), "{name} never ran at all");
    }

    /// The processes of `name`, anywhere.
    pub fn processes(&self, name: &str) -> Vec<Process> {
        processes::with_argument(&self.mark_of(name))
    }

    /// The names of all marks that are found below the agent.
    pub fn marks_below(&self, agent: &Agent) -> Vec<String> {
        let begin = format!("mark:{}-", self.mark);
        let below = processes::descendants(agent.process.pid());
        let args = below.into_iter().flat_map(|process| process.cmdline);
        let name = |arg: &str| Some(arg.strip_prefix(&begin)?.strip_suffix(';')?.to_owned());
        let mut names: Vec<_> = args.filter_map(|arg| name(&arg)).collect();
        names.sort();
        names
    }

    pub fn runs_below(&self, agent: &Agent, name: &str) -> bool {
        self.marks_below(agent).iter().any(|mark| mark == name)
    }

    fn mark_of(&self, name: &str) -> String {
        format!("mark:{}-{name};", self.mark)
    }

    fn alone(&self, name: &str) -> String {
        format!("alone:{}/{name}.lock", self.folder.path().display())
    }

    fn script(&self) -> PathBuf {
        self.folder.path().join("everyone.sh")
    }

    pub fn agent_folder(&self, node: &str) -> PathBuf {
        self.folder.path().join("agents").join(node)
    }

    /// For a service's data that outlives its process.
    pub fn service_folder(&self, service: &str) -> PathBuf {
        self.folder.path().join(service)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if std::thread::panicking() {
            processes::kill9_all_with(&self.mark);
        } else {
            processes::none_with(&self.mark, PATIENCE);
        }
    }
}
