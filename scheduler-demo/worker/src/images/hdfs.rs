//! Images in an HDFS, read by its own protocol.
//!
//! The library goes to another replica by itself when a DataNode fails. What fails still is tried again a few times:
//! an image must not go without a label because the cluster was changing over. Who reads and how NameNodes are found is
//! said as for any client of HDFS, by `HADOOP_USER_NAME` and `HADOOP_CONF_DIR`, which a registration may set.

use std::time::Duration;

use hdfs_native::{Client, ClientBuilder, HdfsError};
use tokio::runtime::{self, Runtime};

use super::{HDFS_SCHEME, MAX_IMAGE_BYTES, Unreadable};

const ATTEMPTS: usize = 4;
/// Before the second attempt; then twice that, and so on.
const PAUSE: Duration = Duration::from_millis(500);
/// For one attempt.
const DEADLINE: Duration = Duration::from_secs(30);

pub struct Hdfs {
    client: Client,
    /// The folder of the images, without a slash at its end.
    folder: String,
    runtime: Runtime,
}

impl Hdfs {
    /// Connects when the first image is read.
    pub fn at(url: &str) -> Result<Self, String> {
        let wrong = || "expected hdfs://namenode:port/folder".to_owned();
        let (authority, folder) =
            url.strip_prefix(HDFS_SCHEME).and_then(|rest| rest.split_once('/')).ok_or_else(wrong)?;
        if authority.is_empty() {
            return Err(wrong());
        }
        // One thread of its own: this one is busy between two images, and connections want to be looked after.
        let runtime = runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.map_err(|error| error.to_string())?;
        let builder = ClientBuilder::new().with_url(format!("{HDFS_SCHEME}{authority}"));
        let client = builder.with_io_runtime(runtime.handle().clone()).build();
        let client = client.map_err(|error| error.to_string())?;
        let folder = format!("/{}", folder.trim_matches('/'));
        Ok(Hdfs { client, folder: folder.trim_end_matches('/').to_owned(), runtime })
    }

    pub fn read(&self, name: &str) -> Result<Vec<u8>, Unreadable> {
        let path = format!("{}/{name}", self.folder);
        self.runtime.block_on(async {
            let (mut attempt, mut pause) = (1, PAUSE);
            loop {
                let failed = match tokio::time::timeout(DEADLINE, self.read_once(&path)).await {
                    Ok(Ok(bytes)) => return bytes,
                    Ok(Err(error)) if is_final(&error) => return Err(unreadable(&error)),
                    Ok(Err(error)) => unreadable(&error),
                    Err(_) => Unreadable::Read(format!("no answer within {} s", DEADLINE.as_secs())),
                };
                if attempt == ATTEMPTS {
                    return Err(failed);
                }
                tokio::time::sleep(pause).await;
                (attempt, pause) = (attempt + 1, pause * 2);
            }
        })
    }

    async fn read_once(&self, path: &str) -> Result<Result<Vec<u8>, Unreadable>, HdfsError> {
        let mut file = self.client.read(path).await?;
        if file.file_length() as u64 > MAX_IMAGE_BYTES {
            return Ok(Err(Unreadable::TooLarge));
        }
        let bytes = file.read_bytes(file.file_length()).await?;
        Ok(Ok(bytes.to_vec()))
    }
}

/// What another attempt would not change.
fn is_final(error: &HdfsError) -> bool {
    match error {
        HdfsError::FileNotFound(_)
        | HdfsError::IsADirectoryError(_)
        | HdfsError::InvalidPath(_)
        | HdfsError::UnsupportedErasureCodingPolicy(_)
        | HdfsError::UnsupportedFeature(_) => true,
        HdfsError::RPCError(class, _) => class.contains("AccessControlException"),
        _ => false,
    }
}

fn unreadable(error: &HdfsError) -> Unreadable {
    match error {
        HdfsError::IsADirectoryError(_) => Unreadable::NoFile,
        // A Java program's answer is followed by where it was in its code.
        other => Unreadable::Read(other.to_string().lines().next().unwrap_or_default().to_owned()),
    }
}
