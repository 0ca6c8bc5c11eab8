//! Files: the file service's part of the client. A file is sent and fetched in pieces, each of which may be repeated.

use std::ops::Range;

use bytes::Bytes;
use estimand_api::file::{FileEntry, FilePage, FilePath, UploadProgress};
use estimand_api::file_share::{FolderShares, ReadPath, ShareRequest, SharedFolder};
use estimand_api::registration::Sha256;
use reqwest::header::{self, HeaderValue};
use reqwest::{Method, StatusCode};

use crate::{Client, Error, Payload, Repeat};

/// A selection of files.
#[derive(Debug, Clone, Default)]
pub struct FileQuery {
    /// All if absent.
    pub folder: Option<ReadPath>,
    pub recursive: bool,
    /// A part of the path.
    pub contains: Option<String>,
    /// Those after this path.
    pub after: Option<String>,
    pub limit: Option<u32>,
}

/// A file that is to be sent.
#[derive(Debug, Clone)]
pub struct FileToSend {
    pub path: FilePath,
    pub size: u64,
    pub sha256: Sha256,
}

impl Client {
    pub async fn files(&self, query: &FileQuery) -> Result<FilePage, Error> {
        let limit = query.limit.map(|limit| limit.to_string());
        let mut pairs = vec![("recursive", if query.recursive { "true" } else { "false" })];
        let folder = query.folder.as_ref().map(ReadPath::to_string);
        pairs.extend(folder.as_deref().map(|folder| ("folder", folder)));
        pairs.extend(query.contains.as_deref().map(|text| ("contains", text)));
        pairs.extend(query.after.as_deref().map(|after| ("after", after)));
        pairs.extend(limit.as_deref().map(|limit| ("limit", limit)));
        let answer = self.get(self.url(&["api", "files"], &pairs)).await?;
        self.read(&answer)
    }

    /// A file, with its digest. Of a large one that takes as long as reading it.
    pub async fn file(&self, path: &ReadPath) -> Result<FileEntry, Error> {
        self.file_at(&FileAccess::own(), &path.to_string()).await
    }

    /// A range of a file, which must not lie beyond its end.
    pub async fn file_content(&self, path: &ReadPath, range: Range<u64>) -> Result<Bytes, Error> {
        self.content_at(&FileAccess::own(), &path.to_string(), range).await
    }

    /// How much of a file the service has of an upload.
    pub async fn upload_progress(&self, file: &FileToSend) -> Result<UploadProgress, Error> {
        self.progress_at(&FileAccess::own(), file).await
    }

    /// Sends a piece of a file. The file, if it was the last one.
    pub async fn send_file(
        &self,
        file: &FileToSend,
        offset: u64,
        piece: Bytes,
    ) -> Result<Option<FileEntry>, Error> {
        self.send_at(&FileAccess::own(), file, offset, piece).await
    }

    /// The folders that the caller shares, and those of others that the caller may read.
    pub async fn folder_shares(&self) -> Result<FolderShares, Error> {
        let answer = self.get(self.url(&["api", "files", "shares"], &[])).await?;
        self.read(&answer)
    }

    /// Gives users a folder to read.
    pub async fn share_folder(&self, request: &ShareRequest) -> Result<SharedFolder, Error> {
        let url = self.url(&["api", "files", "shares"], &[]);
        let body = Bytes::from(request.to_json().to_string());
        let answer = self.send(Method::PUT, url, Some(body), Repeat::Safe).await?;
        self.read(&answer)
    }

    /// Shares a folder with nobody any more.
    pub async fn unshare_folder(&self, folder: &FilePath) -> Result<(), Error> {
        let url = self.url(&["api", "files", "shares"], &[("folder", folder.as_str())]);
        self.send(Method::DELETE, url, None, Repeat::OnlyIfNotTaken).await.map(drop)
    }

    /// Removes a file or an empty folder.
    pub async fn remove_file(&self, path: &FilePath) -> Result<(), Error> {
        let url = self.url(&["api", "files"], &[("path", path.as_str())]);
        self.send(Method::DELETE, url, None, Repeat::OnlyIfNotTaken).await.map(drop)
    }
}

/// The right by which files are read and sent: the caller's own, or a grant.
pub(crate) struct FileAccess {
    folder: &'static [&'static str],
    grant: Option<HeaderValue>,
}

impl FileAccess {
    fn own() -> Self {
        FileAccess { folder: &["api", "files"], grant: None }
    }

    pub fn granted(grant: &str) -> Self {
        let mut grant = HeaderValue::try_from(grant).ok();
        if let Some(grant) = &mut grant {
            grant.set_sensitive(true);
        }
        FileAccess { folder: &["api", "files", "granted"], grant }
    }

    fn path(&self, last: &'static str) -> Vec<&'static str> {
        self.folder.iter().copied().chain([last]).collect()
    }

    fn payload(&self) -> Payload {
        Payload { grant: self.grant.clone(), ..Payload::default() }
    }
}

impl Client {
    pub(crate) async fn file_at(&self, access: &FileAccess, path: &str) -> Result<FileEntry, Error> {
        let url = self.url(&access.path("entry"), &[("path", path)]);
        let answer = self.send_payload(Method::GET, url, Some(access.payload()), Repeat::Safe).await?;
        self.read(&answer)
    }

    pub(crate) async fn content_at(
        &self,
        access: &FileAccess,
        path: &str,
        range: Range<u64>,
    ) -> Result<Bytes, Error> {
        let url = self.url(&access.path("content"), &[("path", path)]);
        let asked = format!("bytes={}-{}", range.start, range.end.saturating_sub(1));
        let shown = url.to_string();
        let unexpected = |cause: String| Error::Unexpected { url: shown.clone(), cause };
        let asked = HeaderValue::try_from(asked).map_err(|error| unexpected(error.to_string()))?;
        let payload = Payload { header: Some((header::RANGE, asked)), ..access.payload() };
        let answer = self.send_payload(Method::GET, url, Some(payload), Repeat::Safe).await?;
        let is_range = answer.status == StatusCode::PARTIAL_CONTENT
            && answer.body.len() as u64 == range.end - range.start;
        match is_range {
            true => Ok(answer.body),
            false => Err(unexpected(format!("not the range that was asked for: status {}", answer.status))),
        }
    }

    pub(crate) async fn progress_at(
        &self,
        access: &FileAccess,
        file: &FileToSend,
    ) -> Result<UploadProgress, Error> {
        let (size, sha256) = (file.size.to_string(), file.sha256.to_string());
        let query = [("path", file.path.as_str()), ("size", &size), ("sha256", &sha256)];
        let url = self.url(&access.path("upload"), &query);
        let answer = self.send_payload(Method::GET, url, Some(access.payload()), Repeat::Safe).await?;
        self.read(&answer)
    }

    pub(crate) async fn send_at(
        &self,
        access: &FileAccess,
        file: &FileToSend,
        offset: u64,
        piece: Bytes,
    ) -> Result<Option<FileEntry>, Error> {
        let (offset, size, sha256) = (offset.to_string(), file.size.to_string(), file.sha256.to_string());
        let query = [("path", file.path.as_str()), ("offset", &offset), ("size", &size), ("sha256", &sha256)];
        let url = self.url(&access.path("content"), &query);
        let payload = Payload { grant: access.grant.clone(), ..Payload::binary(piece) };
        let answer = self.send_payload(Method::PUT, url, Some(payload), Repeat::OnlyIfNotTaken).await?;
        match answer.status {
            StatusCode::ACCEPTED => Ok(None),
            _ => self.read(&answer).map(Some),
        }
    }
}
