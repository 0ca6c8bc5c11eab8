//! etcd over its gateway for HTTP, which is what a program without its client library speaks.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use estimand_testkit::process::free_port;

use super::http::post;
use super::rival::{Draw, Rival};
use crate::peer::find;

const JSON: &str = "application/json";

pub fn start(folder: &Path) -> anyhow::Result<Option<Rival>> {
    let Some(program) = find("etcd") else { return Ok(None) };
    let [client, peer] = [free_port(), free_port()];
    let url = |port: u16| format!("http://127.0.0.1:{port}");
    let data = folder.join("data").display().to_string();
    let args = [
        "--data-dir",
        &data,
        "--listen-client-urls",
        &url(client),
        "--advertise-client-urls",
        &url(client),
        "--listen-peer-urls",
        &url(peer),
        "--initial-advertise-peer-urls",
        &url(peer),
        "--initial-cluster",
        &format!("default={}", url(peer)),
        "--logger",
        "zap",
    ];
    let remark = "one member, its gateway for HTTP";
    let rival = Rival::start("etcd", remark, (&program, args), client, folder)?;
    Ok(Some(Rival { read: Some(read), write: Some(write), ..rival }))
}

fn key(name: u32, node: u32) -> String {
    STANDARD.encode(format!("bench_{name:04}/node-{node:03}"))
}

fn read(out: &mut Vec<u8>, Draw { name, node, .. }: Draw) {
    let key = key(name, node);
    post(out, format_args!("/v3/kv/range"), JSON, &format!(r#"{{"key":"{key}"}}"#));
}

fn write(out: &mut Vec<u8>, Draw { name, node, value }: Draw) {
    let (key, value) = (key(name, node), STANDARD.encode(format!("0.{value:06}")));
    post(out, format_args!("/v3/kv/put"), JSON, &format!(r#"{{"key":"{key}","value":"{value}"}}"#));
}
