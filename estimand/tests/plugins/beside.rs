//! A plugin run beside the agent's run of it: the same command, environment and privileges, without Estimand.
//!
//! Many plugins say something else on another machine: a program, a Perl module or a device is there or is not. This run
//! says which outcome is right here. Its output is read by the rules of the formats' own documents, in a few lines that share
//! nothing with the dialects.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use crate::outcome::Package;

/// As the agent gives it to runs.
const SEARCH_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

pub struct RunBeside {
    /// None if a signal ended it.
    exit: Option<i32>,
    stdout: String,
}

/// The outcome that such a run should have.
enum Expected {
    /// With these texts and members.
    Value(Vec<Member>),
    Failure,
    Nothing,
}

/// A pointer that the value has, and the text there, if that is known but for its digits.
struct Member(String, Option<String>);

impl RunBeside {
    /// Runs a shell's command line in a folder, as an agent of this user would.
    pub fn of(command: &str, env: &[(String, String)], folder: &Path) -> Self {
        let line = format!("exec {command}");
        let mut run = match fs::metadata("/proc/self").unwrap().uid() == 0 {
            // A run has no capabilities, also if the agent is root.
            true => {
                let mut run = Command::new("setpriv");
                run.args(["--no-new-privs", "--securebits=+noroot", "--inh-caps=-all", "sh", "-c", &line]);
                run
            }
            false => {
                let mut run = Command::new("sh");
                run.args(["-c", &line]);
                run
            }
        };
        run.env_clear()
            .env("PATH", SEARCH_PATH)
            .env("LANG", "C.UTF-8")
            .env("HOME", folder)
            .env("TMPDIR", folder);
        let output = run
            .envs(env.iter().map(|(name, value)| (name, value)))
            .current_dir(folder)
            .stdin(Stdio::null())
            .output()
            .unwrap_or_else(|error| panic!("{command}: {error}"));
        let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
        RunBeside { exit: output.status.code(), stdout }
    }

    /// Ok if the agent's run of it had the outcome that this one says.
    pub fn judge(&self, package: Package, value: Option<&Value>, error: Option<&str>) -> Result<(), String> {
        let said = format!("run beside it ended with {:?} and said {:?}", self.exit, self.stdout);
        match (self.expected(package), value, error) {
            (Expected::Nothing, None, None) => Ok(()),
            (Expected::Failure, None, Some(error)) => match self.exit {
                Some(code) if code != 0 && !error.contains(&format!("exit {code}")) => {
                    Err(format!("no `exit {code}` in {error:?}; {said}"))
                }
                _ => Ok(()),
            },
            (Expected::Value(members), Some(value), None) => {
                let wrong = members.iter().find_map(|member| member.missing_in(value));
                wrong.map_or(Ok(()), |wrong| Err(format!("{wrong}; {said}")))
            }
            (expected, ..) => Err(format!("it is not {}; {said}", expected.name())),
        }
    }

    fn expected(&self, package: Package) -> Expected {
        match package {
            Package::Nagios => self.expected_of_nagios(),
            Package::Munin | Package::Prometheus if self.exit != Some(0) => Expected::Failure,
            Package::Munin => self.expected_of_munin(),
            Package::Prometheus => self.expected_of_prometheus(),
        }
    }

    /// 0, 1 and 2 with a text are answers; 3 and everything else is none.
    fn expected_of_nagios(&self) -> Expected {
        let first = self.stdout.lines().next().unwrap_or_default();
        let text = first.split('|').next().unwrap_or_default().trim();
        match self.exit {
            Some(code @ 0..=2) if !self.stdout.trim().is_empty() => Expected::Value(vec![
                Member("/code".to_owned(), Some(code.to_string())),
                Member("/text".to_owned(), Some(text.to_owned())),
            ]),
            Some(0) => Expected::Nothing,
            _ => Expected::Failure,
        }
    }

    /// A value is a number or `U`.
    fn expected_of_munin(&self) -> Expected {
        static FIELD: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"^(\w+)\.value\s*(\S*)").unwrap());
        let (mut graph, mut members, mut bad) = (String::new(), Vec::new(), 0);
        for line in self.stdout.lines() {
            if let Some(name) = line.strip_prefix("multigraph ") {
                graph = format!("/graphs/{}", name.trim().replace('~', "~0").replace('/', "~1"));
            }
            let Some(field) = FIELD.captures(line) else { continue };
            match &field[2] {
                "U" => members.push(Member(format!("{graph}/{}/value", &field[1]), None)),
                number if number.parse::<f64>().is_ok() => {
                    members.push(Member(format!("{graph}/{}/value", &field[1]), None));
                }
                _ => bad += 1,
            }
        }
        match (members.is_empty(), bad) {
            (false, _) => Expected::Value(members),
            (true, 0) => Expected::Nothing,
            (true, _) => Expected::Failure,
        }
    }

    fn expected_of_prometheus(&self) -> Expected {
        let lines = self.stdout.lines().map(str::trim).filter(|line| !line.is_empty());
        let samples = lines.filter(|line| !line.starts_with('#'));
        let name = |line: &str| line.split(|c: char| c == '{' || c.is_whitespace()).next().map(str::to_owned);
        let names: BTreeSet<String> = samples.filter_map(name).collect();
        match names.is_empty() {
            true => Expected::Nothing,
            false => Expected::Value(names.iter().map(|name| Member(format!("/{name}"), None)).collect()),
        }
    }
}

impl Expected {
    fn name(&self) -> &'static str {
        match self {
            Expected::Value(_) => "a value",
            Expected::Failure => "a failure",
            Expected::Nothing => "nothing to say",
        }
    }
}

impl Member {
    fn missing_in(&self, value: &Value) -> Option<String> {
        let Member(pointer, text) = self;
        let Some(found) = value.pointer(pointer) else { return Some(format!("there is no {pointer}")) };
        let found = found.as_str().map_or_else(|| found.to_string(), str::to_owned);
        let text = text.as_ref()?;
        (without_digits(&found) != without_digits(text))
            .then(|| format!("{pointer} is {found:?}, not {text:?}"))
    }
}

/// Two runs, a moment apart, may count differently.
fn without_digits(text: &str) -> String {
    static NUMBER: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\d+(\.\d+)?").unwrap());
    NUMBER.replace_all(text, "#").into_owned()
}
