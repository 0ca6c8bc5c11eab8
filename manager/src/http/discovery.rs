//! The nodes as targets for Prometheus (`http_sd_configs`): so that programs beside the agents, such as an exporter on
//! each node, are scraped where nodes come and go.

use std::collections::BTreeMap;

use actix_web::web::ThinData;
use actix_web::{HttpRequest, HttpResponse};
use estimand_api::node::Node;
use estimand_api::problem::{FieldError, Problem};
use estimand_web::{Failure, Query};
use serde::Serialize;

use crate::Manager;

/// Before each label, as Prometheus expects of what is not kept unless a rule says so.
const PREFIX: &str = "__meta_estimand_";

/// Targets with labels in common.
#[derive(Debug, PartialEq, Serialize, utoipa::ToSchema)]
pub struct TargetGroup {
    /// The node, with the port that was asked for.
    targets: Vec<String>,
    labels: BTreeMap<String, String>,
}

/// The nodes as targets for Prometheus, for `http_sd_configs`.
///
/// Each has the labels `__meta_estimand_node`, `__meta_estimand_hostname`, `__meta_estimand_state` (`ready` or `lost`),
/// `__meta_estimand_cordoned` and `__meta_estimand_label_KEY` for each of its own labels.
#[utoipa::path(
    get,
    path = "/api/prometheus-targets",
    tag = "nodes",
    params(("port" = Option<u16>, Query, description = "The port of each target; without it a target is the node's name")),
    responses(
        (status = 200, description = "All nodes, `[]` if there are none", body = [TargetGroup]),
        (status = 400, description = "The query is not valid", body = Problem),
        (status = 503, description = "`standing-by`: another manager leads", body = Problem),
    )
)]
pub async fn targets(req: HttpRequest, manager: ThinData<Manager>) -> Result<HttpResponse, Failure> {
    let query = Query::parse(req.query_string(), &["port"])?;
    let port = query.get("port").map(port).transpose()?;
    let nodes = manager.leadership()?.answer(|state| state.cluster.node_views())?;
    let groups: Vec<TargetGroup> = nodes.into_iter().map(|node| group(node, port)).collect();
    Ok(HttpResponse::Ok().json(groups))
}

fn port(given: &str) -> Result<u16, Problem> {
    given.parse().ok().filter(|port| *port > 0).ok_or_else(|| {
        let error = FieldError::new("port", "is not a port").given(given);
        Problem::invalid_field(error.expected("a whole number from 1 to 65535"))
    })
}

fn group(node: Node, port: Option<u16>) -> TargetGroup {
    let name = node.node_name.to_string();
    let target = port.map_or_else(|| name.clone(), |port| format!("{name}:{port}"));
    let own = node.labels.into_iter().map(|(key, value)| (format!("label_{}", label_name(&key)), value));
    let known = [
        ("node", name),
        ("hostname", node.facts.hostname),
        ("state", node.state.as_str().to_owned()),
        ("cordoned", node.cordoned.to_string()),
    ];
    let all = own.chain(known.map(|(key, value)| (key.to_owned(), value)));
    TargetGroup {
        targets: vec![target],
        labels: all.map(|(key, value)| (format!("{PREFIX}{key}"), value)).collect(),
    }
}

/// A key as Prometheus takes it: everything but letters, digits and `_` becomes `_`.
fn label_name(key: &str) -> String {
    key.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '_' }).collect()
}
