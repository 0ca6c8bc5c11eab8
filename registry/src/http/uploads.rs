//! Uploads: the files that registrations bring along. A file is sent before the registration that names it.

use actix_web::http::header::{CONTENT_TYPE, HeaderValue};
use actix_web::web::ThinData;
use actix_web::{HttpRequest, HttpResponse};
use estimand_api::problem::{FieldError, Problem};
use estimand_api::registration::{MAX_UPLOAD_BYTES, SHA256_EXPECTED, Sha256, UploadReceipt};
use estimand_web::{Body, Failure, segment};
use ring::digest;

use crate::Registry;

/// Takes a file that a registration is to run, as it is: a script that begins with `#!`, or a program.
///
/// The answer's digest goes into the field `upload` of a registration. A file that no registration has named an hour
/// later is removed.
#[utoipa::path(
    post,
    path = "/api/uploads",
    tag = "registry",
    request_body(content = Vec<u8>, content_type = "application/octet-stream", description = "The file, at most 1 MiB"),
    responses(
        (status = 200, description = "It was there already", body = UploadReceipt),
        (status = 201, description = "Stored", body = UploadReceipt),
        (status = 400, description = "This is nothing that can be run", body = Problem),
        (status = 409, description = "There are as many files as are kept", body = Problem),
        (status = 413, description = "The file is too large", body = Problem),
        (status = 503, description = "The database does not answer", body = Problem),
    )
)]
pub async fn post(
    body: Body<MAX_UPLOAD_BYTES>,
    registry: ThinData<Registry>,
) -> Result<HttpResponse, Failure> {
    if !(body.0.starts_with(b"#!") || body.0.starts_with(b"\x7fELF")) {
        let error = FieldError::new("body", "cannot be run");
        let expected = "a script that begins with `#!` and its interpreter, or a program";
        return Err(Problem::invalid_field(error.expected(expected)).into());
    }
    let sha256 = Sha256::of_digest(digest::digest(&digest::SHA256, &body.0));
    let uploaded = UploadReceipt { sha256, bytes: body.0.len() as u64 };
    let mut response = if registry.upload(sha256, body.0.clone()).await? {
        HttpResponse::Created()
    } else {
        HttpResponse::Ok()
    };
    Ok(response.json(uploaded))
}

/// The content of an uploaded file: for managers, which hand it to the agents that run it.
#[utoipa::path(
    get,
    path = "/api/uploads/{sha256}",
    tag = "registry",
    params(("sha256" = Sha256, Path)),
    responses(
        (status = 200, description = "The file", body = Vec<u8>, content_type = "application/octet-stream"),
        (status = 400, description = "This is no digest", body = Problem),
        (status = 404, description = "There is no such file", body = Problem),
        (status = 503, description = "The database does not answer", body = Problem),
    )
)]
pub async fn get(req: HttpRequest, registry: ThinData<Registry>) -> Result<HttpResponse, Failure> {
    let sha256 = segment(&req, "sha256").parse::<Sha256>().map_err(|message| {
        Problem::invalid_field(FieldError::new("sha256", message).expected(SHA256_EXPECTED))
    })?;
    let content = registry.uploaded(sha256).await?;
    let binary = (CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    Ok(HttpResponse::Ok().insert_header(binary).body(content))
}
