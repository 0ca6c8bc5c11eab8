//! The settings of a service or agent in a file: `--config FILE`.
//!
//! Each key is an option of the command without its dashes, and becomes that option. So the file is checked by the
//! command line's own rules, and no option can be forgotten here. What stands on the command line goes before the
//! environment, and that before the file. On SIGHUP the file is read again: what can change while the process runs takes
//! effect, and what needs a restart is named.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::iter;
use std::path::{Path, PathBuf};

use clap::builder::ValueRange;
use clap::{Arg, ArgAction, Command};
use estimand_api::fields::nearest;
use estimand_api::json::kind_of;
use estimand_cli::yaml;
use serde_json::Value;
use tokio::signal::unix::{SignalKind, signal};

use crate::cli::{Cli, groups};
use crate::services::SERVICES;
use crate::telemetry;

#[cfg(test)]
mod page;

const OPTION: &str = "config";
/// Options that say nothing about how a service runs.
const NOT_KEYS: [&str; 3] = [OPTION, "help", "version"];
/// The keys that take effect without a restart.
const LIVE: [&str; 1] = ["log"];

/// Why a file gives no settings.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    #[error("cannot read {}: {source}", file.display())]
    Read { file: PathBuf, source: std::io::Error },
    /// Each with its line.
    #[error("{}", .0.join("\n       "))]
    Wrong(Vec<String>),
    /// The command line's own message.
    #[error("{} is not right: {message}", file.display())]
    Refused { file: PathBuf, message: String },
}

/// A command line, completed by its file of settings.
#[derive(Debug)]
pub struct Settings {
    /// None: there is none.
    pub file: Option<PathBuf>,
    /// As it was typed.
    typed: Vec<OsString>,
    /// Where its command stands.
    command: usize,
    /// The options that the file gives, by key.
    keys: BTreeMap<String, Vec<OsString>>,
}

/// The difference that a file makes that was read again.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct SettingsChange {
    /// The filter of the log, if it has changed; none in it: it is the default again.
    pub log: Option<Option<String>>,
    /// The keys that have changed and wait for a restart.
    pub waiting: Vec<String>,
}

impl Settings {
    /// Reads the file that a command line names.
    pub fn of(typed: Vec<OsString>) -> Result<Self, SettingsError> {
        let position = typed.iter().skip(1).position(|word| commands().any(|name| word == name));
        let command = position.map_or(typed.len(), |position| position + 1);
        let file = option_value(typed.get(command..).unwrap_or_default(), OPTION);
        let mut settings = Settings { file, typed, command, keys: BTreeMap::new() };
        settings.keys = settings.read()?;
        Ok(settings)
    }

    /// The whole command line: the file's options stand behind those that were typed.
    pub fn words(&self) -> Vec<OsString> {
        self.typed.iter().chain(self.keys.values().flatten()).cloned().collect()
    }

    /// Reads the file again. If it is wrong, everything stays as it is.
    pub fn reload(&mut self) -> Result<SettingsChange, SettingsError> {
        let Some(file) = self.file.clone() else { return Ok(SettingsChange::default()) };
        let read = self.read()?;
        let before = std::mem::replace(&mut self.keys, read);
        if let Err(error) = groups::parse(self.words()) {
            self.keys = before;
            let message = error.to_string();
            let message = message.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned();
            return Err(SettingsError::Refused { file, message });
        }
        let names = before.keys().chain(self.keys.keys().filter(|key| !before.contains_key(*key)));
        let changed: Vec<&String> = names.filter(|key| before.get(*key) != self.keys.get(*key)).collect();
        let log = changed.iter().any(|key| *key == "log").then(|| self.value_of("log"));
        let waiting = changed.into_iter().filter(|key| !LIVE.contains(&key.as_str())).cloned().collect();
        let reloaded = SettingsChange { log, waiting };
        // A setting that waits for a restart goes on waiting: it is named again by the next signal.
        for key in &reloaded.waiting {
            match before.get(key) {
                Some(old) => drop(self.keys.insert(key.clone(), old.clone())),
                None => drop(self.keys.remove(key)),
            }
        }
        Ok(reloaded)
    }

