//! A node with its agent, and what is heard of its tasks.

use std::path::PathBuf;
use std::time::Duration;

use estimand_testkit::disk::Disk;
use estimand_testkit::docker::{Docker, IMAGE};
use estimand_testkit::mock;
use estimand_testkit::process::{self, Estimand};
use estimand_testkit::processes::{self, Process};
use estimand_testkit::wait::{self, PATIENCE};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::stand_in::{AttemptNews, StandIn};

pub struct Node {
    pub services: StandIn,
    pub agent: Estimand,
    /// Among the arguments of all that runs here.
    pub mark: String,
    /// The task's own, where the test leaves files for it.
    pub folder: TempDir,
}

impl Node {
    pub fn start(name: &str) -> Self {
        Self::with(name, &[])
    }

    /// `more` are further options of the agent. It may run the shell, the mock and Python.
    pub fn with(name: &str, more: &[&str]) -> Self {
        Self::around(StandIn::start(), tempfile::tempdir().unwrap(), name, more, None)
    }

    /// Its agent keeps everything on this disk.
    pub fn on_disk(name: &str, disk: &Disk, more: &[&str]) -> Self {
        let data = disk.path().join("data");
        Self::around(StandIn::start(), tempfile::tempdir().unwrap(), name, more, Some(data))
    }

    /// A node whose containers run in this engine, with the test's folder as their volume.
    pub fn with_engine(name: &str, docker: &Docker, more: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let volume = folder.path().display().to_string();
        let socket = docker.socket().to_str().unwrap();
        let options = ["--docker", socket, "--allow-image", "estimand/*", "--allow-volume", &volume];
        Self::around(StandIn::start(), folder, name, &[&options[..], more].concat(), None)
    }

    /// A node that has had no lease since its agent was started.
    pub fn without_lease(name: &str) -> Self {
        let services = StandIn::start();
        services.give_leases_of(Duration::ZERO);
        Self::around(services, tempfile::tempdir().unwrap(), name, &[], None)
    }

    fn around(
        services: StandIn,
        folder: TempDir,
        name: &str,
        more: &[&str],
        data_dir: Option<PathBuf>,
    ) -> Self {
        let mock = mock::of_estimand();
        let mut args = ["agent", "--server", services.url(), "--node", "n1"].map(str::to_owned).to_vec();
        for allowed in ["/bin", "/usr/bin", mock.parent().unwrap().to_str().unwrap()] {
            args.extend(["--allow".to_owned(), allowed.to_owned()]);
        }
        args.extend(more.iter().map(|&option| option.to_owned()));
        let agent = process::estimand().args(args).without_http();
        let agent = match data_dir {
            Some(folder) => agent.data_dir(folder),
            None => agent,
        };
        let agent = agent.start();
        Node { services, agent, mark: processes::unique_mark(name), folder }
    }

    /// A task for the shell, which finds the test's folder as `$0`.
    pub fn shell(&self, script: &str) -> Value {
        json!({"command": ["/bin/sh", "-c", script, self.folder.path(), self.mark]})
    }

    /// A container for the shell, which finds the test's folder as `$0`.
    pub fn container(&self, script: &str) -> Value {
        let folder = self.folder.path().display().to_string();
        json!({
            "image": IMAGE, "command": ["sh", "-c", script, folder, self.mark],
            "volumes": [{"source": folder, "target": folder}],
        })
    }

    pub fn mock(&self, words: &[&str]) -> Value {
        let program = mock::of_estimand().display().to_string();
        let mark = format!("mark:{}", self.mark);
        let command = [&[program.as_str(), mark.as_str()][..], words].concat();
        json!({ "command": command })
    }

    /// Makes this the only task here, as the first attempt.
    pub fn assign(&self, id: &str, work: impl Into<Value>) {
        let work = work.into();
        self.services.assign(json!([{"id": id, "attempt": 1, "work": work}]));
    }

    /// Makes an empty file in the test's folder.
    pub fn put(&self, name: &str) {
        std::fs::write(self.folder.path().join(name), "").unwrap();
    }

    pub fn has(&self, name: &str) -> bool {
        self.folder.path().join(name).exists()
    }

    #[track_caller]
    pub fn until(
        &self,
        attempt: &str,
        what: &str,
        mut right: impl FnMut(&AttemptNews) -> bool,
    ) -> AttemptNews {
        wait::until_ok(PATIENCE, &format!("{attempt} to {what}"), || {
            self.services.look_at(attempt, |heard| {
                if right(heard) {
                    return Ok(heard.clone());
                }
                let last: Vec<_> = heard.lines.iter().rev().take(3).collect();
                Err(format!("{:?}, {} lines, the last are {last:?}", heard.stages, heard.lines.len()))
            })
        })
    }

    /// Waits for its end, before which all of its log has come.
    #[track_caller]
    pub fn until_ended(&self, attempt: &str, ending: impl Into<Value>) -> AttemptNews {
        let ending = ending.into();
        let is_end = |stage: &Value| stage.get("ended").is_some();
        let heard = self.until(attempt, "end", |heard| heard.stages.iter().any(is_end));
        assert_eq!(heard.stages.last().unwrap()["ended"]["ending"], ending, "{heard:?}");
        assert_eq!(heard.lines_at_end, Some(heard.lines.len()), "lines came after the end");
        heard
    }

    #[track_caller]
    pub fn until_said(&self, attempt: &str, text: &str) {
        self.until(attempt, &format!("say {text:?}"), |heard| texts(heard).iter().any(|line| line == text));
    }

    pub fn tasks_folder(&self) -> PathBuf {
        self.agent.data_dir().join("tasks")
    }

    /// The keeper of an attempt that runs.
    pub fn keeper(&self, attempt: &str) -> Option<Process> {
        processes::keeper_of(&self.tasks_folder().join(attempt))
    }

    /// The launcher of an agent or keeper.
    pub fn launcher_of(&self, pid: u32) -> u32 {
        let is_it = |process: &Process| {
            process.ppid == pid && process.cmdline.iter().any(|arg| arg == "slot-launcher")
        };
        wait::until(PATIENCE, "a launcher", || Some(processes::descendants(pid).into_iter().find(is_it)?.pid))
    }

    pub fn running(&self) -> Vec<Process> {
        processes::with_argument(&self.mark)
    }

    /// Takes everything from the node, and waits until nothing is left there.
    #[track_caller]
    pub fn end(mut self) {
        self.services.answer_heartbeats(true);
        self.services.assign(json!([]));
        wait::until(PATIENCE, "the folders of tasks to go", || {
            let mut entries = std::fs::read_dir(self.tasks_folder()).unwrap().flatten();
            entries.all(|entry| !entry.path().is_dir()).then_some(())
        });
        processes::none_with(&self.mark, Duration::ZERO);
        let status = self.agent.terminate();
        assert!(status.success(), "{status}: {}", self.agent.stderr_tail());
        // The agent waits for the answer for half a second only.
        wait::until(PATIENCE, "the agent's last word", || self.services.has_left().then_some(()));
        let folder = self.tasks_folder().display().to_string();
        processes::none_with(&folder, PATIENCE);
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // Only a test that fails leaves something.
        if std::thread::panicking() {
            eprintln!("the end of the agent's log:\n{}", self.agent.stderr_tail());
            processes::kill9_all_with(&self.tasks_folder().display().to_string());
            processes::kill9_all_with(&self.mark);
        }
    }
}

/// The lines in their order.
pub fn texts(heard: &AttemptNews) -> Vec<String> {
    heard.lines.values().map(|line| line["text"].as_str().unwrap().to_owned()).collect()
}
