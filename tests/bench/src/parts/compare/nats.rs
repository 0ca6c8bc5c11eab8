//! NATS with a bucket of keys and values in JetStream, over its own protocol.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;

use anyhow::ensure;

use super::rival::{Draw, Rival, configure};
use crate::nats::{INBOX, greet};
use crate::peer::find;
use crate::reply::Wire;

const CONFIGURATION: &str = include_str!("../../../peers/nats.conf");
/// As NATS' own clients make a bucket.
const BUCKET: &str = r#"{"name":"KV_bench","subjects":["$KV.bench.>"],"storage":"file","max_msgs_per_subject":1,"discard":"new","allow_direct":true,"allow_rollup_hdrs":true,"deny_delete":true}"#;

pub fn start(folder: &Path) -> anyhow::Result<Option<Rival>> {
    let Some(program) = find("nats-server") else { return Ok(None) };
    let (file, port) = configure(folder, "nats.conf", CONFIGURATION)?;
    let remark = "a bucket of JetStream in files, synced every two minutes; reads by direct get";
    let args = ["-c".as_ref(), file.as_os_str()];
    let rival = Rival::start("nats", remark, (&program, args), port, folder)?;
    make_bucket(rival.address)?;
    Ok(Some(Rival { wire: Wire::Nats, read: Some(read), write: Some(write), ..rival }))
}

fn make_bucket(address: SocketAddr) -> anyhow::Result<()> {
    let mut stream = TcpStream::connect(address)?;
    greet([&mut stream])?;
    let mut request = Vec::new();
    publish(&mut request, "$JS.API.STREAM.CREATE.KV_bench", BUCKET);
    stream.write_all(&request)?;
    let mut answer = vec![0; 4096];
    let count = stream.read(&mut answer)?;
    let answer = String::from_utf8_lossy(&answer[..count]);
    ensure!(answer.contains(r#""did_create":true"#), "the bucket was not made: {answer}");
    Ok(())
}

fn publish(out: &mut Vec<u8>, subject: &str, text: &str) {
    let length = text.len();
    // Writing to a vector does not fail.
    let _ = write!(out, "PUB {subject} {INBOX} {length}\r\n{text}\r\n");
}

fn read(out: &mut Vec<u8>, Draw { name, node, .. }: Draw) {
    publish(out, &format!("$JS.API.DIRECT.GET.KV_bench.$KV.bench.bench_{name:04}.node-{node:03}"), "");
}

fn write(out: &mut Vec<u8>, draw: Draw) {
    let Draw { name, node, .. } = draw;
    publish(out, &format!("$KV.bench.bench_{name:04}.node-{node:03}"), &draw.document());
}
