//! Instances, for people: listing them, and running one by hand.

use std::time::Duration;

use actix_web::web::ThinData;
use actix_web::{HttpRequest, HttpResponse};
use estimand_api::names::{DataName, NodeName};
use estimand_api::node::NodeState;
use estimand_api::problem::{FieldError, Problem};
use estimand_api::slot::{Instance, InstanceSummary, RunReport};
use estimand_web::{Failure, Principal, Query, path_name, path_node};
use tokio::time::Instant;

use crate::Manager;
use crate::leadership::{Leadership, LeadershipError};

use super::changes::read_again;
use super::problems;

/// How long the registry may take when a name is unknown here and may have been registered just now.
const READ_WITHIN: Duration = Duration::from_secs(2);

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
    caller: Principal,
    manager: ThinData<Manager>,
) -> Result<HttpResponse, Failure> {
    let (name, node) = (path_name(&req)?, path_node(&req)?);
    let leadership = manager.leadership()?;
    if leadership.with(|state| state.cluster.registered(&name).is_none()) {
        read_again(&leadership, Instant::now() + READ_WITHIN).await?;
    }
    let (id, answer) = leadership.answer(|state| {
        let registered = state.cluster.registered(&name).cloned();
        let registered = registered.ok_or_else(|| problems::not_registered(&name))?;
        match state.cluster.node_view(&node).map(|view| view.state) {
            None => return Err(problems::no_such_node(&node)),
            Some(NodeState::Lost) => {
                return Err(Problem::unavailable(format!("node `{node}` is lost; nothing was run"), 5));
            }
            Some(NodeState::Ready) => {}
        }
        let asked = state.runs.ask(&node, registered)?;
        state.ring(&node);
        Ok(asked)
    })??;
    manager.shared().figures.runs.increment();
    tracing::info!(%name, %node, id, by = %caller, "a run by hand");
    let _forgotten_at_the_end = ForgetAtDrop { leadership: &leadership, id };
    let within = manager.shared().settings.run_within;
    match leadership.wait(within, answer).await? {
        Some(Ok(Ok(report))) => Ok(HttpResponse::Ok().json(report)),
        Some(Ok(Err(reason))) => {
            Err(Problem::conflict(format!("the agent of `{node}` does not run `{name}`: {reason}")).into())
        }
        // The sender is gone with the leadership.
        Some(Err(_)) => Err(LeadershipError::default().into()),
        None => {
            let detail = format!("the agent of `{node}` has not said within {within:?} what came of the run");
            Err(problems::no_answer(detail).into())
        }
    }
}

/// Forgets a run when its request ends, however it does.
struct ForgetAtDrop<'a> {
    leadership: &'a Leadership,
    id: u64,
}

impl Drop for ForgetAtDrop<'_> {
    fn drop(&mut self) {
        self.leadership.with(|state| state.runs.forget(self.id));
    }
}
