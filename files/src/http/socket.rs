//! Files over a WebSocket: uploads and downloads one after the other, over one connection.
//!
//! A text message is a request: `{"upload": {"path", "size", "sha256"}}` or `{"download": {"path", "offset"}}`. To an upload
//! the answer is `{"progress": {"received", "size"}}`; then the bytes from there on come as binary messages, and with the
//! last of them the answer is `{"file": …}`. To a download the answer is `{"file": …}`, then binary messages until all of
//! the file was sent. Anything wrong is answered with `{"problem": …}`, which ends the request and not the connection.

use std::io::{Read as _, Seek as _, SeekFrom};

use actix_web::web::{Payload, ThinData};
use actix_web::{HttpRequest, HttpResponse};
use actix_ws::{AggregatedMessage, AggregatedMessageStream, CloseCode, Session};
use bytes::Bytes;
use estimand_api::file::{FileEntry, FilePath, UploadProgress};
use estimand_api::file_share::ReadPath;
use estimand_api::problem::{FieldError, Problem};
use estimand_api::registration::Sha256;
use estimand_web::{Failure, Principal};
use serde::{Deserialize, Serialize};

use super::arriving::{Arrived, ArrivingPiece};
use super::{entries, problems};
use crate::FileService;
use crate::home::Home;
use crate::pace::Pace;
use crate::uploads::Upload;

/// The largest message.
const MAX_MESSAGE: usize = 1024 * 1024;
/// How much is sent in one.
const SENT_TOGETHER: usize = 64 * 1024;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
enum SocketRequest {
    Upload(UploadRequest),
    Download(DownloadRequest),
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct UploadRequest {
    path: FilePath,
    size: u64,
    #[serde(default)]
    sha256: Option<Sha256>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct DownloadRequest {
    path: ReadPath,
    #[serde(default)]
    offset: u64,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
enum SocketAnswer {
    Progress(UploadProgress),
    File(FileEntry),
    Problem(Problem),
}

/// Uploads and downloads over one WebSocket.
///
/// Text messages are requests and answers in JSON, binary ones are the bytes of files.
#[utoipa::path(
    get,
    path = "/api/files/socket",
    tag = "files",
    responses(
        (status = 101, description = "The connection is a WebSocket now"),
        (status = 400, description = "This is no request for a WebSocket", body = Problem),
    )
)]
pub async fn open(
    req: HttpRequest,
    caller: Principal,
    body: Payload,
    service: ThinData<FileService>,
) -> Result<HttpResponse, Failure> {
    let (response, session, messages) = actix_ws::handle(&req, body).map_err(|error| {
        let error = FieldError::new("Upgrade", error.to_string());
        Problem::invalid_field(error.expected("the headers of a WebSocket, version 13"))
    })?;
    let messages = messages.max_frame_size(MAX_MESSAGE).aggregate_continuations();
    let messages = messages.max_continuation_size(MAX_MESSAGE);
    let mut socket = Socket { service: service.clone().0, home: Home::of(&caller), session, messages };
    actix_web::rt::spawn(async move {
        // It ends when its peer goes away.
        let _ = socket.serve().await;
        let _ = socket.session.close(Some(CloseCode::Normal.into())).await;
    });
    Ok(response)
}

struct Socket {
    service: FileService,
    home: Home,
    session: Session,
    messages: AggregatedMessageStream,
}

/// The end of a socket whose peer went away.
struct SocketEnd;

impl From<actix_ws::Closed> for SocketEnd {
    fn from(_: actix_ws::Closed) -> Self {
        SocketEnd
    }
}

/// The problem with a download that begins behind the end of its file.
fn behind_its_end(offset: u64, size: u64) -> Problem {
    let error = FieldError::new("download.offset", "is behind the end of the file").given(offset.to_string());
    Problem::invalid_field(error.expected(format!("0 to {size}, the size of the file")))
}

impl Socket {
    async fn serve(&mut self) -> Result<(), SocketEnd> {
        loop {
            let request = match self.next().await? {
                AggregatedMessage::Text(text) => serde_json::from_str::<SocketRequest>(&text),
                _ => {
                    self.refuse("is no request: an upload begins with one").await?;
                    continue;
                }
            };
            match request {
                Ok(SocketRequest::Upload(request)) => self.upload(request).await?,
                Ok(SocketRequest::Download(request)) => self.download(&request).await?,
                Err(error) => self.refuse(&error.to_string()).await?,
            }
        }
    }

