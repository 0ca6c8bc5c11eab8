//! The processes of the services on this machine, and what they were told: by their command line, their environment and
//! their file of settings.
//!
//! Only the kernel's own files and the file of settings are read, and only as far as this user may.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use estimand_client::{TcpSocket, tcp_sockets};
use serde_json::Value;

use crate::credentials::{data_dir_or_default, default_data_dir};
use crate::yaml;

/// The commands that listen. An agent opens no port.
pub const SERVICES: [&str; 8] = [
    "up",
    "registry",
    "data",
    "manager",
    "task-service",
    "file-service",
    "reservation-service",
    "tuning-service",
];
const DEFAULT_LISTEN: &str = "127.0.0.1:7070";
/// The variable that goes before the setting `store`.
const STORE_VARIABLE: &str = "ESTIMAND_STORE";

/// A process of a service on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceProcess {
    pub pid: u32,
    pub command: Vec<String>,
    /// The numbers of its sockets in the kernel; none if this user may not look.
    pub sockets: Vec<u64>,
    /// The keys of its file of settings, or the reason why they cannot be read.
    pub settings: Result<BTreeMap<String, String>, String>,
    /// Its environment, if this user may look at it.
    pub environment: Option<BTreeMap<String, String>>,
    /// This user's own process.
    pub is_own: bool,
}

impl ServiceProcess {
    pub fn name(&self) -> &str {
        self.command.get(1).map_or("", String::as_str)
    }

    /// An option as it was typed, else as the file of settings has it.
    fn option(&self, name: &str) -> Option<&str> {
        let of_file = || self.settings.as_ref().ok()?.get(name).map(String::as_str);
        typed(&self.command, name).or_else(of_file)
    }

    fn variable(&self, name: &str) -> Option<&str> {
        let value = self.environment.as_ref()?.get(name)?;
        Some(value.as_str()).filter(|value| !value.is_empty())
    }

    /// The URL of its store, if it was told one.
    pub fn store(&self) -> Option<&str> {
        typed(&self.command, "store")
            .or_else(|| self.variable(STORE_VARIABLE))
            .or_else(|| self.option("store"))
    }

    /// Where it listens, as the kernel says, else as it was told.
    pub fn listens(&self, sockets: &[TcpSocket]) -> String {
        let own = sockets.iter().find(|socket| socket.listens && self.sockets.contains(&socket.inode));
        own.map_or_else(
            || self.option("listen").unwrap_or(DEFAULT_LISTEN).to_owned(),
            |socket| socket.local.to_string(),
        )
    }

    /// Its data folder; none if it cannot be known from here.
    pub fn data_dir(&self) -> Option<PathBuf> {
        let variable = |name| self.variable(name).map(OsString::from);
        match (self.option("data-dir"), &self.settings) {
            (Some(given), _) => Some(self.resolve(given)),
            (None, Err(_)) => None,
            (None, Ok(_)) if self.environment.is_some() => {
                Some(default_data_dir(variable("XDG_DATA_HOME"), variable("HOME")))
            }
            (None, Ok(_)) => self.is_own.then(|| data_dir_or_default(None)),
        }
    }

    /// A path as it is for that process.
    pub fn resolve(&self, path: &str) -> PathBuf {
        resolve(&Path::new("/proc").join(self.pid.to_string()), path)
    }

    pub fn open_files_limit(&self) -> Option<u64> {
        let limits = fs::read_to_string(format!("/proc/{}/limits", self.pid)).ok()?;
        let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
        line.split_ascii_whitespace().next()?.parse().ok()
    }
}

/// The value of an option that was typed as `--name VALUE` or `--name=VALUE`.
fn typed<'c>(command: &'c [String], name: &str) -> Option<&'c str> {
    let mut words = command.iter();
    while let Some(word) = words.next() {
        match word.strip_prefix("--").and_then(|word| word.strip_prefix(name)) {
            Some("") => return words.next().map(String::as_str),
            Some(rest) if rest.starts_with('=') => return Some(&rest[1..]),
            _ => {}
        }
    }
    None
}

/// A relative path is one below the folder in which the process runs, if that can be seen.
fn resolve(process: &Path, path: &str) -> PathBuf {
    fs::read_link(process.join("cwd")).unwrap_or_default().join(path)
}

/// The services that run on this machine.
pub fn services() -> Vec<ServiceProcess> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut found: Vec<ServiceProcess> = pids.filter_map(service).collect();
    found.sort_by_key(|process| process.pid);
    found
}

fn service(pid: u32) -> Option<ServiceProcess> {
    let folder = Path::new("/proc").join(pid.to_string());
    let command = texts(&fs::read(folder.join("cmdline")).ok()?);
    let program = command.first()?.rsplit('/').next()?;
    let is_service = program == "estimand" && SERVICES.contains(&command.get(1)?.as_str());
    // One in a container of this machine has ports of its own.
    let network = |of: &Path| fs::read_link(of.join("ns/net")).ok();
    let own = network(Path::new("/proc/self"));
    let its = network(&folder);
    let is_elsewhere = own.is_some() && its.is_some() && own != its;
    if !is_service || is_elsewhere {
        return None;
    }
    let settings = match typed(&command, "config") {
        Some(file) => settings(&resolve(&folder, file)),
        None => Ok(BTreeMap::new()),
    };
    let environment = fs::read(folder.join("environ")).ok().map(|environment| {
        let pair = |text: &String| text.split_once('=').map(|(name, value)| (name.into(), value.into()));
        texts(&environment).iter().filter_map(pair).collect()
    });
    let is_own = user_of(&folder).is_some_and(|user| Some(user) == user_of(Path::new("/proc/self")));
    let sockets = sockets_of(&folder).unwrap_or_default();
    Some(ServiceProcess { pid, command, sockets, settings, environment, is_own })
}

fn texts(bytes: &[u8]) -> Vec<String> {
    bytes.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

/// The files of a process may be root's, whoever runs it.
fn user_of(process: &Path) -> Option<String> {
    let status = fs::read_to_string(process.join("status")).ok()?;
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    users.split_ascii_whitespace().nth(1).map(str::to_owned)
}

/// The single values of a file of settings.
fn settings(file: &Path) -> Result<BTreeMap<String, String>, String> {
    let shown = file.display();
    let text = fs::read_to_string(file).map_err(|error| format!("{shown} cannot be read: {error}"))?;
    let documents =
        yaml::read(&text).map_err(|error| format!("{shown}:{}: {}", error.line, error.message))?;
    let Some(Value::Object(keys)) = documents.into_iter().next().map(|document| document.value) else {
        return Ok(BTreeMap::new());
    };
    let single = |(key, value): (String, Value)| match value {
        Value::String(text) => Some((key, text)),
        Value::Number(number) => Some((key, number.to_string())),
        _ => None,
    };
    Ok(keys.into_iter().filter_map(single).collect())
}

fn sockets_of(folder: &Path) -> io::Result<Vec<u64>> {
    let number = |target: PathBuf| -> Option<u64> {
        target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
    };
    let entries = fs::read_dir(folder.join("fd"))?;
    Ok(entries.flatten().filter_map(|entry| number(fs::read_link(entry.path()).ok()?)).collect())
}

/// The service that listens at a port of this machine.
pub fn listening_at(port: u16, processes: &[ServiceProcess]) -> Option<&ServiceProcess> {
    let sockets = tcp_sockets().unwrap_or_default();
    let at_port = |process: &&ServiceProcess| {
        process.listens(&sockets).rsplit(':').next().and_then(|port| port.parse().ok()) == Some(port)
    };
    processes.iter().find(at_port)
}
