//! Findings about this machine: what listens where, and the folder of the services.

use std::fs;
use std::io;
use std::path::Path;

use estimand_client::tcp_sockets;

use super::finding::Finding;
use super::process::ServiceProcess;
use crate::credentials::{TOKEN_FILE, data_dir_or_default};
use crate::output::words;

/// A store with less room than that soon takes no more.
const LITTLE_BYTES: u64 = 1 << 30;
const HARDLY_ANY_BYTES: u64 = 100 << 20;

/// The room that is left in a folder.
pub fn disk(check: &'static str, subject: &str, folder: &Path) -> Finding {
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

/// The reason why nothing answers at a socket in the file system.
pub fn silent_socket(path: &Path) -> Finding {
    let shown = path.display();
    match rustix::fs::access(path, rustix::fs::Access::WRITE_OK) {
        Ok(()) => Finding::failure("socket", format!("nothing listens at {shown}"))
            .remedy(format!("estimand up --listen unix:{shown}")),
        Err(rustix::io::Errno::ACCESS) => {
            let found = format!("this user may not connect to {shown}");
            Finding::failure("socket", found).remedy("the service's --socket-mode, or a group that may")
        }
        Err(error) => Finding::failure("socket", format!("{shown} cannot be looked at: {error}"))
            .remedy("--server unix:/PATH, or ESTIMAND_SERVER"),
    }
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
    let place = match processes.first() {
        Some(process) => process.data_dir(),
        None => Some(data_dir_or_default(None)),
    };
    all.extend(place.iter().flat_map(|place| folder(place)));
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
