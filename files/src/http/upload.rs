//! Takes files, whole or in pieces.

use actix_web::error::PayloadError;
use actix_web::http::header::CONTENT_LENGTH;
use actix_web::web::{Payload, ThinData};
use actix_web::{HttpRequest, HttpResponse};
use bytes::Bytes;
use estimand_api::file::{FileEntry, FilePath, UploadProgress};
use estimand_api::problem::{FieldError, Problem};
use estimand_api::registration::Sha256;
use estimand_web::parameters::whole;
use estimand_web::{Failure, Principal, Query, refuse_compressed};
use futures_util::StreamExt as _;

use super::arriving::{Arrived, ArrivingPiece};
use super::{parameters, problems};
use crate::FileService;
use crate::home::Home;
use crate::pace::Pace;

/// Puts a file, or a piece of one, under a path.
///
/// Without `offset` and `size` the body is the whole file. A large file comes in pieces, each with the `offset` at which it
/// begins and the `size` of the whole; with the last one the file gets its name and replaces the one before. A piece that
/// breaks off is not lost: `/api/files/upload` says where to go on.
#[utoipa::path(
    put,
    path = "/api/files/content",
    tag = "files",
    params(
        ("path" = FilePath, Query, description = "The file"),
        ("offset" = Option<u64>, Query, description = "Where the piece begins in the file; 0, which begins anew, if absent"),
        ("size" = Option<u64>, Query, description = "The size of the whole file; the body's if absent"),
        ("sha256" = Option<Sha256>, Query, description = "The digest that the whole file must have"),
    ),
    request_body(content = Vec<u8>, content_type = "application/octet-stream", description = "The bytes"),
    responses(
        (status = 200, description = "All of the file is there", body = FileEntry),
        (status = 202, description = "More of it is missing", body = UploadProgress),
        (status = 400, description = "The query is not valid, or what came is not what was announced", body = Problem),
        (status = 409, description = "The piece begins elsewhere, another request is sending this file, or a folder has its name", body = Problem),
        (status = 415, description = "The body is compressed", body = Problem),
        (status = 507, description = "The disk has no room", body = Problem),
        (status = 503, description = "Too many files are being sent", body = Problem),
    )
)]
pub async fn put(
    req: HttpRequest,
    caller: Principal,
    body: Payload,
    service: ThinData<FileService>,
) -> Result<HttpResponse, Failure> {
    taken(&req, &Home::of(&caller), body, &service).await
}

/// The piece in a request.
pub async fn taken(
    req: &HttpRequest,
    home: &Home,
    body: Payload,
    service: &FileService,
) -> Result<HttpResponse, Failure> {
    refuse_compressed(req)?;
    let query = Query::parse(req.query_string(), &["path", "offset", "size", "sha256"])?;
    let mut upload = parameters::upload(home, query.get("path"), query.get("size"), query.get("sha256"))?;
    let offset = whole("offset", query.get("offset"), 0, u64::MAX)?;
    match (upload.size, offset) {
        (None, 0) => upload.size = length(req),
        (None, _) => {
            let error = FieldError::new("size", "is missing");
            return Err(Problem::invalid_field(
                error.expected("the size of the whole file, with each piece"),
            )
            .into());
        }
        (Some(_), _) => {}
    }
    let piece = ArrivingPiece::begin(service, home, upload, offset).await?;
    Ok(match receive(piece, body).await? {
        Arrived::Piece(progress) => HttpResponse::Accepted().json(progress),
        Arrived::File(file) => HttpResponse::Ok().json(file),
    })
}

/// How much of a file has come, and so where the next piece begins.
#[utoipa::path(
    get,
    path = "/api/files/upload",
    tag = "files",
    params(
        ("path" = FilePath, Query, description = "The file"),
        ("size" = u64, Query, description = "The size of the whole file, as with its pieces"),
        ("sha256" = Option<Sha256>, Query, description = "Its digest, if it is given with its pieces"),
    ),
    responses(
        (status = 200, description = "How far it is; 0 if nothing has come, or all of it", body = UploadProgress),
        (status = 400, description = "The query is not valid", body = Problem),
    )
)]
pub async fn progress(
    req: HttpRequest,
    caller: Principal,
    service: ThinData<FileService>,
) -> Result<HttpResponse, Failure> {
    received(&req, &Home::of(&caller), &service).await
}

/// How much has come of the file that is asked for.
pub async fn received(
    req: &HttpRequest,
    home: &Home,
    service: &FileService,
) -> Result<HttpResponse, Failure> {
    let query = Query::parse(req.query_string(), &["path", "size", "sha256"])?;
    let upload = parameters::upload(home, query.get("path"), query.get("size"), query.get("sha256"))?;
    let Some(size) = upload.size else {
        let error = FieldError::new("size", "is missing");
        return Err(Problem::invalid_field(error.expected("the size of the whole file")).into());
    };
    let asked = upload.clone();
    let received = service.blocking(move |inner| inner.uploads.received(&asked)).await?;
    let received = received.map_err(|error| problems::of_file(&error, &upload.path))?;
    Ok(HttpResponse::Ok().json(UploadProgress { received, size }))
}

fn length(req: &HttpRequest) -> Option<u64> {
    req.headers().get(CONTENT_LENGTH)?.to_str().ok()?.trim().parse().ok()
}

async fn receive(mut piece: ArrivingPiece, mut body: Payload) -> Result<Arrived, Problem> {
    let mut pace = Pace::default();
    let length = |next: &Option<Result<Bytes, PayloadError>>| match next {
        Some(Ok(part)) => part.len(),
        _ => 0,
    };
    loop {
        let problem = match pace.next(body.next(), length).await {
            Ok(None) => return piece.end().await,
            Ok(Some(Ok(part))) => {
                piece = piece.add(&part).await?;
                continue;
            }
            Ok(Some(Err(_))) => {
                Problem::invalid_field(FieldError::new("body", "broke off; what came is kept"))
            }
            Err(too_slow) => too_slow,
        };
        piece.keep().await;
        return Err(problem);
    }
}
