//! The routes that every service has: liveness, readiness, figures, and the description of the interface.

use actix_web::http::header::ContentType;
use actix_web::web::{self, ThinData};
use actix_web::{HttpResponse, Responder};
use bytes::Bytes;
use estimand_api::problem::{FieldError, Problem};
use estimand_runtime::metrics::Pieces;
use estimand_runtime::{Metrics, Readiness, Unready, metrics};
use futures_util::stream::unfold;

use crate::failure::Failure;
use crate::role::Role;
use crate::routes::Routes;

/// Where the description of the interface is.
pub(crate) const OPENAPI_PATH: &str = "/openapi.json";

/// After how many seconds it makes sense to ask for readiness again.
const RETRY_AFTER_S: u32 = 1;

/// The description, rendered once.
#[derive(Clone)]
pub(crate) struct Description(pub(crate) Bytes);

pub(crate) fn routes(service: &'static str) -> Routes {
    Routes::new(service)
        .add(Role::Open, healthz, __path_healthz)
        .add(Role::Open, readyz, __path_readyz)
        .add(Role::Read, figures, __path_figures)
        .add(Role::Open, openapi, __path_openapi)
}

/// The process is alive.
#[utoipa::path(get, path = "/healthz", tag = "service", responses((status = 200, description = "It is")))]
async fn healthz() -> impl Responder {
    HttpResponse::Ok().content_type(ContentType::json()).body(Bytes::from_static(br#"{"status":"alive"}"#))
}

/// Every part of the service is ready to be used.
#[utoipa::path(get, path = "/readyz", tag = "service", responses(
    (status = 200, description = "All are"),
    (status = 503, description = "Which are not, and why", body = Problem,
        content_type = "application/problem+json"),
))]
async fn readyz(readiness: ThinData<Readiness>) -> Result<impl Responder, Failure> {
    readiness.check().map_err(|parts| not_ready(&parts))?;
    let body = Bytes::from_static(br#"{"status":"ready"}"#);
    Ok(HttpResponse::Ok().content_type(ContentType::json()).body(body))
}

/// The answer while parts are not ready.
pub fn not_ready(parts: &[Unready]) -> Problem {
    let errors: Vec<_> =
        parts.iter().map(|unready| FieldError::new(unready.part, unready.why.as_str())).collect();
    let detail = errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    Problem { errors, ..Problem::unavailable(format!("not ready: {detail}"), RETRY_AFTER_S) }
}

/// The service's figures, for Prometheus.
#[utoipa::path(get, path = "/metrics", tag = "service", responses(
    (status = 200, description = "Text exposition", body = String, content_type = "text/plain"),
))]
async fn figures(metrics: ThinData<Metrics>) -> HttpResponse {
    exposition(metrics.0.pieces())
}

/// Figures as a response. Each piece is made beside the workers, when the connection has taken the one before it: so a
/// scrape takes hardly any memory, however slowly it is read.
pub fn exposition(pieces: Pieces) -> HttpResponse {
    let stream = unfold(pieces, |mut pieces| async move {
        let made = web::block(move || pieces.next().map(|piece| (piece, pieces))).await;
        match made {
            Ok(made) => made.map(|(piece, pieces)| (Ok::<_, actix_web::Error>(Bytes::from(piece)), pieces)),
            Err(error) => Some((Err(error.into()), Box::new(std::iter::empty()) as Pieces)),
        }
    });
    HttpResponse::Ok().content_type(metrics::MEDIA_TYPE).streaming(Box::pin(stream))
}

/// This description.
#[utoipa::path(get, path = "/openapi.json", tag = "service", responses(
    (status = 200, description = "OpenAPI 3.1", content_type = "application/json"),
))]
async fn openapi(description: ThinData<Description>) -> impl Responder {
    HttpResponse::Ok().content_type(ContentType::json()).body(description.0.0.clone())
}
