//! Findings about this machine: what listens where, the processes of the services, their store and disk.
//!
//! Only the kernel's own files are read, and only as far as this user may.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use estimand_client::{TcpSocket, tcp_sockets};

use super::finding::Finding;
use crate::credentials::{TOKEN_FILE, data_dir_or_default};
use crate::output::words;

/// The commands that listen. An agent opens no port.
const SERVICES: [&str; 7] =
    ["up", "registry", "data", "manager", "task-service", "reservation-service", "file-service"];
const DEFAULT_LISTEN: &str = "127.0.0.1:7070";
/// A store with less room than that soon takes no more.
const LITTLE_BYTES: u64 = 1 << 30;
const HARDLY_ANY_BYTES: u64 = 100 << 20;

/// A process of a service on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceProcess {
    pub pid: u32,
    command: Vec<String>,
    /// The numbers of its sockets in the kernel; none if this user may not look.
    sockets: Vec<u64>,
}

impl ServiceProcess {
    fn name(&self) -> &str {
        self.command.get(1).map_or("", String::as_str)
    }

    fn option(&self, name: &str) -> Option<&str> {
        let at = self.command.iter().position(|word| word == name);
        let beside = at.and_then(|at| self.command.get(at + 1)).map(String::as_str);
        let joined = self.command.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        beside.or(joined)
    }

    /// Where it listens, as the kernel says, else as it was told.
    fn listens(&self, sockets: &[TcpSocket]) -> String {
        let own = sockets.iter().find(|socket| socket.listens && self.sockets.contains(&socket.inode));
        own.map_or_else(
            || self.option("--listen").unwrap_or(DEFAULT_LISTEN).to_owned(),
            |socket| socket.local.to_string(),
        )
    }

    pub fn data_dir(&self) -> PathBuf {
        data_dir_or_default(self.option("--data-dir").map(PathBuf::from))
    }

    pub fn open_files_limit(&self) -> Option<u64> {
        let limits = fs::read_to_string(format!("/proc/{}/limits", self.pid)).ok()?;
        let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
        line.split_ascii_whitespace().next()?.parse().ok()
    }

    /// Findings about its store, as far as its command line and its folder tell.
    pub fn store(&self) -> Finding {
        let folder = self.data_dir();
        let database = folder.join("estimand.db");
        let kind = match self.option("--store").and_then(|url| url.split_once("://")) {
            Some((kind, _)) => kind.to_owned(),
            None if database.exists() => "sqlite".to_owned(),
            None => return disk("store", "its kind is not known", &folder),
        };
        disk("store", &kind, &folder)
    }
}

/// The room that is left in a folder.
fn disk(check: &'static str, subject: &str, folder: &Path) -> Finding {
    let shown = folder.display();
    let free = match rustix::fs::statvfs(folder) {
        Ok(room) => room.f_bavail.saturating_mul(room.f_frsize),
        Err(error) => {
            return Finding::not_checked(check, format!("{subject}; {shown} cannot be looked at: {error}"));
        }
    };
    let found = format!("{subject}; {} free in {shown}", words::bytes(free));
    let remedy = format!("make room on the disk of {shown}, or shorten histories");
    match () {
        () if free < HARDLY_ANY_BYTES => Finding::failure(check, found).remedy(remedy),
        () if free < LITTLE_BYTES => Finding::warning(check, found).remedy(remedy),
        () => Finding::ok(check, found),
    }
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
    let line = fs::read(folder.join("cmdline")).ok()?;
    let command: Vec<String> =
        line.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect();
    let program = command.first()?.rsplit('/').next()?;
    let is_service = program == "estimand" && SERVICES.contains(&command.get(1)?.as_str());
    // One in a container of this machine has ports of its own.
    let network = |of: &Path| fs::read_link(of.join("ns/net")).ok();
    let (own, its) = (network(Path::new("/proc/self")), network(&folder));
    let is_elsewhere = own.is_some() && its.is_some() && own != its;
    let is_service = is_service && !is_elsewhere;
    is_service.then(|| ServiceProcess { pid, command, sockets: sockets_of(&folder).unwrap_or_default() })
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

/// The reason why nothing answers at a port of this machine, as far as it can be seen.
pub fn why_silent(port: u16, processes: &[ServiceProcess]) -> Vec<Finding> {
    let sockets = tcp_sockets().unwrap_or_default();
    let listening = sockets.iter().find(|socket| socket.listens && socket.local.port() == port);
    let mut all = Vec::new();
    let elsewhere: Vec<String> = processes.iter().map(|process| process.listens(&sockets)).collect();
    all.push(match (listening, elsewhere.first()) {
        (Some(socket), _) => {
            let found = format!("{} is taken, by a process of the user {}", socket.local, socket.user);
            Finding::failure("port", found).remedy(format!("ss -ltnp 'sport = :{port}' names the process"))
        }
        (None, Some(address)) => {
            let found = format!("nothing listens at port {port}; a service listens at {address}");
            let reached = address.replace("0.0.0.0", "127.0.0.1");
            Finding::failure("port", found).remedy(format!("--server http://{reached}, or ESTIMAND_SERVER"))
        }
        (None, None) => Finding::failure("port", format!("nothing listens at port {port} of this machine")),
    });
    match processes.is_empty() {
        true => all.push(
            Finding::failure("process", "no Estimand service runs on this machine").remedy("estimand up"),
        ),
        false => all.extend(processes.iter().map(|process| {
            let found = format!(
                "`estimand {}` runs as process {} and listens at {}",
                process.name(),
                process.pid,
                process.listens(&sockets)
            );
            Finding::ok("process", found)
        })),
    }
    all.extend(folder(
        &processes.first().map_or_else(|| data_dir_or_default(None), ServiceProcess::data_dir),
    ));
    all
}

/// Findings about the data folder.
fn folder(folder: &Path) -> Vec<Finding> {
    let shown = folder.display();
    match fs::read_dir(folder) {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let found =
                format!("there is no {shown}: no service has run with it, or it had another --data-dir");
            return vec![Finding::warning("data folder", found)];
        }
        Err(error) => {
            let found = format!("{shown} cannot be read: {error}");
            return vec![
                Finding::failure("data folder", found).remedy("run this as the user of the services"),
            ];
        }
    }
    let mut all = vec![disk("data folder", "it is there", folder)];
    if let Err(error) = fs::read(folder.join(TOKEN_FILE)) {
        let found = format!("the operator's token in {shown} cannot be read: {error}");
        all.push(
            Finding::warning("token", found)
                .remedy("run this as the user of the services, or ESTIMAND_TOKEN"),
        );
    }
    all
}
