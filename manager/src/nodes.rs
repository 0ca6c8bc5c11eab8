//! Nodes, for people: looking at them, keeping further instances away from one, and removing one.
//!
//! What is changed is answered when it is stored.

use std::time::Duration;

use actix_web::web::ThinData;
use actix_web::{HttpRequest, HttpResponse};
use estimand_api::names::NodeName;
use estimand_api::node::Node;
use estimand_api::problem::Problem;
use estimand_web::{Failure, Principal, Query, path_node};
use tokio::sync::oneshot;

use crate::Manager;
use crate::cluster::Told;
use crate::refusal;
use crate::reign::Reign;
use crate::upkeep::removable;

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
pub async fn list(req: HttpRequest, manager: ThinData<Manager>) -> Result<HttpResponse, Failure> {
    Query::parse(req.query_string(), &[])?;
    let nodes = manager.reign()?.answer(|held| Ok(held.cluster.node_views()))?;
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
    Query::parse(req.query_string(), &[])?;
    let node = path_node(&req)?;
    let view = manager
        .reign()?
        .answer(|held| held.cluster.node_view(&node).ok_or_else(|| refusal::no_such_node(&node)))?;
    Ok(HttpResponse::Ok().json(view))
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
    who: Principal,
    manager: ThinData<Manager>,
) -> Result<HttpResponse, Failure> {
    Query::parse(req.query_string(), &[])?;
    let node = path_node(&req)?;
    let reign = manager.reign()?;
    let outcome = reign.answer(|held| {
        removable(held, &node)?;
        let (tell, told) = oneshot::channel();
        let waiting = held.removals.entry(node.clone()).or_default();
        waiting.retain(|other| !other.is_closed());
        waiting.push(tell);
        held.cluster.tell(manager.told(&node, "removed", &who));
        Ok(told)
    })?;
    tracing::info!(%node, by = %who, "a node is to be removed");
    reign.upkeep.ask();
    match reign.wait(REMOVE_WITHIN, outcome).await? {
        Some(Ok(removed)) => removed?,
        // The one who would tell is gone with the reign.
        Some(Err(_)) => return Err(refusal::standing_by(None).into()),
        None => {
            let detail = "the values of the node could not be deleted in time; this goes on";
            return Err(Problem::unavailable(detail, 5).into());
        }
    }
    stored(&reign).await?;
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
    who: Principal,
    manager: ThinData<Manager>,
) -> Result<HttpResponse, Failure> {
    set_cordon(&req, &who, &manager, true).await
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
    who: Principal,
    manager: ThinData<Manager>,
) -> Result<HttpResponse, Failure> {
    set_cordon(&req, &who, &manager, false).await
}

async fn set_cordon(
    req: &HttpRequest,
    who: &Principal,
    manager: &Manager,
    cordoned: bool,
) -> Result<HttpResponse, Failure> {
    Query::parse(req.query_string(), &[])?;
    let node = path_node(req)?;
    let reign = manager.reign()?;
    reign.answer(|held| {
        held.cluster.cordon(&node, cordoned).ok_or_else(|| refusal::no_such_node(&node))?;
        let action = if cordoned { "cordoned" } else { "uncordoned" };
        held.cluster.tell(manager.told(&node, action, who));
        Ok(())
    })?;
    tracing::info!(%node, cordoned, by = %who, "a node is cordoned or no more");
    stored(&reign).await?;
    let view =
        reign.answer(|held| held.cluster.node_view(&node).ok_or_else(|| refusal::no_such_node(&node)))?;
    Ok(HttpResponse::Ok().json(view))
}

/// Waits until what was changed before is stored.
async fn stored(reign: &Reign) -> Result<(), Problem> {
    let look = reign.ask_look();
    reign.wait(STORE_WITHIN, reign.looks.done(look)).await?.ok_or_else(refusal::store_slow)
}

impl Manager {
    /// What the audit trail is to say.
    fn told(&self, node: &NodeName, action: &'static str, who: &Principal) -> Told {
        let id = format!("{:016x}", fastrand::u64(..));
        Told { at_us: self.0.clock.now_micros(), id, node: node.clone(), action, by: who.to_string() }
    }
}
