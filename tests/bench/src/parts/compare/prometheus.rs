//! Prometheus, its push gateway and VictoriaMetrics, which keep series of samples.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use estimand_testkit::http::Http;
use estimand_testkit::process::free_port;

use super::http::{get, post};
use super::rival::{Draw, Rival};
use crate::keys::{Keys, name_of, node_of};
use crate::peer::find;
use crate::served::{Bare, address_of};

const CONFIGURATION: &str = include_str!("../../../peers/prometheus.yml");
const TEXT: &str = "text/plain";

/// Asked for the last sample of a series; it has scraped all of them from a page.
pub fn prometheus(folder: &Path, keys: Keys) -> anyhow::Result<Option<Rival>> {
    let Some(program) = find("prometheus") else { return Ok(None) };
    fs::create_dir_all(folder)?;
    let page = Bare::start(page_of(keys).as_bytes(), false)?;
    let file = folder.join("prometheus.yml");
    fs::write(&file, CONFIGURATION.replace("@TARGET@", &address_of(&page.process)?.to_string()))?;
    let port = free_port();
    let args = [
        format!("--config.file={}", file.display()),
        format!("--storage.tsdb.path={}", folder.join("data").display()),
        format!("--web.listen-address=127.0.0.1:{port}"),
    ];
    let mut rival = Rival::start("prometheus", "an instant query", (&program, args), port, folder)?;
    let last = format!("/api/v1/query?query={}", series(keys.names - 1, keys.nodes - 1));
    let http = Http::new(&format!("http://{}", rival.address));
    rival.peers[0].until("it has scraped the page", || {
        http.try_request("GET", &last, &[], b"").is_ok_and(|answer| answer.text().contains("0.123456"))
    })?;
    Ok(Some(Rival { read: Some(query), ..rival }))
}

/// Stores nothing on a disk, so its writes are not durable.
pub fn push_gateway(folder: &Path) -> anyhow::Result<Option<Rival>> {
    let Some(program) = find("prometheus-pushgateway") else { return Ok(None) };
    let port = free_port();
    let args = [format!("--web.listen-address=127.0.0.1:{port}")];
    let rival = Rival::start("pushgateway", "not durable", (&program, args), port, folder)?;
    Ok(Some(Rival { write: Some(push), ..rival }))
}

/// Flushes to the disk every few seconds, so an answered write may be lost.
pub fn victoria_metrics(folder: &Path) -> anyhow::Result<Option<Rival>> {
    let Some(program) = find("victoria-metrics") else { return Ok(None) };
    let port = free_port();
    let args = [
        format!("-storageDataPath={}", folder.join("data").display()),
        format!("-httpListenAddr=127.0.0.1:{port}"),
        "-search.latencyOffset=0s".to_owned(),
    ];
    let remark = "flushed every few seconds";
    let rival = Rival::start("victoria-metrics", remark, (&program, args), port, folder)?;
    Ok(Some(Rival { write: Some(import), ..rival }))
}

fn page_of(keys: Keys) -> String {
    let mut page = String::new();
    for name in (0..keys.names).map(name_of) {
        for node in (0..keys.nodes).map(node_of) {
            let _ = writeln!(page, "{name}{{node=\"{node}\"}} 0.123456");
        }
    }
    page
}

fn series(name: u32, node: u32) -> String {
    format!("bench_{name:04}%7Bnode%3D%22node-{node:03}%22%7D")
}

fn query(out: &mut Vec<u8>, Draw { name, node, .. }: Draw) {
    get(out, format_args!("/api/v1/query?query={}", series(name, node)));
}

fn push(out: &mut Vec<u8>, Draw { name, node, value }: Draw) {
    let body = format!("bench_{name:04} 0.{value:06}\n");
    post(out, format_args!("/metrics/job/bench_{name:04}/instance/node-{node:03}"), TEXT, &body);
}

fn import(out: &mut Vec<u8>, Draw { name, node, value }: Draw) {
    let body = format!("bench_{name:04}{{node=\"node-{node:03}\"}} 0.{value:06}\n");
    post(out, format_args!("/api/v1/import/prometheus"), TEXT, &body);
}
