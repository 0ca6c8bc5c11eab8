//! The questions by which clients of InfluxDB find out whether there is a server, and whether it can be used.

use actix_web::web::ThinData;
use actix_web::{HttpRequest, HttpResponse};
use estimand_api::problem::Problem;
use estimand_runtime::Readiness;
use estimand_web::{Failure, Foreign, Query, not_ready};
use serde_json::json;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Something answers here.
#[utoipa::path(
    get,
    path = "/ping",
    operation_id = "ping",
    tag = "data",
    params(
        ("verbose" = Option<String>, Query, description = "`true` has the version answered in a body, too"),
        ("wait_for_leader" = Option<String>, Query, description = "Taken, because clients of InfluxDB send it; there is nothing to wait for"),
    ),
    responses(
        (status = 200, description = "The version, if it is asked for", body = inline(Object)),
        (status = 204, description = "The version is in the header `X-Influxdb-Version`"),
    )
)]
pub async fn ping(req: HttpRequest) -> Result<HttpResponse, Failure> {
    let query = Query::parse(req.query_string(), &["verbose", "wait_for_leader"])?;
    let is_verbose = query.get("verbose").is_some_and(|given| given == "true");
    let mut response = if is_verbose { HttpResponse::Ok() } else { HttpResponse::NoContent() };
    response.insert_header(("X-Influxdb-Version", VERSION)).insert_header(("X-Influxdb-Build", "Estimand"));
    Ok(if is_verbose { response.json(json!({ "version": VERSION })) } else { response.finish() })
}

/// Points can be written, in the words of InfluxDB.
#[utoipa::path(
    get,
    path = "/health",
    operation_id = "health",
    tag = "data",
    responses(
        (status = 200, description = "They can: `status` is `pass`", body = inline(Object)),
        (status = 503, description = "Not yet: `status` is `fail`, and `message` says why", body = inline(Object)),
    )
)]
pub async fn health(readiness: ThinData<Readiness>) -> HttpResponse {
    let said = |status: &str, message: &str| json!({ "name": "estimand", "message": message, "status": status, "checks": [], "version": VERSION });
    match readiness.check() {
        Ok(()) => HttpResponse::Ok().json(said("pass", "ready for queries and writes")),
        Err(parts) => {
            let mut response =
                HttpResponse::ServiceUnavailable().json(said("fail", &not_ready(&parts).detail));
            // It has the form that its callers know.
            response.extensions_mut().insert(Foreign);
            response
        }
    }
}

/// The service is ready, in the words of InfluxDB.
#[utoipa::path(
    get,
    path = "/ready",
    operation_id = "ready",
    tag = "data",
    responses(
        (status = 200, description = "It is: `status` is `ready`", body = inline(Object)),
        (status = 503, description = "Which parts are not, and why", body = Problem),
    )
)]
pub async fn ready(readiness: ThinData<Readiness>) -> Result<HttpResponse, Failure> {
    readiness.check().map_err(|parts| not_ready(&parts))?;
    Ok(HttpResponse::Ok().json(json!({ "status": "ready" })))
}