    async fn upload(&mut self, request: UploadRequest) -> Result<(), SocketEnd> {
        let UploadRequest { path, size, sha256 } = request;
        let place = match self.home.place(&path) {
            Ok(place) => place,
            Err(problem) => return self.answer(&SocketAnswer::Problem(problem)).await,
        };
        let owner = self.home.owner();
        let upload = Upload { owner, path, place, size: Some(size), sha256 };
        let asked = upload.clone();
        let begun = async {
            let received = self.service.blocking(move |inner| inner.uploads.received(&asked)).await?;
            let received = received.map_err(|error| problems::of_file(&error, &upload.path))?;
            Ok((received, ArrivingPiece::begin(&self.service, &self.home, upload, received).await?))
        };
        let (mut received, mut piece) = match begun.await {
            Ok(begun) => begun,
            Err(problem) => return self.answer(&SocketAnswer::Problem(problem)).await,
        };
        self.answer(&SocketAnswer::Progress(UploadProgress { received, size })).await?;
        let mut pace = Pace::default();
        let length = |next: &Result<AggregatedMessage, SocketEnd>| match next {
            Ok(AggregatedMessage::Binary(bytes)) => bytes.len(),
            _ => 0,
        };
        while received < size {
            let bytes = match pace.next(self.next(), length).await {
                Ok(Ok(AggregatedMessage::Binary(bytes))) => bytes,
                Ok(Ok(_)) => {
                    piece.keep().await;
                    return self.refuse("is no bytes of the file that is being sent").await;
                }
                Ok(Err(end)) => {
                    piece.keep().await;
                    return Err(end);
                }
                Err(too_slow) => {
                    piece.keep().await;
                    return self.answer(&SocketAnswer::Problem(too_slow)).await;
                }
            };
            received += bytes.len() as u64;
            piece = match piece.add(&bytes).await {
                Ok(piece) => piece,
                Err(problem) => return self.answer(&SocketAnswer::Problem(problem)).await,
            };
        }
        let answer = match piece.end().await {
            Ok(Arrived::File(file)) => SocketAnswer::File(file),
            Ok(Arrived::Piece(progress)) => SocketAnswer::Progress(progress),
            Err(problem) => SocketAnswer::Problem(problem),
        };
        self.answer(&answer).await
    }

    async fn download(&mut self, request: &DownloadRequest) -> Result<(), SocketEnd> {
        let (path, offset) = (request.path.clone(), request.offset);
        let place = match self.home.place_to_read(&path, self.service.shared_folders()) {
            Ok(place) => place,
            Err(problem) => return self.answer(&SocketAnswer::Problem(problem)).await,
        };
        let opened = self.service.blocking(move |inner| {
            let mut file = inner.root.file(&place)?;
            let entry = entries::entry(&path, &file, None)?;
            // An offset behind the end, which may be more than a file can have, is refused below.
            file.seek(SeekFrom::Start(offset.min(entry.size)))?;
            std::io::Result::Ok((entry, file))
        });
        let opened = opened.await.and_then(|opened| opened.map_err(|e| problems::of_file(&e, &request.path)));
        let opened = opened.and_then(|(entry, file)| {
            if offset <= entry.size { Ok((entry, file)) } else { Err(behind_its_end(offset, entry.size)) }
        });
        let (entry, mut file) = match opened {
            Ok(opened) => opened,
            Err(problem) => return self.answer(&SocketAnswer::Problem(problem)).await,
        };
        let mut left = entry.size.saturating_sub(offset);
        self.answer(&SocketAnswer::File(entry)).await?;
        while left > 0 {
            let read = self.service.blocking(move |_| {
                let mut bytes = vec![0; SENT_TOGETHER];
                let read = file.read(&mut bytes)?;
                bytes.truncate(read);
                std::io::Result::Ok((file, bytes))
            });
            let read = read.await.and_then(|read| read.map_err(|e| problems::of_file(&e, &request.path)));
            let (back, bytes) = match read {
                Ok((_, bytes)) if bytes.is_empty() => {
                    return self.refuse("ended early: the file was cut").await;
                }
                Ok(read) => read,
                Err(problem) => return self.answer(&SocketAnswer::Problem(problem)).await,
            };
            file = back;
            left = left.saturating_sub(bytes.len() as u64);
            self.service.figures().sent_bytes.add(bytes.len() as u64);
            self.session.binary(Bytes::from(bytes)).await?;
        }
        Ok(())
    }

    /// The next message that is not about the connection itself.
    async fn next(&mut self) -> Result<AggregatedMessage, SocketEnd> {
        loop {
            let message = tokio::select! {
                message = self.messages.recv() => message,
                () = self.service.0.stop.requested() => return Err(SocketEnd),
            };
            match message {
                Some(Ok(AggregatedMessage::Ping(bytes))) => self.session.pong(&bytes).await?,
                Some(Ok(AggregatedMessage::Pong(_))) => {}
                Some(Ok(AggregatedMessage::Close(_)) | Err(_)) | None => return Err(SocketEnd),
                Some(Ok(message)) => return Ok(message),
            }
        }
    }

    async fn refuse(&mut self, message: &str) -> Result<(), SocketEnd> {
        let problem = Problem::invalid_field(FieldError::new("message", message));
        self.answer(&SocketAnswer::Problem(problem)).await
    }

    async fn answer(&mut self, answer: &SocketAnswer) -> Result<(), SocketEnd> {
        let text = serde_json::to_string(answer).map_err(|_| SocketEnd)?;
        Ok(self.session.text(text).await?)
    }
}
