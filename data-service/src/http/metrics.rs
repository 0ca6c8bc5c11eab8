//! The values for Prometheus, by name and node: as in `/metrics`, but only those that are asked for, so that the values of
//! a large cluster can be scraped in several jobs or node by node.

use actix_web::web::ThinData;
use actix_web::{HttpRequest, HttpResponse};
use estimand_api::names::{DataName, NodeName};
use estimand_api::problem::Problem;
use estimand_web::{Failure, Query, exposition};

use crate::DataService;
use crate::figures::values::{Selection, ValueFigures};
use crate::http::asked::{NodeNames, named_nodes};
use crate::http::names::{AskedNames, Names};

/// Values for Prometheus.
///
/// Their numbers, states and ages as `/metrics` has them. At most 500,000 numbers; what is left out is counted.
#[utoipa::path(
    get,
    path = "/api/data/metrics",
    tag = "data",
    params(
        ("dataName" = Option<Names>, Query, description = "One name, several with commas, or `*`, which is the default"),
        ("dataNode" = Option<NodeNames>, Query, description = "Only values of this node, or of several with commas; also spelt `nodeName`"),
    ),
    responses(
        (status = 200, description = "Text exposition", body = String, content_type = "text/plain"),
        (status = 400, description = "The query is not valid", body = Problem),
        (status = 503, description = "Not loaded yet", body = Problem),
    )
)]
pub async fn metrics(req: HttpRequest, service: ThinData<DataService>) -> Result<HttpResponse, Failure> {
    let allowed = &["dataName", "dataNode", "nodeName"];
    let query = Query::with_lists(req.query_string(), allowed, allowed)?;
    let names = AskedNames::parse(query.get("dataName").or(Some("*")))?;
    let nodes = named_nodes(query.get("dataNode"), query.get("nodeName"))?;
    let nodes = nodes.map(|nodes| nodes.into_iter().filter_map(|node| NodeName::parse(node).ok()).collect());
    let snapshot = service.snapshot()?;
    let names = match &names {
        AskedNames::All => None,
        some => Some(some.of(&snapshot).into_iter().filter_map(|name| DataName::parse(name).ok()).collect()),
    };
    let selection = Selection { names, nodes };
    Ok(exposition(Box::new(ValueFigures::new(service.0.clone(), selection))))
}
