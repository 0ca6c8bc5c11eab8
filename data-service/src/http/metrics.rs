//! The values for Prometheus, by name and node: as in `/metrics`, but only those that are asked for, so that the values of
//! a large cluster can be scraped in several jobs or node by node.

use actix_web::web::ThinData;
use actix_web::{HttpRequest, HttpResponse};
use estimand_api::names::{DataName, NodeName};
use estimand_api::problem::Problem;
use estimand_web::{Failure, Query, exposition};

use crate::DataService;
use crate::figures::values::{Selection, ValueFigures};
use crate::http::names::{AskedNames, Names};
use crate::http::read::node_of;

/// Values for Prometheus.
///
/// Their numbers, states and ages as `/metrics` has them. At most 500,000 numbers; what is left out is counted.
#[utoipa::path(
    get,
    path = "/api/data/metrics",
    tag = "data",
    params(
        ("dataName" = Option<Names>, Query, description = "One name, several with commas, or `*`, which is the default"),
        ("dataNode" = Option<NodeName>, Query, description = "Only values of this node; also spelt `nodeName`"),
    ),
    responses(
        (status = 200, description = "Text exposition", body = String, content_type = "text/plain"),
        (status = 400, description = "The query is not valid", body = Problem),
        (status = 503, description = "Not loaded yet", body = Problem),
    )
)]
pub async fn metrics(req: HttpRequest, service: ThinData<DataService>) -> Result<HttpResponse, Failure> {
    let query = Query::parse(req.query_string(), &["dataName", "dataNode", "nodeName"])?;
    let names = AskedNames::parse(query.get("dataName").or(Some("*")))?;
    let node = node_of(query.get("dataNode"), query.get("nodeName"))?;
    let node = node.map(NodeName::parse).transpose().map_err(|e| Problem::invalid_field(e.at("dataNode")))?;
    let snapshot = service.snapshot()?;
    let names = match &names {
        AskedNames::All => None,
        some => Some(some.of(&snapshot).into_iter().filter_map(|name| DataName::parse(name).ok()).collect()),
    };
    let selection = Selection { names, node };
    Ok(exposition(Box::new(ValueFigures::new(service.0.clone(), selection))))
}
