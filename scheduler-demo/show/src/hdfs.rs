//! A real HDFS with a DataNode for each node, and the images in it.
//!
//! A script of the project runs it; this module reads its addresses and has the images made. HDFS itself decides which
//! node holds which image; its DataNodes have the names of the demo's nodes.

use std::path::Path;

use serde_json::{Value, json};

use crate::child::ChildProcess;
use crate::cluster::Cluster;
use crate::folder::Folder;
use crate::output::Output;
use crate::plane::Distribution;
use crate::{Error, cache, nodes};

const FOLDER: &str = "/images";
/// This user may do everything in that HDFS.
const USER: &str = "root";

/// Starts it and fills it. Returns the URL of the images, and their distribution.
pub async fn start(
    command: &Path,
    worker: &Path,
    images: usize,
    cluster: &mut Cluster,
    folder: &Folder,
    output: &Output,
) -> Result<(String, Distribution), Error> {
    let data = folder.sub("hdfs").map_err(|cause| Error::file(folder.path(), cause))?;
    let command = command.canonicalize().map_err(|cause| Error::file(command, cause))?;
    output.line("starting an HDFS with a DataNode for each node");
    let args = vec![data.into_os_string(), nodes::names().count().to_string().into()];
    let mut hdfs = ChildProcess::start("the HDFS", &command, args, None, folder.path().join("hdfs.log"))?;
    let line = hdfs.line().await;
    cluster.keep(hdfs);
    let line = line?;
    let unclear = || Error::TimedOut { what: "the addresses of the HDFS".to_owned(), last: line.clone() };
    let said: Value = serde_json::from_str(&line).map_err(|_| unclear())?;
    let [Some(rpc), Some(http)] = ["rpc", "http"].map(|name| said[name].as_str()) else {
        return Err(unclear());
    };
    let (namenode, webhdfs) = (format!("hdfs://{rpc}"), format!("http://{http}"));
    output.line(&format!("making {images} images in it"));
    let url = format!("{namenode}{FOLDER}");
    cache::run(worker, &["make-images", "--count", &images.to_string()], url.as_ref()).await?;
    let params = json!({
        "path": FOLDER, "namenode": namenode, "webhdfs": webhdfs, "user": USER, "names": true,
    });
    Ok((url, Distribution::Hdfs(params)))
}
