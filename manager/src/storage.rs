//! Nodes and placements in the store: the manager's calls on it, and the meaning of its rows.
//!
//! A row that cannot be read is passed over with a warning: a label or a placement is lost, and the node's
//! next heartbeat and the next look make it again.

use std::sync::Arc;

use estimand_api::names::{DataName, NodeName};
use estimand_store::{
    AuditRow, ClusterGroup, Error, Key, Lead, NodeRow, NodeRowRef, PlacementRef, PlacementRow, StoreUrl,
    Worker, actor,
};

use crate::core::{AuditedChange, ClusterChanges, NodeLabels, StoredNode, StoredPlacement};

pub struct Storage(Worker);

/// Rows of one step. The thread that writes them shares them, since their caller may be gone by then.
#[derive(Debug)]
pub struct ClusterRows {
    delete_nodes: Vec<NodeName>,
    delete_placements: Vec<(DataName, NodeName)>,
    put_nodes: Vec<NodeRow>,
    put_placements: Vec<StoredPlacement>,
    audit: Vec<AuditRow>,
}

impl Storage {
    pub fn new(url: StoreUrl) -> Self {
        Storage(Worker::start(url, "manager"))
    }

    /// Everything that is stored. Taking the leadership has waited for the writes of an earlier one.
    pub async fn load(&self) -> Result<(Vec<StoredNode>, Vec<StoredPlacement>), Error> {
        let load =
            self.0.run(|connection| Ok((connection.load_nodes()?, connection.load_placements()?))).await?;
        let nodes = load.0.into_iter().filter_map(node_of).collect();
        Ok((nodes, load.1.iter().filter_map(placement_of).collect()))
    }

    /// Makes all of it durable, or nothing.
    pub async fn commit(&self, lead: &Lead, rows: &Arc<ClusterRows>) -> Result<(), Error> {
        let (lead, rows) = (lead.clone(), Arc::clone(rows));
        self.0
            .run(move |connection| {
                let delete_nodes: Vec<&str> = rows.delete_nodes.iter().map(NodeName::as_str).collect();
                let delete_placements: Vec<Key<'_>> = rows
                    .delete_placements
                    .iter()
                    .map(|(name, node)| Key { data_name: name.as_str(), node_name: node.as_str() })
                    .collect();
                let put_nodes: Vec<NodeRowRef<'_>> = rows.put_nodes.iter().map(node_ref).collect();
                let put_placements: Vec<PlacementRef<'_>> =
                    rows.put_placements.iter().map(placement_ref).collect();
                let group = ClusterGroup {
                    delete_nodes: &delete_nodes,
                    delete_placements: &delete_placements,
                    put_nodes: &put_nodes,
                    put_placements: &put_placements,
                    told: &rows.audit,
                };
                connection.commit_cluster(&lead, &group)
            })
            .await
    }
}

pub fn rows_of(changes: &ClusterChanges) -> Arc<ClusterRows> {
    Arc::new(ClusterRows {
        delete_nodes: changes.delete_nodes.clone(),
        delete_placements: changes.delete_placements.clone(),
        put_nodes: changes.put_nodes.iter().map(row_of).collect(),
        put_placements: changes.put_placements.clone(),
        audit: changes.audit.iter().map(audit_row).collect(),
    })
}

fn audit_row(change: &AuditedChange) -> AuditRow {
    AuditRow {
        at: change.at_us,
        id: change.id.clone(),
        kind: "node".to_owned(),
        subject: change.node.to_string(),
        action: change.action.to_owned(),
        actor: actor(&change.actor),
        detail: change.detail.clone(),
    }
}

fn row_of(node: &StoredNode) -> NodeRow {
    NodeRow {
        node_name: node.node_name.to_string(),
        labels: json_of(node.labels.claimed()),
        facts: json_of(&node.facts),
        agent: node.agent.clone(),
        boot: i64::try_from(node.boot).unwrap_or(i64::MAX),
        cordoned: node.cordoned,
        lost: node.lost,
        seen_at: node.seen_us,
        created_at: node.created_us,
        given_labels: Some(json_of(node.labels.given())),
    }
}

/// Maps of text and plain structures always have a rendering.
fn json_of(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).unwrap_or_else(|_| "{}".to_owned())
}

fn node_ref(row: &NodeRow) -> NodeRowRef<'_> {
    NodeRowRef {
        node_name: &row.node_name,
        labels: &row.labels,
        facts: &row.facts,
        agent: &row.agent,
        boot: row.boot,
        cordoned: row.cordoned,
        lost: row.lost,
        seen_at: row.seen_at,
        created_at: row.created_at,
        given_labels: row.given_labels.as_deref(),
    }
}

fn placement_ref(placement: &StoredPlacement) -> PlacementRef<'_> {
    PlacementRef {
        data_name: placement.data_name.as_str(),
        node_name: placement.node_name.as_str(),
        moves: i64::from(placement.moves),
        placed_at: placement.placed_us,
    }
}

fn node_of(row: NodeRow) -> Option<StoredNode> {
    let node_name = NodeName::parse(&row.node_name)
        .inspect_err(|error| tracing::warn!(%error, "a stored node is passed over"))
        .ok()?;
    let given = row.given_labels.as_deref().map(|given| read_json(&node_name, "given labels", given));
    let claimed = read_json(&node_name, "labels", &row.labels);
    Some(StoredNode {
        labels: NodeLabels::new(node_name.clone(), claimed, given.unwrap_or_default()),
        facts: read_json(&node_name, "facts", &row.facts),
        agent: row.agent,
        boot: row.boot.unsigned_abs(),
        cordoned: row.cordoned,
        lost: row.lost,
        seen_us: row.seen_at,
        created_us: row.created_at,
        node_name,
    })
}

fn read_json<T: serde::de::DeserializeOwned + Default>(node: &NodeName, what: &str, text: &str) -> T {
    serde_json::from_str(text).unwrap_or_else(|error| {
        tracing::warn!(%node, what, %error, "what is stored cannot be read; the next heartbeat says it again");
        T::default()
    })
}

fn placement_of(row: &PlacementRow) -> Option<StoredPlacement> {
    let names = (DataName::parse(&row.data_name), NodeName::parse(&row.node_name));
    let (Ok(data_name), Ok(node_name)) = names else {
        tracing::warn!(name = row.data_name, node = row.node_name, "a stored placement is passed over");
        return None;
    };
    let moves = u32::try_from(row.moves).unwrap_or(u32::MAX);
    Some(StoredPlacement { data_name, node_name, moves, placed_us: row.placed_at })
}
