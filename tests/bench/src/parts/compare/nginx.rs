//! nginx gives the same bytes from files: the physical limit of an answer over HTTP.

use std::fs;
use std::path::Path;

use super::http::get;
use super::rival::{Draw, Rival, configure};
use crate::keys::{Keys, name_of, node_of};
use crate::peer::find;
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
    let (file, port) = configure(folder, "nginx.conf", CONFIGURATION)?;
    let args = ["-c".as_ref(), file.as_os_str(), "-e".as_ref(), "stderr".as_ref()];
    let remark = "the same bytes, from files in the page cache";
    let rival = Rival::start("nginx", remark, (&program, args), port, folder)?;
    Ok(Some(Rival { read: Some(read), ..rival }))
}

fn read(out: &mut Vec<u8>, Draw { name, node, .. }: Draw) {
    get(out, format_args!("/api/data/bench_{name:04}/node-{node:03}"));
}
