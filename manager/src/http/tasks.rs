//! The tasks of nodes: the task service says what belongs where, and the node's agent hears of it beside its slots.

use actix_web::web::ThinData;
use actix_web::{HttpRequest, HttpResponse};
use bytes::Bytes;
use estimand_api::json::member_of;
use estimand_api::names::NodeName;
use estimand_api::node::NodeState;
use estimand_api::problem::{FieldError, Problem};
use estimand_api::task::{NodeTasks, NodesTold};
use estimand_web::{Body, Failure, path_node};

use crate::Manager;
use crate::leadership::LeadershipState;

use super::problems;

/// The tasks of one node. A document has at most 256 KiB.
const MAX_TASKS_BYTES: usize = 32 * 1024 * 1024;

/// Says which tasks belong on a node: all of them.
#[utoipa::path(
    put,
    path = "/api/mng/nodes/{node}/tasks",
    tag = "agents",
    params(("node" = NodeName, Path)),
    request_body(content = NodeTasks, description = "All tasks that belong there; passed on as they are"),
    responses(
        (status = 200, description = "Kept for as long as this manager leads, and on its way to the agent", body = NodesTold),
        (status = 400, description = "The name or the body is not valid", body = Problem),
        (status = 404, description = "There is no such node", body = Problem),
        (status = 409, description = "The node is lost: it is told when it is back", body = Problem),
        (status = 413, description = "The body is too large", body = Problem),
        (status = 503, description = "`standing-by`: another manager leads", body = Problem),
    )
)]
pub async fn put(
    req: HttpRequest,
    body: Body<MAX_TASKS_BYTES>,
    manager: ThinData<Manager>,
) -> Result<HttpResponse, Failure> {
    let node = path_node(&req)?;
    let tasks = body.parse(list_of).await?;
    let leadership = manager.leadership()?;
    leadership.answer(|state| tell(state, &node, tasks))??;
    Ok(HttpResponse::Ok().json(NodesTold { epoch: leadership.term().epoch(), nodes: vec![node] }))
}

/// The nodes whose tasks this manager was told since it leads.
#[utoipa::path(
    get,
    path = "/api/mng/nodes/tasks",
    tag = "agents",
    responses(
        (status = 200, description = "The nodes, and the epoch of the leadership", body = NodesTold),
        (status = 503, description = "`standing-by`: another manager leads", body = Problem),
    )
)]
pub async fn told(manager: ThinData<Manager>) -> Result<HttpResponse, Failure> {
    let leadership = manager.leadership()?;
    let nodes = leadership.answer(|state| state.tasks.nodes())?;
    Ok(HttpResponse::Ok().json(NodesTold { epoch: leadership.term().epoch(), nodes }))
}

fn tell(state: &mut LeadershipState, node: &NodeName, tasks: Bytes) -> Result<(), Problem> {
    let known = state.cluster.node_view(node).ok_or_else(|| problems::no_such_node(node))?;
    if known.state == NodeState::Lost {
        return Err(problems::node_is_lost(node));
    }
    if state.tasks.set(node, tasks) {
        state.cluster.renew(node);
        state.ring(node);
    }
    Ok(())
}

/// The list as it goes to the agent, to the letter: only that it is one is looked at.
fn list_of(body: &[u8]) -> Result<Bytes, Problem> {
    match member_of(body, "tasks")? {
        Some(tasks) if tasks.starts_with('[') => Ok(Bytes::from(tasks)),
        Some(_) => Err(Problem::invalid_field(FieldError::new("tasks", "is not an array"))),
        None => Err(Problem::invalid_field(FieldError::new("tasks", "is missing"))),
    }
}
