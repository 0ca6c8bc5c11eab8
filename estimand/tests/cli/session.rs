//! A service with a user in front of it: runs commands against it and writes down what was seen.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::Duration;

use estimand_testkit::http::Http;
use estimand_testkit::process::Estimand;
use estimand_testkit::wait;

const BIN: &str = env!("CARGO_BIN_EXE_estimand");

pub struct Session {
    service: Estimand,
    transcript: String,
    codes: Vec<i32>,
}

impl Session {
    pub fn start() -> Self {
        let service = Estimand::builder(BIN).args(["up"]).start();
        Session { service, transcript: String::new(), codes: Vec::new() }
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

    /// A command, without anything of the tests' own environment that it would listen to.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(BIN);
        command.args(args).env_remove("ESTIMAND_SERVER").stdin(Stdio::null());
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
        // What a command does not read it does not need.
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
        // What the user typed has nothing in it that differs.
        let blotted = |line: &str| {
            if line.starts_with('$') { line.to_owned() } else { blot_out(line, self.base_url()) }
        };
        let lines = self.transcript.lines().map(|line| blotted(line) + "\n");
        lines.collect::<String>().trim_end().to_owned()
    }

    pub fn codes(&self) -> &[i32] {
        &self.codes
    }
}

/// A command that runs; it is killed when it is dropped.
pub struct Running(Child);

impl Running {
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

fn quoted(word: &str) -> String {
    let plain = !word.is_empty()
        && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-./:=,".contains(&byte));
    if plain { word.to_owned() } else { format!("'{word}'") }
}

/// Replaces times, ages and the service's address; columns are as wide as what stands in them, so more than two
/// spaces become two.
fn blot_out(line: &str, base_url: &str) -> String {
    let mut out = String::new();
    let indent = line.len() - line.trim_start().len();
    out.push_str(&line[..indent]);
    let words: Vec<&str> = line[indent..].split(' ').collect();
    let mut gap = 0;
    for (place, word) in words.iter().enumerate() {
        if word.is_empty() {
            gap += 1;
            continue;
        }
        if place > 0 {
            out.push_str(if gap > 0 { "  " } else { " " });
        }
        gap = 0;
        let bare = word.trim_matches(['(', ')', ',']);
        let blotted = match bare {
            "" => (*word).to_owned(),
            _ if is_instant(bare) => word.replace(bare, "[time]"),
            _ if is_age(bare) => word.replace(bare, "[age]"),
            _ => word.replace(base_url, "http://[service]"),
        };
        out.push_str(&blotted);
    }
    out
}

fn is_instant(word: &str) -> bool {
    word.len() >= 20 && word.starts_with("20") && word.ends_with('Z') && word.as_bytes()[10] == b'T'
}

/// Seconds or less; whatever else the tests write is in minutes.
fn is_age(word: &str) -> bool {
    let number = word.strip_suffix("ms").or(word.strip_suffix('s')).unwrap_or_default();
    !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
}
