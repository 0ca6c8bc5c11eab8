//! The content of a file, whole or a range of it.

use actix_files::NamedFile;
use actix_web::http::header::{ContentDisposition, DispositionParam, DispositionType};
use actix_web::web::ThinData;
use actix_web::{HttpRequest, HttpResponse};
use estimand_api::file_share::ReadPath;
use estimand_api::problem::Problem;
use estimand_web::{Failure, Principal, Query};

use super::{parameters, problems};
use crate::FileService;
use crate::home::Home;

/// The bytes of a file. A range of it is asked for with the header `Range`, so that a download goes on where it broke off;
/// `If-Range` makes sure that it is still the same file.
#[utoipa::path(
    get,
    path = "/api/files/content",
    tag = "files",
    params(("path" = ReadPath, Query, description = "The file")),
    responses(
        (status = 200, description = "All of it", body = Vec<u8>, content_type = "application/octet-stream"),
        (status = 206, description = "The range that was asked for", body = Vec<u8>, content_type = "application/octet-stream"),
        (status = 304, description = "It is the file that the caller has"),
        (status = 400, description = "The query is not valid", body = Problem),
        (status = 404, description = "There is no such file", body = Problem),
        (status = 409, description = "It is a folder", body = Problem),
        (status = 416, description = "It has no such range", body = Problem),
    )
)]
pub async fn get(
    req: HttpRequest,
    caller: Principal,
    service: ThinData<FileService>,
) -> Result<HttpResponse, Failure> {
    sent(&req, &Home::of(&caller), &service).await
}

/// The file that is asked for.
pub async fn sent(req: &HttpRequest, home: &Home, service: &FileService) -> Result<HttpResponse, Failure> {
    let query = Query::parse(req.query_string(), &["path"])?;
    let path = parameters::read_path(query.get("path"))?;
    let of = home.place_to_read(&path, service.shared_folders())?;
    let opened = service.blocking(move |inner| {
        let file = inner.root.file(&of)?;
        NamedFile::from_file(file, of.name())
    });
    let file = opened.await?.map_err(|error| problems::of_file(&error, &path))?;
    service.figures().sent_bytes.add(file.metadata().len());
    let binary = "application/octet-stream".parse().map_err(|_| Problem::internal())?;
    // No browser shows it as a page of this service.
    let saved = ContentDisposition {
        disposition: DispositionType::Attachment,
        parameters: vec![DispositionParam::Filename(path.name().to_owned())],
    };
    Ok(file.set_content_type(binary).set_content_disposition(saved).into_response(req))
}
