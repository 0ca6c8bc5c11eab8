//! Reads: one look at the published registrations, then bytes that are rendered already. Only the audit trail is read
//! from the store.

use actix_web::http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderValue};
use actix_web::web::ThinData;
use actix_web::{HttpRequest, HttpResponse};
use estimand_api::names::DataName;
use estimand_api::problem::{Problem, kind};
use estimand_api::registration::{Change, Registration};
use estimand_web::{Failure, path_name};

use crate::Registry;
use crate::core::{RenderedRegistration, StoredRegistration};

/// The most entries of an audit trail that are shown.
pub const MAX_HISTORY_ENTRIES: usize = 1_000;

pub const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// All registrations, in order of name. The value of a secret (`secrets` names them) is `null` in `env`, here and
/// wherever a registration is shown.
#[utoipa::path(
    get,
    path = "/api/registry",
    tag = "registry",
    responses(
        (status = 200, description = "All registrations, `[]` if there are none", body = [Registration]),
        (status = 503, description = "Not loaded yet", body = Problem),
    )
)]
pub async fn list(registry: ThinData<Registry>) -> Result<HttpResponse, Failure> {
    let list = registry.registrations()?.list();
    Ok(HttpResponse::Ok().insert_header((CONTENT_TYPE, JSON)).body(list))
}

/// All registrations with the values of their secrets: for managers, which hand them to the agents that need them.
///
/// A caller with this role may also register a command that prints its environment, so nothing is kept from anybody
/// who could not find it out.
#[utoipa::path(
    get,
    path = "/api/secrets",
    tag = "registry",
    responses(
        (status = 200, description = "As `GET /api/registry`, with the values of secrets where that has `null`", body = [Registration]),
        (status = 503, description = "Not loaded yet", body = Problem),
    )
)]
pub async fn secrets(registry: ThinData<Registry>) -> Result<HttpResponse, Failure> {
    let list = registry.registrations()?.complete_list();
    let no_store = (CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(HttpResponse::Ok().insert_header((CONTENT_TYPE, JSON)).insert_header(no_store).body(list))
}

/// One registration.
#[utoipa::path(
    get,
    path = "/api/registry/{dataName}",
    tag = "registry",
    params(("dataName" = DataName, Path)),
    responses(
        (status = 200, description = "The registration; the header `ETag` has its version", body = Registration),
        (status = 400, description = "This is no data name", body = Problem),
        (status = 404, description = "It is not registered", body = Problem),
        (status = 500, description = "What is stored cannot be read; PUT replaces it, DELETE removes it", body = Problem),
        (status = 503, description = "Not loaded yet", body = Problem),
    )
)]
pub async fn get(req: HttpRequest, registry: ThinData<Registry>) -> Result<HttpResponse, Failure> {
    let name = path_name(&req)?;
    match registry.registrations()?.get(name.as_str()) {
        Some(StoredRegistration::Readable(entry)) => Ok(HttpResponse::Ok()
            .insert_header((CONTENT_TYPE, JSON))
            .insert_header(etag(entry))
            .body(entry.json.clone())),
        Some(StoredRegistration::Unreadable(row)) => Err(unreadable(&name, &row.cause).into()),
        None => Err(Problem::not_found(format!("`{name}` is not registered")).into()),
    }
}

/// The changes of a registration, each with its author and time; newest first, at most 1,000 entries. A
/// variable that is secret in one of them is shown in none.
#[utoipa::path(
    get,
    path = "/api/registry/{dataName}/history",
    tag = "registry",
    params(("dataName" = DataName, Path)),
    responses(
        (status = 200, description = "The changes; those of a deleted registration are kept", body = [Change]),
        (status = 400, description = "This is no data name", body = Problem),
        (status = 404, description = "It never was registered", body = Problem),
        (status = 503, description = "The database does not answer", body = Problem),
    )
)]
pub async fn history(req: HttpRequest, registry: ThinData<Registry>) -> Result<HttpResponse, Failure> {
    let name = path_name(&req)?;
    let changes = registry.history(&name, MAX_HISTORY_ENTRIES).await?;
    match changes.is_empty() {
        false => Ok(HttpResponse::Ok().json(changes)),
        true => Err(Problem::not_found(format!("`{name}` never was registered")).into()),
    }
}

pub fn etag(entry: &RenderedRegistration) -> (actix_web::http::header::HeaderName, String) {
    (ETAG, format!("\"{}\"", entry.registered.version))
}

fn unreadable(name: &DataName, cause: &str) -> Problem {
    Problem::new(
        500,
        kind::UNREADABLE,
        "What is stored cannot be read",
        format!(
            "the stored registration of `{name}` is not in effect: {cause}; PUT replaces it, DELETE removes it"
        ),
    )
}
