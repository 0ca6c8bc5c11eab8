//! The paper's own design: a Spring Boot service that reads a table of MariaDB for each request.

use std::path::{Path, PathBuf};

use estimand_testkit::databases::{Kind, Server};
use estimand_testkit::process::free_port;

use super::http::{get, post};
use super::rival::{Draw, Rival};
use crate::peer::find;

/// Built by `tests/bench/peers/prepare`.
const JAR: &str = "target/peers/paper.jar";

pub struct PaperService {
    pub rival: Rival,
    _database: Server,
}

pub fn start(folder: &Path) -> anyhow::Result<Option<PaperService>> {
    let jar = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(JAR);
    let Some(java) = find("java").filter(|_| jar.is_file()) else { return Ok(None) };
    let database = Server::start_own(Kind::Mariadb);
    let port = free_port();
    let args = arguments(&jar, port, &database.fresh_url());
    let rival = Rival::start("the paper's design", "Spring Boot over MariaDB", (&java, args), port, folder)?;
    let rival = Rival { beneath: vec![database.pid()], read: Some(read), write: Some(write), ..rival };
    Ok(Some(PaperService { rival, _database: database }))
}

/// The URL is `mysql://USER:PASSWORD@HOST:PORT/DATABASE`.
fn arguments(jar: &Path, port: u16, url: &str) -> Vec<PathBuf> {
    let rest = url.trim_start_matches("mysql://");
    let (user, place) = rest.split_once('@').unwrap_or(("root", rest));
    let (user, password) = user.split_once(':').unwrap_or((user, ""));
    [
        "-jar".to_owned(),
        jar.display().to_string(),
        format!("--server.port={port}"),
        format!("--spring.datasource.url=jdbc:mariadb://{place}"),
        format!("--spring.datasource.username={user}"),
        format!("--spring.datasource.password={password}"),
    ]
    .map(PathBuf::from)
    .into()
}

fn read(out: &mut Vec<u8>, Draw { name, node, .. }: Draw) {
    get(out, format_args!("/api/data?dataName=bench_{name:04}&dataNode=node-{node:03}"));
}

fn write(out: &mut Vec<u8>, Draw { name, node, value }: Draw) {
    let body =
        format!(r#"{{"dataName":"bench_{name:04}","nodeName":"node-{node:03}","dataValue":"0.{value:06}"}}"#);
    post(out, format_args!("/api/data"), "application/json", &body);
}