    /// Parses the whole command line; what is wrong ends the process as wrong usage does.
    pub fn parse(&self) -> Cli {
        groups::parse(self.words()).unwrap_or_else(|error| match &self.file {
            Some(file) if error.use_stderr() => {
                eprint!("{error}");
                eprintln!("hint: {} gives some of these options", file.display());
                std::process::exit(error.exit_code());
            }
            _ => error.exit(),
        })
    }

    /// Reads the file again at each SIGHUP, for ever; without a file that signal means what it always does. Ends only if
    /// the signal cannot be listened to.
    pub async fn follow(&mut self) -> anyhow::Result<()> {
        let Some(file) = self.file.clone() else { return std::future::pending().await };
        let mut hangup = signal(SignalKind::hangup())?;
        loop {
            hangup.recv().await;
            match self.reload() {
                Ok(reloaded) => follow_up(&file, reloaded),
                Err(error) => tracing::error!(%error, "the settings stay as they are"),
            }
        }
    }

    fn value_of(&self, key: &str) -> Option<String> {
        let word = self.keys.get(key)?.first()?.to_str()?;
        Some(word.split_once('=')?.1.to_owned())
    }

    fn read(&self) -> Result<BTreeMap<String, Vec<OsString>>, SettingsError> {
        let (Some(file), Some(name)) = (&self.file, self.typed.get(self.command)) else {
            return Ok(BTreeMap::new());
        };
        let text = std::fs::read_to_string(file)
            .map_err(|source| SettingsError::Read { file: file.clone(), source })?;
        let mut cli = groups::command();
        cli.build();
        let Some(command) = cli.find_subcommand(name) else { return Ok(BTreeMap::new()) };
        let typed = &self.typed[self.command..];
        options(&text, file, command, typed).map_err(SettingsError::Wrong)
    }
}

/// The commands that take their settings from a file.
fn commands() -> impl Iterator<Item = &'static str> {
    let services = SERVICES.into_iter().map(|kind| kind.command);
    iter::once("up").chain(services).chain(iter::once("agent"))
}

/// Lets take effect what can, and names the rest.
fn follow_up(file: &Path, SettingsChange { log, waiting }: SettingsChange) {
    if let Some(filter) = &log
        && let Err(error) = telemetry::set_filter(filter.as_deref())
    {
        tracing::error!(%error, "the log stays as it is");
    }
    let (file, waiting) = (file.display(), waiting.join(", "));
    match waiting.is_empty() {
        true => tracing::info!(%file, "the settings are read again"),
        false => {
            tracing::warn!(%file, waiting, "the settings are read again; what waits takes effect with a restart");
        }
    }
}

/// The options that the text of a file gives, by key, without those that the command line or the environment gives.
fn options(
    text: &str,
    file: &Path,
    command: &Command,
    typed: &[OsString],
) -> Result<BTreeMap<String, Vec<OsString>>, Vec<String>> {
    let at = |line: usize, message: &str| format!("{}:{line}: {message}", file.display());
    let documents = yaml::read(text).map_err(|error| vec![at(error.line, &error.message)])?;
    let document = match documents.as_slice() {
        [] => return Ok(BTreeMap::new()),
        [one] => one,
        [_, second, ..] => return Err(vec![at(second.line, "settings are one document")]),
    };
    let Value::Object(map) = &document.value else {
        let message =
            format!("is {}; expected keys such as `listen: 127.0.0.1:7070`", kind_of(&document.value));
        return Err(vec![at(document.line, &message)]);
    };
    let (mut keys, mut errors) = (BTreeMap::new(), Vec::new());
    for (key, value) in map {
        let line = document.line_of(key);
        let Some(arg) = find(command, key) else {
            errors.push(at(line, &unknown(command, key)));
            continue;
        };
        match words(key, arg, value) {
            Err(message) => errors.push(at(line, &format!("{key}: {message}"))),
            Ok(_) if is_given(command, arg, typed) => {}
            Ok(words) => drop(keys.insert(key.clone(), words)),
        }
    }
    if errors.is_empty() { Ok(keys) } else { Err(errors) }
}

