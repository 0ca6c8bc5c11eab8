//! The capacity of the cluster, as the ledger has it.

use std::collections::BTreeMap;

use actix_web::HttpResponse;
use actix_web::web::ThinData;
use estimand_api::node::NodeState;
use estimand_api::problem::Problem;
use estimand_api::task_record::NodeCapacity;
use estimand_capacity::{Amounts, Standing, Tick};
use estimand_web::Failure;

use crate::TaskService;
use crate::core::cluster::{Cluster, NodeView};
use crate::task::tick;

/// The nodes with their capacity and the part of it that is free, in order of name.
#[utoipa::path(
    get,
    path = "/api/capacity",
    tag = "tasks",
    responses(
        (status = 200, description = "All nodes, `[]` if there are none", body = [NodeCapacity]),
        (status = 503, description = "The nodes are not known yet", body = Problem),
    )
)]
pub async fn capacity(service: ThinData<TaskService>) -> Result<HttpResponse, Failure> {
    let shared = service.shared();
    let (plan, nodes) = (shared.plan.load_full(), shared.nodes.load_full());
    let (Some(plan), Some(nodes)) = (plan, nodes) else {
        return Err(Problem::unavailable("the nodes are not known yet", 1).into());
    };
    let now = tick(shared.clock.now_micros());
    let ready = |name: &str| {
        nodes.iter().any(|node| node.node_name.as_str() == name && node.state == NodeState::Ready)
    };
    let cluster = &plan.cluster;
    let mut all: Vec<NodeCapacity> =
        cluster.nodes().map(|node| of_node(cluster, node, ready(&node.name), now)).collect();
    all.sort_by(|one, other| one.node.cmp(&other.node));
    Ok(HttpResponse::Ok().json(all))
}

fn of_node(cluster: &Cluster, node: &NodeView, is_ready: bool, now: Tick) -> NodeCapacity {
    let standing = match cluster.ledger.standing(node.id) {
        _ if !is_ready => Standing::Lost,
        standing => standing,
    };
    let whole = cluster.ledger.capacity(node.id);
    let free = cluster.ledger.idle(node.id);
    // Every resource of the node, also one that is used up.
    let free = whole.iter().map(|(resource, _)| (resource.as_str().to_owned(), free.get(resource))).collect();
    NodeCapacity {
        node: node.name.to_string(),
        standing: standing.to_string(),
        capacity: map(&whole),
        free,
        awaited: map(&cluster.ledger.awaited(node.id, now)),
        tasks: node.tasks,
    }
}

fn map(amounts: &Amounts) -> BTreeMap<String, u64> {
    amounts.iter().map(|(resource, amount)| (resource.as_str().to_owned(), amount)).collect()
}
