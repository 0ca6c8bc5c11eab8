//! Being told of changes: the paper's `POST /api/mng` and `DELETE /api/mng/{dataName}`.
//!
//! What is told is only a reason to look: the registry is read, and what it says counts. The answer waits a
//! little, so that it can say what came of it.

use std::collections::BTreeSet;
use std::time::Duration;

use actix_web::web::ThinData;
use actix_web::{HttpRequest, HttpResponse};
use estimand_api::names::{DataName, NodeName};
use estimand_api::problem::Problem;
use estimand_api::registration::{MAX_REGISTRATION_BYTES, Registration};
use estimand_web::{Body, Failure, Query, path_name};
use serde::Serialize;
use tokio::time::Instant;

use crate::Manager;
use crate::refusal;
use crate::reign::{Held, Reign};

/// How long whoever tells of a registration waits.
const PLACED_WITHIN: Duration = Duration::from_secs(5);
/// How long whoever tells of a deletion waits.
const GONE_WITHIN: Duration = Duration::from_secs(10);

/// Where an instance of a registration belongs now.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Placed {
    data_name: DataName,
    nodes: BTreeSet<NodeName>,
}

/// Where a data name's slots have ended.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Ended {
    data_name: DataName,
    /// Their agents say that the slots are gone, with all their processes.
    ended: BTreeSet<NodeName>,
    /// Lost nodes, and those whose agents did not say so in time.
    unreachable: BTreeSet<NodeName>,
}

/// Tells the manager that a registration is new, or another than before.
#[utoipa::path(
    post,
    path = "/api/mng",
    tag = "manager",
    request_body(content = Registration, description = "The registration; what counts is what the registry says of its `dataName`"),
    responses(
        (status = 200, description = "Where it belongs now", body = Placed),
        (status = 400, description = "The registration is not valid", body = Problem),
        (status = 404, description = "The registry has no such registration", body = Problem),
        (status = 413, description = "The body is too large", body = Problem),
        (status = 503, description = "`standing-by`: another manager leads; or the registry or the database does not answer in time", body = Problem),
    )
)]
pub async fn post(
    req: HttpRequest,
    body: Body<MAX_REGISTRATION_BYTES>,
    manager: ThinData<Manager>,
) -> Result<HttpResponse, Failure> {
    Query::parse(req.query_string(), &[])?;
    let name = Registration::parse(&body.0)?.registration.data_name;
    let (reign, end) = (manager.reign()?, Instant::now() + PLACED_WITHIN);
    read_again(&reign, end).await?;
    reign.answer(|held| match held.cluster.registered(&name) {
        Some(_) => Ok(()),
        None => Err(refusal::not_registered(&name)),
    })?;
    look_again(&reign, end).await?;
    let nodes = reign.answer(|held| Ok(nodes_for(held, &name)))?;
    Ok(HttpResponse::Ok().json(Placed { data_name: name, nodes }))
}

/// Tells the manager that a registration is gone; answers when its slots are gone too.
#[utoipa::path(
    delete,
    path = "/api/mng/{dataName}",
    tag = "manager",
    params(("dataName" = DataName, Path)),
    responses(
        (status = 200, description = "Where its slots have ended, and where that is not certain", body = Ended),
        (status = 400, description = "This is no data name", body = Problem),
        (status = 409, description = "It is registered: unregister it at the registry", body = Problem),
        (status = 503, description = "`standing-by`: another manager leads; or the registry or the database does not answer in time", body = Problem),
    )
)]
pub async fn delete(req: HttpRequest, manager: ThinData<Manager>) -> Result<HttpResponse, Failure> {
    Query::parse(req.query_string(), &[])?;
    gone(path_name(&req)?, &manager).await
}

/// The same for the data name `instances`, whose path is also that of the list of instances.
#[utoipa::path(
    delete,
    path = "/api/mng/instances",
    tag = "manager",
    responses(
        (status = 200, description = "As for any other data name", body = Ended),
        (status = 409, description = "It is registered: unregister it at the registry", body = Problem),
        (status = 503, description = "As for any other data name", body = Problem),
    )
)]
pub async fn delete_instances(req: HttpRequest, manager: ThinData<Manager>) -> Result<HttpResponse, Failure> {
    Query::parse(req.query_string(), &[])?;
    let name = DataName::parse("instances").map_err(|e| Problem::invalid_field(e.at("dataName")))?;
    gone(name, &manager).await
}

async fn gone(name: DataName, manager: &Manager) -> Result<HttpResponse, Failure> {
    let (reign, end) = (manager.reign()?, Instant::now() + GONE_WITHIN);
    let mut had = reign.answer(|held| Ok(nodes_with(held, &name)))?;
    read_again(&reign, end).await?;
    reign.answer(|held| match held.cluster.registered(&name) {
        None => Ok(()),
        Some(_) => Err(Problem::conflict(format!(
            "`{name}` is registered; DELETE /api/registry/{name} unregisters it, and the manager hears of that"
        ))),
    })?;
    look_again(&reign, end).await?;
    let left = loop {
        // Made before the look, so that nothing that is heard after it is missed.
        let heard = reign.heard().notified();
        let left = reign.answer(|held| Ok(held.cluster.gone(&name)))?;
        had.extend(left.waiting.iter().chain(&left.unreachable).cloned());
        if left.waiting.is_empty() || reign.wait(rest(end), heard).await?.is_none() {
            break left;
        }
    };
    let unreachable: BTreeSet<NodeName> = left.waiting.into_iter().chain(left.unreachable).collect();
    let ended = had.into_iter().filter(|node| !unreachable.contains(node)).collect();
    Ok(HttpResponse::Ok().json(Ended { data_name: name, ended, unreachable }))
}

/// Has the registry read, and waits until that has happened.
pub async fn read_again(reign: &Reign, end: Instant) -> Result<(), Problem> {
    let read = reign.reads.ask();
    reign.wait(rest(end), reign.reads.done(read)).await?.ok_or_else(refusal::registry_slow)
}

/// Has the cluster looked at, and waits until what came of it is stored.
async fn look_again(reign: &Reign, end: Instant) -> Result<(), Problem> {
    let look = reign.ask_look();
    reign.wait(rest(end), reign.looks.done(look)).await?.ok_or_else(refusal::store_slow)
}

fn rest(end: Instant) -> Duration {
    end.saturating_duration_since(Instant::now())
}

/// The nodes that have an instance, also one that still ends.
fn nodes_with(held: &Held, name: &DataName) -> BTreeSet<NodeName> {
    let instances = held.cluster.instance_views(Some(name), None);
    instances.into_iter().map(|instance| instance.node_name).collect()
}

/// The nodes where an instance belongs.
fn nodes_for(held: &Held, name: &DataName) -> BTreeSet<NodeName> {
    let belongs = |node: &NodeName| {
        let slots = held.cluster.desired(node).map_or(&[][..], |(_, slots)| slots);
        slots.iter().any(|slot| slot.registered.registration.data_name == *name)
    };
    nodes_with(held, name).into_iter().filter(belongs).collect()
}