fn find<'c>(command: &'c Command, key: &str) -> Option<&'c Arg> {
    keys(command).into_iter().find(|arg| arg.get_long() == Some(key))
}

fn keys(command: &Command) -> Vec<&Arg> {
    let is_key = |arg: &&Arg| arg.get_long().is_some_and(|long| !NOT_KEYS.contains(&long));
    command.get_arguments().filter(is_key).collect()
}

fn unknown(command: &Command, key: &str) -> String {
    let keys = keys(command);
    let names = keys.iter().filter_map(|arg| arg.get_long());
    let expected = match nearest(key, names.clone()) {
        Some(near) => format!("`{near}`?"),
        None => format!("one of {}", names.collect::<Vec<_>>().join(", ")),
    };
    format!("`{key}` is not a setting of `estimand {}`; expected {expected}", command.get_name())
}

/// True if the command line or the environment gives it, or the command line gives what excludes it.
fn is_given(command: &Command, arg: &Arg, typed: &[OsString]) -> bool {
    let typed_long = |arg: &Arg| arg.get_long().is_some_and(|long| is_typed(typed, long));
    let in_environment = arg.get_env().and_then(std::env::var_os).is_some_and(|value| !value.is_empty());
    in_environment
        || typed_long(arg)
        || command.get_arg_conflicts_with(arg).into_iter().any(typed_long)
        || keys(command).into_iter().any(|other| {
            typed_long(other)
                && command.get_arg_conflicts_with(other).iter().any(|one| one.get_id() == arg.get_id())
        })
}

/// The options that a value stands for.
fn words(key: &str, arg: &Arg, value: &Value) -> Result<Vec<OsString>, String> {
    let option = |text: String| OsString::from(format!("--{key}={text}"));
    let takes_value = arg.get_num_args().is_none_or(|range: ValueRange| range.takes_values());
    match (arg.get_action(), value) {
        (ArgAction::SetTrue, Value::Bool(true)) => Ok(vec![OsString::from(format!("--{key}"))]),
        (ArgAction::SetTrue, Value::Bool(false)) => Ok(Vec::new()),
        (ArgAction::SetTrue, other) => Err(format!("is {}; expected true or false", kind_of(other))),
        (ArgAction::Append, Value::Array(items)) => {
            items.iter().map(|item| scalar(item).map(option)).collect()
        }
        (ArgAction::Append, Value::Object(pairs)) => {
            let pair = |(name, value): (&String, &Value)| {
                let value = if value.is_null() { String::new() } else { scalar(value)? };
                Ok(option(format!("{name}={value}")))
            };
            pairs.iter().map(pair).collect()
        }
        (_, one) if takes_value => scalar(one).map(|text| vec![option(text)]),
        (_, other) => Err(format!("is {}, which it cannot be", kind_of(other))),
    }
}

fn scalar(value: &Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Number(number) => Ok(number.to_string()),
        other => Err(format!("is {}; expected a text or a number", kind_of(other))),
    }
}

fn is_typed(typed: &[OsString], long: &str) -> bool {
    typed.iter().any(|word| {
        let rest = word.to_str().and_then(|word| word.strip_prefix("--")?.strip_prefix(long));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
    })
}

