//! Redis, which syncs each write before it answers, as Estimand does.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use estimand_testkit::process::free_port;

use super::rival::{Draw, Rival};
use crate::peer::{Peer, find};
use crate::reply::Wire;

const CONFIGURATION: &str = include_str!("../../../peers/redis.conf");

pub fn start(folder: &Path) -> anyhow::Result<Option<Rival>> {
    let Some(program) = find("redis-server") else { return Ok(None) };
    fs::create_dir_all(folder)?;
    let port = free_port();
    let file = folder.join("redis.conf");
    let configuration =
        CONFIGURATION.replace("@FOLDER@", &folder.display().to_string()).replace("@PORT@", &port.to_string());
    fs::write(&file, configuration)?;
    let address = ([127, 0, 0, 1], port).into();
    let mut peer = Peer::start(&program, [&file], folder)?;
    peer.until_it_listens(address)?;
    let (peers, wire) = (vec![peer], Wire::Redis);
    let remark = "GET; SET with appendfsync always";
    Ok(Some(Rival {
        name: "redis",
        remark,
        wire,
        address,
        peers,
        beneath: Vec::new(),
        read: Some(read),
        write: Some(write),
    }))
}

fn read(out: &mut Vec<u8>, Draw { name, node, .. }: Draw) {
    let _ = write!(out, "*2\r\n$3\r\nGET\r\n$19\r\nbench_{name:04}/node-{node:03}\r\n");
}

fn write(out: &mut Vec<u8>, draw: Draw) {
    let Draw { name, node, .. } = draw;
    let text = draw.document();
    let length = text.len();
    let _ =
        write!(out, "*3\r\n$3\r\nSET\r\n$19\r\nbench_{name:04}/node-{node:03}\r\n${length}\r\n{text}\r\n");
}
