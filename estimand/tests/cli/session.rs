//! A service with a user in front of it: runs commands against it and writes down what was seen.
//!
//! A session about registrations and values alone has no node, so that nothing changes but by its commands. One
//! about what runs has the node `node-1`, on which whatever lies in a folder of the session may run.

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::Duration;

use estimand_testkit::http::Http;
use estimand_testkit::plane::Plane;
use estimand_testkit::process::{self, Estimand};
use estimand_testkit::wait;
use tempfile::TempDir;

use crate::redact::Redaction;

pub const NODE: &str = "node-1";

pub struct Session {
    pub service: Estimand,
    /// The folder of the programs that may run.
    programs: TempDir,
    transcript: String,
    codes: Vec<i32>,
}

impl Session {
    pub fn start() -> Self {
        Self::with(&["--no-agent"], programs())
    }

    /// With a node that runs things.
    pub fn with_node() -> Self {
        let programs = programs();
        let allowed = programs.path().display().to_string();
        Self::with(&["--node", NODE, "--label", "zone=a", "--allow", &allowed], programs)
    }

    fn with(args: &[&str], programs: TempDir) -> Self {
        let service = process::estimand().args([&["up"], args].concat()).start();
        Session { service, programs, transcript: String::new(), codes: Vec::new() }
    }

    pub fn base_url(&self) -> &str {
        self.service.base_url()
    }

    pub fn http(&self) -> Http {
        self.service.http()
    }

    /// A folder that goes with the session.
    pub fn folder(&self) -> &Path {
        self.service.data_dir()
    }

    /// The folder whose programs may run.
    pub fn programs(&self) -> &Path {
        self.programs.path()
    }

    /// Puts a shell script there.
    pub fn program(&self, name: &str, script: &str) {
        let path = self.programs().join(name);
        // Moved to its place, so that nobody executes a file that is still open for writing here.
        let beside = path.with_extension("new");
        std::fs::write(&beside, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&beside, std::fs::Permissions::from_mode(0o755)).unwrap();
        std::fs::rename(beside, path).unwrap();
    }

    /// The services as a client sees them.
    pub fn plane(&self) -> Plane {
        Plane::of(&self.service)
    }

    /// Waits until it has ended so many runs there.
    #[track_caller]
    pub fn until_ran(&self, name: &str, node: &str, runs: u64) {
        let what = format!("to have run {runs} times");
        self.plane().until_instance(name, node, &what, |one| one["runs"] == runs);
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = process::command(process::binary());
        command.args(args);
        command
    }

    /// Runs a command and writes down what it printed and how it ended.
    pub fn run(&mut self, args: &[&str]) {
        self.run_with_input(args, "");
    }

    pub fn run_with_input(&mut self, args: &[&str], input: &str) {
        let mut command = self.command(args);
        command.env("ESTIMAND_SERVER", self.base_url());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // A command need not read all of its input.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        let output = child.wait_with_output().unwrap();
        let code = output.status.code().unwrap();
        let words: Vec<String> = args.iter().map(|word| quoted(word)).collect();
        self.transcript.push_str(&format!("$ estimand {}\n", words.join(" ")));
        let [stdout, stderr] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        stdout.lines().for_each(|line| self.transcript.push_str(&format!("{line}\n")));
        stderr.lines().for_each(|line| self.transcript.push_str(&format!("(stderr) {line}\n")));
        self.transcript.push_str(&format!("[exit code {code}]\n\n"));
        self.codes.push(code);
    }

    /// Runs a command that must succeed, and returns what it printed.
    #[track_caller]
    pub fn quietly(&self, args: &[&str]) -> String {
        let output = self.command(args).env("ESTIMAND_SERVER", self.base_url()).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{args:?} ended with {}: {stderr}", output.status);
        String::from_utf8(output.stdout).unwrap()
    }

    /// Starts a command that goes on.
    pub fn spawn(&self, args: &[&str]) -> Running {
        let mut command = self.command(args);
        command.env("ESTIMAND_SERVER", self.base_url()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Running(command.spawn().unwrap())
    }

    /// Everything that was written down, without what differs from run to run.
    pub fn transcript(&self) -> String {
        let redaction = Redaction::new(&[
            (self.base_url(), "http://[service]"),
            (&self.programs().display().to_string(), "[programs]"),
            (&self.folder().display().to_string(), "[data]"),
        ]);
        // Nothing that the user typed differs.
        let redacted =
            |line: &str| if line.starts_with('$') { line.to_owned() } else { redaction.line(line) };
        let lines = self.transcript.lines().map(|line| redacted(line) + "\n");
        lines.collect::<String>().trim_end().to_owned()
    }

    pub fn codes(&self) -> &[i32] {
        &self.codes
    }
}

/// A command that runs; it is killed when it is dropped.
pub struct Running(Child);

impl Running {
    pub fn of(child: Child) -> Self {
        Running(child)
    }

    pub fn stdout(&mut self) -> ChildStdout {
        self.0.stdout.take().unwrap()
    }

    /// Everything that it wrote to stderr, once it has ended.
    pub fn stderr(&mut self) -> String {
        let mut text = String::new();
        self.0.stderr.take().unwrap().read_to_string(&mut text).unwrap();
        text
    }

    pub fn interrupt(&self) {
        let status = Command::new("kill").args(["-INT", &self.0.id().to_string()]).status().unwrap();
        assert!(status.success());
    }

    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.0.try_wait().unwrap()
    }

    #[track_caller]
    pub fn wait(&mut self, deadline: Duration) -> ExitStatus {
        wait::until(deadline, "the command to end", || self.ended())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn programs() -> TempDir {
    tempfile::Builder::new().prefix("estimand-programs-").tempdir().unwrap()
}

fn quoted(word: &str) -> String {
    let plain = !word.is_empty()
        && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-./:=,".contains(&byte));
    if plain { word.to_owned() } else { format!("'{word}'") }
}
