//! Instances, for people.

use actix_web::web::ThinData;
use actix_web::{HttpRequest, HttpResponse};
use estimand_api::names::{DataName, NodeName};
use estimand_api::problem::{FieldError, Problem};
use estimand_api::slot::{Instance, InstanceSummary};
use estimand_web::{Failure, Query};

use crate::Manager;

/// The instances, in order of node and name.
#[utoipa::path(
    get,
    path = "/api/mng/instances",
    tag = "manager",
    params(
        ("dataName" = Option<DataName>, Query, description = "Only the instances of this registration"),
        ("dataNode" = Option<NodeName>, Query, description = "Only those on this node; also spelt `nodeName`"),
    ),
    responses(
        (status = 200, description = "The instances, `[]` if there are none", body = [Instance]),
        (status = 400, description = "The query is not valid", body = Problem),
        (status = 503, description = "`standing-by`: another manager leads", body = Problem),
    )
)]
pub async fn list(req: HttpRequest, manager: ThinData<Manager>) -> Result<HttpResponse, Failure> {
    let query = Query::parse(req.query_string(), &["dataName", "dataNode", "nodeName"])?;
    let name = query.get("dataName").map(DataName::parse).transpose();
    let name = name.map_err(|e| Problem::invalid_field(e.at("dataName")))?;
    let node = match (query.get("dataNode"), query.get("nodeName")) {
        (Some(_), Some(_)) => {
            let error = FieldError::new("nodeName", "is the same as `dataNode`, which is given as well");
            return Err(Problem::invalid_field(error.expected("one of them")).into());
        }
        (one, other) => one.or(other).map(NodeName::parse).transpose(),
    };
    let node = node.map_err(|e| Problem::invalid_field(e.at("dataNode")))?;
    let instances =
        manager.leadership()?.answer(|state| state.cluster.instance_views(name.as_ref(), node.as_ref()))?;
    Ok(HttpResponse::Ok().json(instances))
}

/// How the instances of each registration are: how many there are, and why the first of those that need attention does.
#[utoipa::path(
    get,
    path = "/api/mng/instances/summary",
    tag = "manager",
    responses(
        (status = 200, description = "In the order of their names; a registration that runs nowhere is not there", body = [InstanceSummary]),
        (status = 503, description = "`standing-by`: another manager leads", body = Problem),
    )
)]
pub async fn summary(manager: ThinData<Manager>) -> Result<HttpResponse, Failure> {
    let summaries = manager.leadership()?.answer(|state| state.cluster.instance_summaries())?;
    Ok(HttpResponse::Ok().json(summaries.into_values().collect::<Vec<_>>()))
}
