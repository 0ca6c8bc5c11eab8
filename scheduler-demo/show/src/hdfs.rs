//! A real HDFS with a DataNode for each node, and the images in it.
//!
//! What runs it is a script of the project's; here is what it says when it is up, and what the rest of the demo has to
//! know of it. Who holds what is HDFS's own decision, and its names of the nodes are the demo's.

use std::path::Path;

use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::facts::Holding;
use crate::folder::Folder;
use crate::kept::Kept;
use crate::say::Say;
use crate::{Error, nodes, stock};

const FOLDER: &str = "/images";
/// Whoever runs it may do everything there under this name.
const USER: &str = "root";

/// Starts it and fills it: the address of the images, and who is asked where they are.
pub async fn start(
    command: &Path,
    worker: &Path,
    images: usize,
    cluster: &mut Cluster,
    folder: &Folder,
    say: &Say,
) -> Result<(String, Holding), Error> {
    let data = folder.sub("hdfs").map_err(|cause| Error::file(folder.path(), cause))?;
    let command = command.canonicalize().map_err(|cause| Error::file(command, cause))?;
    say.line("starting an HDFS with a DataNode for each node");
    let args = vec![data.into_os_string(), nodes::names().count().to_string().into()];
    let mut hdfs = Kept::start("the HDFS", &command, args, None, folder.path().join("hdfs.log"))?;
    let line = hdfs.line().await;
    cluster.keep(hdfs);
    let line = line?;
    let unclear = || Error::Never { what: "the addresses of the HDFS".to_owned(), last: line.clone() };
    let said: Value = serde_json::from_str(&line).map_err(|_| unclear())?;
    let [Some(rpc), Some(http)] = ["rpc", "http"].map(|name| said[name].as_str()) else {
        return Err(unclear());
    };
    let (namenode, webhdfs) = (format!("hdfs://{rpc}"), format!("http://{http}"));
    say.line(&format!("making {images} images in it"));
    let url = format!("{namenode}{FOLDER}");
    stock::run(worker, &["make-images", "--count", &images.to_string()], url.as_ref()).await?;
    let params = json!({
        "path": FOLDER, "namenode": namenode, "webhdfs": webhdfs, "user": USER, "names": true,
    });
    Ok((url, Holding::Hdfs(params)))
}
