//! Images in an HDFS, read by its own protocol.
//!
//! Replicas are taken in the NameNode's order, which begins with the reader's own host, and the library goes on to the
//! next when one fails. An image that no replica gives is requested again a few times; the silence of a NameNode says
//! nothing about an image. All this takes less time than a worker may be silent for. User and NameNodes are configured
//! as for any client of HDFS, by `HADOOP_USER_NAME` and `HADOOP_CONF_DIR`, which a registration may set.

use std::time::Duration;

use hdfs_native::file::FileReader;
use hdfs_native::{Client, ClientBuilder, HdfsError, WriteOptions};
use tokio::runtime::{self, Runtime};

use super::{HDFS_SCHEME, MAX_IMAGE_BYTES, ReadError};

const ATTEMPTS: usize = 4;
/// Before the second attempt; then twice that, and so on.
const PAUSE: Duration = Duration::from_millis(250);
/// For all attempts at an image: a scheduler takes a worker for lost after 10 s of silence.
const DEADLINE: Duration = Duration::from_secs(8);
/// For an answer of the NameNodes.
const ANSWER: Duration = Duration::from_secs(4);
/// A DataNode that is silent for so long is passed over; the library's own patience is a minute.
const SILENCE_MS: u32 = 2_000;
/// The library's text when there was none to try.
const NO_DATANODES: &str = "All DataNodes failed: []";
/// The folder of made images is for everybody to read.
const FOLDER_MODE: u32 = 0o755;

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
        let builder = builder.with_config([("dfs.client.socket-timeout", SILENCE_MS.to_string())]);
        let client = builder.with_io_runtime(runtime.handle().clone()).build();
        let client = client.map_err(|error| error.to_string())?;
        let folder = format!("/{}", folder.trim_matches('/'));
        Ok(Hdfs { client, folder: folder.trim_end_matches('/').to_owned(), runtime })
    }

    pub fn read(&self, name: &str) -> Result<Vec<u8>, ReadError> {
        let path = format!("{}/{name}", self.folder);
        let late = || ReadError::Read(format!("no answer within {} s", DEADLINE.as_secs()));
        self.runtime.block_on(async {
            let read = tokio::time::timeout(DEADLINE, self.read_patiently(&path)).await;
            read.unwrap_or_else(|_| Err(late()))
        })
    }

    /// Makes the folder, and those above it.
    pub fn make(&self) -> Result<(), String> {
        let folder = if self.folder.is_empty() { "/" } else { &self.folder };
        let made = self.runtime.block_on(self.client.mkdirs(folder, FOLDER_MODE, true));
        made.map_err(|error| sentence(&error))
    }

    /// Writes a file in the place of one of that name. Most of the time it waits, half a second, until the NameNode has
    /// heard of the block; so several are best written at a time.
    pub fn write(&self, name: &str, bytes: &[u8], copies: Option<u32>) -> Result<(), String> {
        let path = format!("{}/{name}", self.folder);
        let options = WriteOptions { replication: copies, overwrite: true, ..WriteOptions::default() };
        let written = self.runtime.block_on(async {
            let mut file = self.client.create(&path, &options).await?;
            Box::pin(file.write_bytes(bytes.to_vec().into())).await?;
            Box::pin(file.close()).await
        });
        written.map_err(|error| format!("{path}: {}", sentence(&error)))
    }

    async fn read_patiently(&self, path: &str) -> Result<Vec<u8>, ReadError> {
        let (mut attempt, mut pause) = (1, PAUSE);
        loop {
            // Opened anew each time, for the present DataNodes of its blocks.
            let mut file = self.open(path).await?;
            if file.file_length() as u64 > MAX_IMAGE_BYTES {
                return Err(ReadError::TooLarge);
            }
            match file.read_bytes(file.file_length()).await {
                Ok(bytes) => return Ok(bytes.to_vec()),
                Err(error) if attempt == ATTEMPTS || is_final(&error) => return Err(unreadable(&error)),
                Err(_) => tokio::time::sleep(pause).await,
            }
            (attempt, pause) = (attempt + 1, pause * 2);
        }
    }

    async fn open(&self, path: &str) -> Result<FileReader, ReadError> {
        match tokio::time::timeout(ANSWER, self.client.read(path)).await {
            Ok(Ok(file)) => Ok(file),
            Ok(Err(error)) if is_final(&error) => Err(unreadable(&error)),
            Ok(Err(error)) => Err(ReadError::Unavailable(sentence(&error))),
            Err(_) => Err(ReadError::Unavailable(format!("nothing within {} s", ANSWER.as_secs()))),
        }
    }
}

/// True for errors that another attempt would not change.
fn is_final(error: &HdfsError) -> bool {
    match error {
        HdfsError::FileNotFound(_)
        | HdfsError::IsADirectoryError(_)
        | HdfsError::InvalidPath(_)
        | HdfsError::UnsupportedErasureCodingPolicy(_)
        | HdfsError::UnsupportedFeature(_) => true,
        HdfsError::RPCError(class, _) => class.contains("AccessControlException"),
        // The NameNode names no DataNode, and it would not say even that before it knows all.
        HdfsError::DataTransferError(text) => text == NO_DATANODES,
        _ => false,
    }
}

fn unreadable(error: &HdfsError) -> ReadError {
    match error {
        HdfsError::IsADirectoryError(_) => ReadError::NotAFile,
        other => ReadError::Read(sentence(other)),
    }
}

fn sentence(error: &HdfsError) -> String {
    match error {
        // The library goes on to describe all that it knows of each of them.
        HdfsError::DataTransferError(text) if text.starts_with("All DataNodes failed") => {
            "no DataNode that has a block of it could be read".to_owned()
        }
        // A Java program's answer is followed by where it was in its code.
        other => other.to_string().lines().next().unwrap_or_default().to_owned(),
    }
}
