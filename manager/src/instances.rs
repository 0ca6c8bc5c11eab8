//! Instances, for people: what runs where and how, and running one by hand.

use std::time::Duration;

use actix_web::web::ThinData;
use actix_web::{HttpRequest, HttpResponse};
use estimand_api::names::{DataName, NodeName};
use estimand_api::node::NodeState;
use estimand_api::problem::{FieldError, Problem, kind};
use estimand_api::slot::{Instance, RunReport};
use estimand_web::{Failure, Principal, Query, path_name, path_node};
use tokio::time::Instant;

use crate::Manager;
use crate::changes::read_again;
use crate::refusal;
use crate::reign::Reign;

/// How long the registry may take to say whether a name that is not known was registered just now.
const READ_WITHIN: Duration = Duration::from_secs(2);

/// What runs where, in order of node and name.
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
        manager.reign()?.answer(|held| Ok(held.cluster.instance_views(name.as_ref(), node.as_ref())))?;
    Ok(HttpResponse::Ok().json(instances))
}

/// Runs a registration once on a node, now; the answer comes with everything about it. Nothing is stored.
#[utoipa::path(
    post,
    path = "/api/mng/instances/{dataName}/{node}/run",
    tag = "manager",
    params(("dataName" = DataName, Path), ("node" = NodeName, Path)),
    responses(
        (status = 200, description = "It ran", body = RunReport),
        (status = 400, description = "A name is not valid", body = Problem),
        (status = 404, description = "There is no such registration, or no such node", body = Problem),
        (status = 409, description = "The agent does not run it; the detail says why", body = Problem),
        (status = 503, description = "The node is lost, or too many wait; nothing was run. Or `standing-by`", body = Problem),
        (status = 504, description = "`no-answer`: the agent has not said in time what came of it", body = Problem),
    )
)]
pub async fn run(
    req: HttpRequest,
    who: Principal,
    manager: ThinData<Manager>,
) -> Result<HttpResponse, Failure> {
    Query::parse(req.query_string(), &[])?;
    let (name, node) = (path_name(&req)?, path_node(&req)?);
    let reign = manager.reign()?;
    if reign.with(|held| held.cluster.registered(&name).is_none()) {
        read_again(&reign, Instant::now() + READ_WITHIN).await?;
    }
    let (id, answer) = reign.answer(|held| {
        let registered = held.cluster.registered(&name).cloned();
        let registered = registered.ok_or_else(|| refusal::not_registered(&name))?;
        match held.cluster.node_view(&node).map(|view| view.state) {
            None => return Err(refusal::no_such_node(&node)),
            Some(NodeState::Lost) => {
                return Err(Problem::unavailable(format!("node `{node}` is lost; nothing was run"), 5));
            }
            Some(NodeState::Ready) => {}
        }
        let asked = held.runs.ask(&node, registered)?;
        held.ring(&node);
        Ok(asked)
    })?;
    manager.shared().figures.runs.increment();
    tracing::info!(%name, %node, id, by = %who, "a run by hand");
    let _forgotten_at_the_end = Forget { reign: &reign, id };
    let within = manager.shared().settings.run_within;
    match reign.wait(within, answer).await? {
        Some(Ok(Ok(report))) => Ok(HttpResponse::Ok().json(report)),
        Some(Ok(Err(reason))) => {
            Err(Problem::conflict(format!("the agent of `{node}` does not run `{name}`: {reason}")).into())
        }
        // The one who would tell is gone with the reign.
        Some(Err(_)) => Err(refusal::standing_by(None).into()),
        None => {
            let detail = format!("the agent of `{node}` has not said within {within:?} what came of the run");
            Err(Problem::new(504, kind::NO_ANSWER, "The agent did not answer in time", detail).into())
        }
    }
}

/// Nobody waits any more, however the waiting ended.
struct Forget<'a> {
    reign: &'a Reign,
    id: u64,
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        self.reign.with(|held| held.runs.forget(self.id));
    }
}
