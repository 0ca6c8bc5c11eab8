//! Grants, and what their holders read and put: the agents of nodes, for the tasks that run there.

use actix_web::http::header::HeaderName;
use actix_web::web::{Payload, ThinData};
use actix_web::{HttpRequest, HttpResponse};
use estimand_api::file::{FileEntry, FilePath, UploadProgress};
use estimand_api::file_share::ReadPath;
use estimand_api::headers::FILE_GRANT_HEADER;
use estimand_api::json::parse_object;
use estimand_api::names::UserName;
use estimand_api::problem::{FieldError, Problem};
use estimand_api::registration::Sha256;
use estimand_api::task_files::{FileGrantRequest, FileGrants, MAX_TASK_FILES};
use estimand_web::{Body, Failure, Principal};
use serde_json::Value;

use super::{content, entries, upload};
use crate::FileService;
use crate::grants::{Right, VALID};
use crate::home::{self, Home};

/// The largest body of a request for grants.
const MAX_REQUEST_BYTES: usize = 256 * 1024;

/// Gives a node the right to read files and to put files into a folder, for two minutes.
#[utoipa::path(
    post,
    path = "/api/files/grants",
    tag = "agents",
    request_body(content = FileGrantRequest, description = "The node, the user, and the files"),
    responses(
        (status = 200, description = "The grants, which only this node can use", body = FileGrants),
        (status = 400, description = "The body is not valid", body = Problem),
    )
)]
pub async fn grant(
    body: Body<MAX_REQUEST_BYTES>,
    service: ThinData<FileService>,
) -> Result<HttpResponse, Failure> {
    let FileGrantRequest { node, user, read, write } = body.parse(parse).await?;
    let home = user.as_ref().map(|user| home::folder_of(user.as_str()));
    let make = |home: Option<&str>, right| service.grants().make(&node, home, right);
    let reads = |path: ReadPath| {
        let Some(owner) = path.owner() else {
            return make(home.as_deref(), Right::Read(path.path().clone()));
        };
        let user = user.as_ref().map(UserName::as_str);
        let is_shared =
            user.is_none_or(|user| service.shared_folders().is_readable(user, owner, path.path()));
        make(None, if is_shared { Right::Read(path.place()) } else { Right::Nothing })
    };
    Ok(HttpResponse::Ok().json(FileGrants {
        read: read.into_iter().map(reads).collect(),
        write: write.map(|path| make(home.as_deref(), Right::Write(path))),
        valid_ms: u64::try_from(VALID.as_millis()).unwrap_or(u64::MAX),
    }))
}

fn parse(body: &[u8]) -> Result<FileGrantRequest, Problem> {
    let request: FileGrantRequest = serde_json::from_value(Value::Object(parse_object(body)?))
        .map_err(|error| Problem::invalid_field(FieldError::new("body", error.to_string())))?;
    if request.read.len() > MAX_TASK_FILES {
        let error = FieldError::new("read", "has too many files");
        return Err(Problem::invalid_field(error.expected(format!("at most {MAX_TASK_FILES}"))));
    }
    Ok(request)
}

/// A file that a grant is for, with the digest of its content.
#[utoipa::path(
    get,
    path = "/api/files/granted/entry",
    tag = "agents",
    params(
        ("Estimand-File-Grant" = String, Header, description = "The grant"),
        ("path" = FilePath, Query, description = "The file"),
    ),
    responses(
        (status = 200, description = "The file", body = FileEntry),
        (status = 400, description = "The query is not valid", body = Problem),
        (status = 403, description = "The grant is not for this, or is over", body = Problem),
        (status = 404, description = "There is no such file", body = Problem),
        (status = 409, description = "It is a folder", body = Problem),
    )
)]
pub async fn entry(
    req: HttpRequest,
    caller: Principal,
    service: ThinData<FileService>,
) -> Result<HttpResponse, Failure> {
    let home = home(&req, &caller, &service)?;
    entries::described(&req, &home, &service).await
}

/// The bytes of a file that a grant is for, or a range of them.
#[utoipa::path(
    get,
    path = "/api/files/granted/content",
    tag = "agents",
    params(
        ("Estimand-File-Grant" = String, Header, description = "The grant"),
        ("path" = FilePath, Query, description = "The file"),
    ),
    responses(
        (status = 200, description = "All of it", body = Vec<u8>, content_type = "application/octet-stream"),
        (status = 206, description = "The range that was asked for", body = Vec<u8>, content_type = "application/octet-stream"),
        (status = 400, description = "The query is not valid", body = Problem),
        (status = 403, description = "The grant is not for this, or is over", body = Problem),
        (status = 404, description = "There is no such file", body = Problem),
        (status = 409, description = "It is a folder", body = Problem),
        (status = 416, description = "It has no such range", body = Problem),
    )
)]
pub async fn read(
    req: HttpRequest,
    caller: Principal,
    service: ThinData<FileService>,
) -> Result<HttpResponse, Failure> {
    let home = home(&req, &caller, &service)?;
    content::sent(&req, &home, &service).await
}

/// Puts a file, or a piece of one, into the folder that a grant is for.
#[utoipa::path(
    put,
    path = "/api/files/granted/content",
    tag = "agents",
    params(
        ("Estimand-File-Grant" = String, Header, description = "The grant"),
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
        (status = 403, description = "The grant is not for this, or is over", body = Problem),
        (status = 409, description = "The piece begins elsewhere, another request is sending this file, or a folder has its name", body = Problem),
        (status = 415, description = "The body is compressed", body = Problem),
        (status = 507, description = "The disk has no room", body = Problem),
        (status = 503, description = "Too many files are being sent", body = Problem),
    )
)]
pub async fn write(
    req: HttpRequest,
    caller: Principal,
    body: Payload,
    service: ThinData<FileService>,
) -> Result<HttpResponse, Failure> {
    let home = home(&req, &caller, &service)?;
    upload::taken(&req, &home, body, &service).await
}

/// How much has come of a file that is put by a grant.
#[utoipa::path(
    get,
    path = "/api/files/granted/upload",
    tag = "agents",
    params(
        ("Estimand-File-Grant" = String, Header, description = "The grant"),
        ("path" = FilePath, Query, description = "The file"),
        ("size" = u64, Query, description = "The size of the whole file, as with its pieces"),
        ("sha256" = Option<Sha256>, Query, description = "Its digest, if it is given with its pieces"),
    ),
    responses(
        (status = 200, description = "How far it is; 0 if nothing has come, or all of it", body = UploadProgress),
        (status = 400, description = "The query is not valid", body = Problem),
        (status = 403, description = "The grant is not for this, or is over", body = Problem),
    )
)]
pub async fn progress(
    req: HttpRequest,
    caller: Principal,
    service: ThinData<FileService>,
) -> Result<HttpResponse, Failure> {
    let home = home(&req, &caller, &service)?;
    upload::received(&req, &home, &service).await
}

/// The files that a request shows a grant for.
fn home(req: &HttpRequest, caller: &Principal, service: &FileService) -> Result<Home, Problem> {
    let shown = req.headers().get(HeaderName::from_static(FILE_GRANT_HEADER));
    let shown = shown.and_then(|shown| shown.to_str().ok()).ok_or_else(|| {
        let error = FieldError::new("Estimand-File-Grant", "is missing");
        Problem::invalid_field(error.expected("a grant, as the task service gives it to the agent of a node"))
    })?;
    Ok(Home::granted(service.grants().check(shown, caller)?))
}
