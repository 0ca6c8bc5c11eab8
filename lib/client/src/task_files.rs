//! The files of tasks: the part of the client by which an agent gets at them.

use std::ops::Range;

use bytes::Bytes;
use estimand_api::file::{FileEntry, FilePath, UploadProgress};
use estimand_api::task_files::{FileGrantRequest, FileGrants, TaskFiles, TaskFilesRequest};
use reqwest::Method;

use crate::files::FileAccess;
use crate::{Client, Error, FileToSend, Repeat};

/// The files that a grant is for.
pub struct GrantedFiles<'a> {
    client: &'a Client,
    access: FileAccess,
}

impl Client {
    /// The way to the files of an attempt, for the agent of its node; from the task service.
    pub async fn task_files(&self, id: &str, attempt: u32) -> Result<TaskFiles, Error> {
        let url = self.url(&["api", "tasks", id, "files"], &[]);
        let body = Self::json(&url, &TaskFilesRequest { attempt })?;
        let answer = self.send(Method::POST, url, Some(body), Repeat::Safe).await?;
        self.read(&answer)
    }

    /// Grants of files to a node; from the file service.
    pub async fn grant_files(&self, request: &FileGrantRequest) -> Result<FileGrants, Error> {
        let url = self.url(&["api", "files", "grants"], &[]);
        let body = Self::json(&url, request)?;
        let answer = self.send(Method::POST, url, Some(body), Repeat::Safe).await?;
        self.read(&answer)
    }

    /// The files that a grant is for.
    pub fn granted(&self, grant: &str) -> GrantedFiles<'_> {
        GrantedFiles { client: self, access: FileAccess::granted(grant) }
    }

    fn json(url: &url::Url, body: &impl serde::Serialize) -> Result<Bytes, Error> {
        let body = serde_json::to_vec(body);
        body.map(Bytes::from)
            .map_err(|error| Error::Unexpected { url: url.to_string(), cause: error.to_string() })
    }
}

impl GrantedFiles<'_> {
    /// A file, with its digest.
    pub async fn file(&self, path: &FilePath) -> Result<FileEntry, Error> {
        self.client.file_at(&self.access, path.as_str()).await
    }

    /// A range of a file, which must not lie beyond its end.
    pub async fn content(&self, path: &FilePath, range: Range<u64>) -> Result<Bytes, Error> {
        self.client.content_at(&self.access, path.as_str(), range).await
    }

    /// How much of a file the service has of an upload.
    pub async fn upload_progress(&self, file: &FileToSend) -> Result<UploadProgress, Error> {
        self.client.progress_at(&self.access, file).await
    }

    /// Sends a piece of a file. The file, if it was the last one.
    pub async fn send(
        &self,
        file: &FileToSend,
        offset: u64,
        piece: Bytes,
    ) -> Result<Option<FileEntry>, Error> {
        self.client.send_at(&self.access, file, offset, piece).await
    }
}
