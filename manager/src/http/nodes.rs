//! Nodes, for people: looking at them, labelling one, keeping further instances away from one, and removing one.
//!
//! A change is answered when it is stored.

use std::time::Duration;

use actix_web::web::ThinData;
use actix_web::{HttpRequest, HttpResponse};
use estimand_api::json::parse_object;
use estimand_api::labels::LabelChanges;
use estimand_api::names::NodeName;
use estimand_api::node::Node;
use estimand_api::problem::Problem;
use estimand_web::{Body, Failure, Principal, path_node};

use crate::Manager;
use crate::core::{AuditedChange, LabelError, RemoveError};
use crate::leadership::{Leadership, LeadershipError};

use super::problems;

/// Room for as many labels as a node may have.
const MAX_LABELS_BYTES: usize = 32 * 1024;
/// How long a caller waits for the database.
const STORE_WITHIN: Duration = Duration::from_secs(5);
/// How long a caller waits for the values of a node to be deleted.
const REMOVE_WITHIN: Duration = Duration::from_secs(20);

/// All nodes, in order of name.
#[utoipa::path(
    get,
    path = "/api/nodes",
    tag = "nodes",
    responses(
        (status = 200, description = "All nodes, `[]` if there are none", body = [Node]),
        (status = 503, description = "`standing-by`: another manager leads", body = Problem),
    )
)]
pub async fn list(manager: ThinData<Manager>) -> Result<HttpResponse, Failure> {
    let nodes = manager.leadership()?.answer(|state| state.cluster.node_views())?;
    Ok(HttpResponse::Ok().json(nodes))
}

/// One node.
#[utoipa::path(
    get,
    path = "/api/nodes/{node}",
    tag = "nodes",
    params(("node" = NodeName, Path)),
    responses(
        (status = 200, description = "The node", body = Node),
        (status = 400, description = "This is no node name", body = Problem),
        (status = 404, description = "There is no such node", body = Problem),
        (status = 503, description = "`standing-by`: another manager leads", body = Problem),
    )
)]
pub async fn get(req: HttpRequest, manager: ThinData<Manager>) -> Result<HttpResponse, Failure> {
    let node = path_node(&req)?;
    let view = manager.leadership()?.answer(|state| state.cluster.node_view(&node))?;
    Ok(HttpResponse::Ok().json(view.ok_or_else(|| problems::no_such_node(&node))?))
}

/// Removes a node that is lost, and deletes its values.
#[utoipa::path(
    delete,
    path = "/api/nodes/{node}",
    tag = "nodes",
    params(("node" = NodeName, Path)),
    responses(
        (status = 204, description = "Removed; none of its values is left"),
        (status = 400, description = "This is no node name", body = Problem),
        (status = 404, description = "There is no such node", body = Problem),
        (status = 409, description = "Its agent is heard of", body = Problem),
        (status = 503, description = "Not finished; the detail says whether it goes on", body = Problem),
    )
)]
pub async fn remove(
    req: HttpRequest,
    caller: Principal,
    manager: ThinData<Manager>,
) -> Result<HttpResponse, Failure> {
    let node = path_node(&req)?;
    let leadership = manager.leadership()?;
    let outcome = leadership.answer(|state| {
        state.cluster.check_removable(&node)?;
        state.cluster.audit(manager.audited(&node, "removed", &caller));
        Ok::<_, RemoveError>(state.removals.request(&node))
    })??;
    tracing::info!(%node, by = %caller, "a node is to be removed");
    leadership.updates.ask();
    match leadership.wait(REMOVE_WITHIN, outcome).await? {
        Some(Ok(removed)) => removed?,
        // The sender is gone with the leadership.
        Some(Err(_)) => return Err(LeadershipError::default().into()),
        None => {
            let detail = "the values of the node could not be deleted in time; this goes on";
            return Err(Problem::unavailable(detail, 5).into());
        }
    }
    stored(&leadership).await?;
    Ok(HttpResponse::NoContent().finish())
}

