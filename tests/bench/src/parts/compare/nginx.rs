//! nginx gives the same bytes from files: the physical limit of an answer over HTTP.

use std::fs;
use std::path::Path;

use estimand_testkit::process::free_port;

use super::http::get;
use super::rival::{Draw, Rival};
use crate::keys::{Keys, name_of, node_of};
use crate::peer::{Peer, find};
use crate::reply::Wire;
use crate::served::BindingTarget;

const CONFIGURATION: &str = include_str!("../../../peers/nginx.conf");

/// Its files are the bodies that the service answers with.
pub fn start(folder: &Path, keys: Keys, ours: &BindingTarget) -> anyhow::Result<Option<Rival>> {
    let Some(program) = find("nginx") else { return Ok(None) };
    for name in (0..keys.names).map(name_of) {
        let files = folder.join("root/api/data").join(&name);
        fs::create_dir_all(&files)?;
        for node in (0..keys.nodes).map(node_of) {
            fs::write(files.join(&node), ours.get(&format!("/api/data/{name}/{node}")))?;
        }
    }
    let port = free_port();
    let configuration =
        CONFIGURATION.replace("@FOLDER@", &folder.display().to_string()).replace("@PORT@", &port.to_string());
    let file = folder.join("nginx.conf");
    fs::write(&file, configuration)?;
    let address = ([127, 0, 0, 1], port).into();
    let args = ["-c".as_ref(), file.as_os_str(), "-e".as_ref(), "stderr".as_ref()];
    let mut peer = Peer::start(&program, args, folder)?;
    peer.until_it_listens(address)?;
    let (peers, wire) = (vec![peer], Wire::Http);
    let remark = "the same bytes, from files in the page cache";
    Ok(Some(Rival {
        name: "nginx",
        remark,
        wire,
        address,
        peers,
        beneath: Vec::new(),
        read: Some(read),
        write: None,
    }))
}

fn read(out: &mut Vec<u8>, Draw { name, node, .. }: Draw) {
    get(out, format_args!("/api/data/bench_{name:04}/node-{node:03}"));
}
