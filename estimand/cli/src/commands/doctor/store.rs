//! Findings about the store of a service on this machine: the room on the disk of a file, the answer of a server.
//!
//! A server is asked for no more than its first word, so nothing is shown to it. Whether the service may log in is said by
//! its readiness.

use std::path::Path;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

use super::finding::Finding;
use super::local::disk;
use super::process::ServiceProcess;

const CHECK: &str = "store";
/// For the connection and the first word together.
const ANSWER_WITHIN: Duration = Duration::from_secs(3);
/// A client's question to PostgreSQL whether it speaks TLS.
const SPEAKS_TLS: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];
const AS_ROOT: &str = "run this as root, or as the user of the services";

pub async fn of_process(process: &ServiceProcess) -> Finding {
    if let Err(reason) = &process.settings {
        return Finding::not_checked(CHECK, reason).remedy(AS_ROOT);
    }
    let folder = process.data_dir();
    match (process.store(), folder) {
        (Some(url), folder) => match url.split_once("://") {
            Some(("sqlite", path)) => file(&process.resolve(path)),
            Some((kind, rest)) => of_server(kind, rest, folder.as_deref()).await,
            None => Finding::not_checked(CHECK, "the setting `store` is no URL"),
        },
        (None, Some(folder)) => match folder.join("estimand.db").try_exists() {
            Ok(true) => disk(CHECK, "sqlite", &folder),
            Ok(false) if process.environment.is_none() => {
                let found =
                    format!("{} has no database, and ESTIMAND_STORE cannot be seen", folder.display());
                Finding::not_checked(CHECK, found).remedy(AS_ROOT)
            }
            Ok(false) => {
                let found = format!("there is no database in {}", folder.display());
                Finding::failure(CHECK, found).remedy("the log of that service says more")
            }
            Err(error) => {
                let found = format!("{} cannot be looked at: {error}", folder.display());
                Finding::not_checked(CHECK, found).remedy(AS_ROOT)
            }
        },
        (None, None) => {
            let found = format!("the data folder of process {} cannot be seen", process.pid);
            Finding::not_checked(CHECK, found).remedy(AS_ROOT)
        }
    }
}

/// A file is on the disk of its folder.
fn file(path: &Path) -> Finding {
    disk(CHECK, "sqlite", path.parent().unwrap_or(path))
}

/// The first of the servers in a URL that answers.
async fn of_server(kind: &str, rest: &str, folder: Option<&Path>) -> Finding {
    let (kind, port) = match kind {
        "postgres" | "postgresql" => ("postgres", 5432),
        _ => ("mysql", 3306),
    };
    let authority = rest.split(['/', '?']).next().unwrap_or_default();
    let hosts = authority.rsplit('@').next().unwrap_or_default();
    let mut reasons = Vec::new();
    for host in hosts.split(',') {
        let at = host_and_port(host, port);
        let shown = format!("{kind} at {}:{}", at.0, at.1);
        match timeout(ANSWER_WITHIN, first_word(kind, at)).await {
            Ok(Ok(())) => {
                let found = format!("{shown} answers");
                return match folder {
                    Some(folder) => disk(CHECK, &found, folder),
                    None => Finding::ok(CHECK, found),
                };
            }
            Ok(Err(error)) => reasons.push(format!("{shown} does not answer: {error}")),
            Err(_) => reasons.push(format!("{shown} does not answer within {} s", ANSWER_WITHIN.as_secs())),
        }
    }
    Finding::failure(CHECK, reasons.join("\n")).remedy(
        "start the database, or correct the service's `store`: --store, ESTIMAND_STORE or its settings",
    )
}

/// A host without a port has the usual one; an address of IPv6 stands in brackets.
fn host_and_port(host: &str, usual: u16) -> (&str, u16) {
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => (name, port.parse().unwrap_or(usual)),
        _ => (host, usual),
    };
    (name.trim_matches(['[', ']']), port)
}

async fn first_word(kind: &str, (host, port): (&str, u16)) -> std::io::Result<()> {
    // PostgreSQL's own way to write a socket's folder.
    let folder = host.replace("%2F", "/").replace("%2f", "/");
    if folder.starts_with('/') {
        return hear(kind, UnixStream::connect(format!("{folder}/.s.PGSQL.{port}")).await?).await;
    }
    hear(kind, TcpStream::connect((host, port)).await?).await
}

/// MariaDB speaks first; PostgreSQL answers a question.
async fn hear(kind: &str, mut stream: impl AsyncRead + AsyncWrite + Unpin) -> std::io::Result<()> {
    if kind == "postgres" {
        stream.write_all(&SPEAKS_TLS).await?;
    }
    stream.read_u8().await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_the_usual_port_unless_it_names_one() {
        for (host, expected) in [
            ("db", ("db", 5432)),
            ("db:6000", ("db", 6000)),
            ("[::1]", ("::1", 5432)),
            ("[::1]:6000", ("::1", 6000)),
            ("%2Frun", ("%2Frun", 5432)),
        ] {
            assert_eq!(host_and_port(host, 5432), expected, "{host}");
        }
    }
}