/// The value of an option that was typed as `--name VALUE` or `--name=VALUE`.
fn option_value(typed: &[OsString], name: &str) -> Option<PathBuf> {
    let mut words = typed.iter();
    while let Some(word) = words.next() {
        let rest = word.to_str().and_then(|word| word.strip_prefix("--")?.strip_prefix(name));
        match rest {
            Some("") => return words.next().map(PathBuf::from),
            Some(rest) if rest.starts_with('=') => return Some(PathBuf::from(&rest[1..])),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn settings(line: &str, text: &str) -> Result<(tempfile::TempDir, Settings), SettingsError> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("settings.yaml");
        std::fs::write(&file, text).unwrap();
        let line = line.replace("FILE", &file.display().to_string());
        let words = line.split(' ').map(OsString::from).collect();
        Settings::of(words).map(|settings| (folder, settings))
    }

    #[track_caller]
    fn check(line: &str, text: &str, expected: &[&str]) {
        let (_folder, settings) = settings(line, text).unwrap();
        let added: Vec<OsString> = settings.words().split_off(settings.typed.len());
        assert_eq!(added, expected);
        groups::parse(settings.words()).unwrap();
    }

    #[test]
    fn every_key_is_an_option_and_the_command_line_goes_first() {
        let text = "listen: 127.0.0.1:0\ninsecure: true\nlabel: {zone: a, gpu: }\nallow: [/bin, /opt/x]\nmax-runs: 7\n";
        check(
            "estimand up --config FILE",
            text,
            &[
                "--allow=/bin",
                "--allow=/opt/x",
                "--insecure",
                "--label=zone=a",
                "--label=gpu=",
                "--listen=127.0.0.1:0",
                "--max-runs=7",
            ],
        );
        check(
            "estimand up --config=FILE --listen 127.0.0.1:1 --max-runs=9 --allow /sbin",
            text,
            &["--insecure", "--label=zone=a", "--label=gpu="],
        );
        // A setting that excludes an option goes before it, too.
        check("estimand agent --config FILE --allow-all", "allow: [/bin]\nnode: n1\n", &["--node=n1"]);
        check("estimand up --config FILE", "insecure: false\n", &[]);
        check(
            "estimand manager --config FILE",
            "registry: http://r\ndata-service: http://d\n",
            &["--data-service=http://d", "--registry=http://r"],
        );
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        let wrong = |line: &str, text: &str| settings(line, text).unwrap_err().to_string();
        let text =
            wrong("estimand up --config FILE", "listen: 127.0.0.1:0\nlissen: x\ninsecure: 5\nserver: x\n");
        assert!(
            text.contains(":2: `lissen` is not a setting of `estimand up`; expected `listen`?"),
            "{text}"
        );
        assert!(text.contains(":3: insecure: is a number; expected true or false"), "{text}");
        assert!(text.contains(":4: `server` is not a setting"), "{text}");
        assert!(
            wrong("estimand up --config FILE", "listen: a\nlisten: b\n")
                .contains(":2: has the key `listen` twice")
        );
        assert!(wrong("estimand up --config FILE", "- listen\n").contains(":1: is an array"));
        assert!(wrong("estimand up --config /no/such", "").contains("cannot read /no/such"));
        // Another command has no settings.
        assert!(settings("estimand list --config FILE", "x: y").unwrap().1.file.is_none());
    }

    #[test]
    fn a_file_that_is_read_again_says_what_waits_for_a_restart() {
        let (_folder, mut settings) =
            settings("estimand data --config FILE", "listen: 127.0.0.1:0\nlog: info\n").unwrap();
        let file = settings.file.clone().unwrap();
        assert_eq!(settings.reload().unwrap(), SettingsChange::default());
        std::fs::write(&file, "listen: 127.0.0.1:1\nlog: debug\nworkers: 2\n").unwrap();
        let expected = SettingsChange {
            log: Some(Some("debug".to_owned())),
            waiting: vec!["listen".to_owned(), "workers".to_owned()],
        };
        assert_eq!(settings.reload().unwrap(), expected);
        assert_eq!(settings.reload().unwrap(), SettingsChange { log: None, waiting: expected.waiting });
        std::fs::write(&file, "listen: nonsense\n").unwrap();
        assert!(settings.reload().unwrap_err().to_string().contains("nonsense"));
        std::fs::write(&file, "listen: 127.0.0.1:0\n").unwrap();
        assert_eq!(settings.reload().unwrap(), SettingsChange { log: Some(None), waiting: vec![] });
    }
}
