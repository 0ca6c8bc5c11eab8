//! Bindings as they are read: which name serves whose values.

use actix_web::HttpResponse;
use actix_web::web::ThinData;
use actix_web::{HttpRequest, Responder};
use chrono::DateTime;
use estimand_api::names::DataName;
use estimand_api::problem::Problem;
use estimand_api::value::Binding;
use estimand_service::Failure;

use crate::DataService;
use crate::snapshot::Bound;
use crate::write::{json, path_name};

/// A binding as the interface shows it.
pub fn binding(name: &DataName, bound: &Bound) -> Binding {
    Binding {
        data_name: name.clone(),
        to: bound.to.clone(),
        since: DateTime::from_timestamp_micros(bound.since).unwrap_or_default(),
        revision: bound.revision,
    }
}

/// All bindings.
#[utoipa::path(
    get,
    path = "/api/bindings",
    tag = "bindings",
    responses((status = 200, description = "All bindings", body = [Binding]), (status = 503, description = "Not loaded yet", body = Problem))
)]
pub async fn list(service: ThinData<DataService>) -> Result<HttpResponse, Failure> {
    let snapshot = service.snapshot()?;
    let all: Vec<Binding> = snapshot.bindings().iter().map(|(name, bound)| binding(name, bound)).collect();
    Ok(json(&all))
}

/// One binding.
#[utoipa::path(
    get,
    path = "/api/bindings/{dataName}",
    tag = "bindings",
    params(("dataName" = String, Path)),
    responses((status = 200, description = "The binding", body = Binding), (status = 404, description = "There is none", body = Problem))
)]
pub async fn get(req: HttpRequest, service: ThinData<DataService>) -> Result<impl Responder, Failure> {
    let name = path_name(&req)?;
    let snapshot = service.snapshot()?;
    match snapshot.bindings().get(&name) {
        Some(bound) => Ok(json(&binding(&name, bound))),
        None => Err(Problem::not_found(format!("`{name}` is not bound")).into()),
    }
}
