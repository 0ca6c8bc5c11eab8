//! Redis, which syncs each write before it answers, as Estimand does.

use std::io::Write as _;
use std::path::Path;

use super::rival::{Draw, Rival, configure};
use crate::peer::find;
use crate::reply::Wire;

const CONFIGURATION: &str = include_str!("../../../peers/redis.conf");

pub fn start(folder: &Path) -> anyhow::Result<Option<Rival>> {
    let Some(program) = find("redis-server") else { return Ok(None) };
    let (file, port) = configure(folder, "redis.conf", CONFIGURATION)?;
    let remark = "GET; SET with appendfsync always";
    let rival = Rival::start("redis", remark, (&program, [file]), port, folder)?;
    Ok(Some(Rival { wire: Wire::Redis, read: Some(read), write: Some(write), ..rival }))
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
