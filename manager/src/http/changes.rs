//! Notices of changes: the paper's `POST /api/mng` and `DELETE /api/mng/{dataName}`.
//!
//! A notice is only a reason to look: the registry is read, and its content counts. The answer waits a little, so
//! that it can report the outcome.

use std::collections::BTreeSet;
use std::time::Duration;

use actix_web::web::ThinData;
use actix_web::{HttpRequest, HttpResponse};
use estimand_api::names::{DataName, NodeName};
use estimand_api::notice::{Placement, Termination};
use estimand_api::problem::Problem;
use estimand_api::registration::{MAX_REGISTRATION_BYTES, Registration};
use estimand_web::{Body, Failure, path_name};
use tokio::time::Instant;

use crate::Manager;
use crate::leadership::{Leadership, LeadershipState};

use super::problems;

/// How long the notice of a registration waits.
const PLACED_WITHIN: Duration = Duration::from_secs(5);
/// How long the notice of a deletion waits.
const GONE_WITHIN: Duration = Duration::from_secs(10);

/// Tells the manager that a registration is new, or another than before.
#[utoipa::path(
    post,
    path = "/api/mng",
    tag = "manager",
    request_body(content = Registration, description = "The registration; what counts is what the registry says of its `dataName`"),
    responses(
        (status = 200, description = "Where it belongs now", body = Placement),
        (status = 400, description = "The registration is not valid", body = Problem),
        (status = 404, description = "The registry has no such registration", body = Problem),
        (status = 413, description = "The body is too large", body = Problem),
        (status = 503, description = "`standing-by`: another manager leads; or the registry or the database does not answer in time", body = Problem),
    )
)]
pub async fn post(
    body: Body<MAX_REGISTRATION_BYTES>,
    manager: ThinData<Manager>,
) -> Result<HttpResponse, Failure> {
    let name = Registration::parse(&body.0)?.registration.data_name;
    let (leadership, end) = (manager.leadership()?, Instant::now() + PLACED_WITHIN);
    read_again(&leadership, end).await?;
    if leadership.answer(|state| state.cluster.registered(&name).is_none())? {
        return Err(problems::not_registered(&name).into());
    }
    look_again(&leadership, end).await?;
    let nodes = leadership.answer(|state| nodes_for(state, &name))?;
    Ok(HttpResponse::Ok().json(Placement { data_name: name, nodes }))
}

/// Tells the manager that a registration is gone; answers when its slots are gone too.
#[utoipa::path(
    delete,
    path = "/api/mng/{dataName}",
    tag = "manager",
    params(("dataName" = DataName, Path)),
    responses(
        (status = 200, description = "Where its slots have ended, and where that is not certain", body = Termination),
        (status = 400, description = "This is no data name", body = Problem),
        (status = 409, description = "It is registered: unregister it at the registry", body = Problem),
        (status = 503, description = "`standing-by`: another manager leads; or the registry or the database does not answer in time", body = Problem),
    )
)]
pub async fn delete(req: HttpRequest, manager: ThinData<Manager>) -> Result<HttpResponse, Failure> {
    gone(path_name(&req)?, &manager).await
}

/// The same for the data name `instances`, whose path is also that of the list of instances.
#[utoipa::path(
    delete,
    path = "/api/mng/instances",
    tag = "manager",
    responses(
        (status = 200, description = "As for any other data name", body = Termination),
        (status = 409, description = "It is registered: unregister it at the registry", body = Problem),
        (status = 503, description = "As for any other data name", body = Problem),
    )
)]
pub async fn delete_instances(manager: ThinData<Manager>) -> Result<HttpResponse, Failure> {
    let name = DataName::parse("instances").map_err(|e| Problem::invalid_field(e.at("dataName")))?;
    gone(name, &manager).await
}

async fn gone(name: DataName, manager: &Manager) -> Result<HttpResponse, Failure> {
    let (leadership, end) = (manager.leadership()?, Instant::now() + GONE_WITHIN);
    let mut had = leadership.answer(|state| nodes_with(state, &name))?;
    read_again(&leadership, end).await?;
    if leadership.answer(|state| state.cluster.registered(&name).is_some())? {
        return Err(Problem::conflict(format!(
            "`{name}` is registered; DELETE /api/registry/{name} unregisters it, and the manager hears of that"
        ))
        .into());
    }
    look_again(&leadership, end).await?;
    let left = loop {
        // Made before the look, so that nothing that is heard after it is missed.
        let heard = leadership.heartbeats().notified();
        let left = leadership.answer(|state| state.cluster.remaining_nodes(&name))?;
        had.extend(left.waiting.iter().chain(&left.unreachable).cloned());
        if left.waiting.is_empty() || leadership.wait(rest(end), heard).await?.is_none() {
            break left;
        }
    };
    let unreachable: BTreeSet<NodeName> = left.waiting.into_iter().chain(left.unreachable).collect();
    let ended = had.into_iter().filter(|node| !unreachable.contains(node)).collect();
    Ok(HttpResponse::Ok().json(Termination { data_name: name, ended, unreachable }))
}

/// Asks for a read of the registry, and waits for its end.
pub async fn read_again(leadership: &Leadership, end: Instant) -> Result<(), Problem> {
    let read = leadership.reads.ask();
    leadership.wait(rest(end), leadership.reads.done(read)).await?.ok_or_else(problems::registry_slow)
}

/// Asks for a look at the cluster, and waits until its outcome is stored.
async fn look_again(leadership: &Leadership, end: Instant) -> Result<(), Problem> {
    let look = leadership.ask_look();
    leadership.wait(rest(end), leadership.looks.done(look)).await?.ok_or_else(problems::store_slow)
}

fn rest(end: Instant) -> Duration {
    end.saturating_duration_since(Instant::now())
}

/// The nodes that have an instance, also one that still ends.
fn nodes_with(state: &LeadershipState, name: &DataName) -> BTreeSet<NodeName> {
    let instances = state.cluster.instance_views(Some(name), None);
    instances.into_iter().map(|instance| instance.node_name).collect()
}

/// The nodes where an instance belongs.
fn nodes_for(state: &LeadershipState, name: &DataName) -> BTreeSet<NodeName> {
    let belongs = |node: &NodeName| {
        let slots = state.cluster.desired(node).map_or(&[][..], |(_, slots)| slots);
        slots.iter().any(|slot| slot.registered.registration.data_name == *name)
    };
    nodes_with(state, name).into_iter().filter(belongs).collect()
}