/// Cordons a node: nothing further that runs on a number of nodes is placed there.
#[utoipa::path(
    put,
    path = "/api/nodes/{node}/cordon",
    tag = "nodes",
    params(("node" = NodeName, Path)),
    responses(
        (status = 200, description = "The node; what it has stays there", body = Node),
        (status = 400, description = "This is no node name", body = Problem),
        (status = 404, description = "There is no such node", body = Problem),
        (status = 503, description = "Not now; the detail says whether it may have taken effect", body = Problem),
    )
)]
pub async fn cordon(
    req: HttpRequest,
    caller: Principal,
    manager: ThinData<Manager>,
) -> Result<HttpResponse, Failure> {
    set_cordon(&req, &caller, &manager, true).await
}

/// Changes the labels that operators have set on a node. They outweigh those that its agent claims, and outlast it.
#[utoipa::path(
    patch,
    path = "/api/nodes/{node}/labels",
    tag = "nodes",
    params(("node" = NodeName, Path)),
    request_body(content = LabelChanges, description = "The labels to set; null takes one away"),
    responses(
        (status = 200, description = "The node", body = Node),
        (status = 400, description = "The name or the body is not valid", body = Problem),
        (status = 404, description = "There is no such node", body = Problem),
        (status = 409, description = "The node would have too many labels", body = Problem),
        (status = 503, description = "Not now; the detail says whether it may have taken effect", body = Problem),
    )
)]
pub async fn label(
    req: HttpRequest,
    caller: Principal,
    body: Body<MAX_LABELS_BYTES>,
    manager: ThinData<Manager>,
) -> Result<HttpResponse, Failure> {
    let node = path_node(&req)?;
    let changes = LabelChanges::from_map(parse_object(&body.0)?)?;
    let leadership = manager.leadership()?;
    leadership.answer(|state| {
        state.cluster.label(&node, &changes)?;
        let detail = Some(changes.to_json().to_string());
        state.cluster.audit(AuditedChange { detail, ..manager.audited(&node, "labelled", &caller) });
        Ok::<_, LabelError>(())
    })??;
    tracing::info!(%node, by = %caller, "the labels of a node are changed");
    stored_view(&node, &leadership).await
}

/// Undoes a cordon.
#[utoipa::path(
    delete,
    path = "/api/nodes/{node}/cordon",
    tag = "nodes",
    params(("node" = NodeName, Path)),
    responses(
        (status = 200, description = "The node", body = Node),
        (status = 400, description = "This is no node name", body = Problem),
        (status = 404, description = "There is no such node", body = Problem),
        (status = 503, description = "Not now; the detail says whether it may have taken effect", body = Problem),
    )
)]
pub async fn uncordon(
    req: HttpRequest,
    caller: Principal,
    manager: ThinData<Manager>,
) -> Result<HttpResponse, Failure> {
    set_cordon(&req, &caller, &manager, false).await
}

async fn set_cordon(
    req: &HttpRequest,
    caller: &Principal,
    manager: &Manager,
    cordoned: bool,
) -> Result<HttpResponse, Failure> {
    let node = path_node(req)?;
    let leadership = manager.leadership()?;
    let action = if cordoned { "cordoned" } else { "uncordoned" };
    let known = leadership.answer(|state| {
        state.cluster.cordon(&node, cordoned)?;
        state.cluster.audit(manager.audited(&node, action, caller));
        Some(())
    })?;
    known.ok_or_else(|| problems::no_such_node(&node))?;
    tracing::info!(%node, cordoned, by = %caller, "a node is cordoned or no more");
    stored_view(&node, &leadership).await
}

/// The node, when its changes are stored.
async fn stored_view(node: &NodeName, leadership: &Leadership) -> Result<HttpResponse, Failure> {
    stored(leadership).await?;
    let view = leadership.answer(|state| state.cluster.node_view(node))?;
    Ok(HttpResponse::Ok().json(view.ok_or_else(|| problems::no_such_node(node))?))
}

/// Waits until the changes so far are stored.
pub async fn stored(leadership: &Leadership) -> Result<(), Problem> {
    let look = leadership.ask_look();
    leadership.wait(STORE_WITHIN, leadership.looks.done(look)).await?.ok_or_else(problems::store_slow)
}

impl Manager {
    /// A line of the audit trail.
    pub fn audited(&self, node: &NodeName, action: &'static str, caller: &Principal) -> AuditedChange {
        let id = format!("{:016x}", fastrand::u64(..));
        let at_us = self.0.clock.now_micros();
        AuditedChange { at_us, id, node: node.clone(), action, actor: caller.to_string(), detail: None }
    }
}
