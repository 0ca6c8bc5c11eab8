//! `t_node`, the nodes that were ever heard of and not removed, and the group commit that writes them with
//! the placements that belong to the same change.
//!
//! Only a leader commits, and each commit checks that it still leads.

use std::collections::HashMap;

use diesel::prelude::*;

use crate::backend::{Backend, on};
use crate::schema::{t_data, t_node, t_placement};
use crate::statement::{Keys, Rows, Value, write_all};
use crate::{AuditRow, Change, Connection, Error, Key, Lead, PlacementRef, audit, leader, placement};

#[derive(Clone, Debug, PartialEq, Eq, Queryable)]
pub struct NodeRow {
    pub node_name: String,
    /// JSON.
    pub labels: String,
    /// JSON.
    pub facts: String,
    /// The agent that speaks for the node.
    pub agent: String,
    /// Grows with each start of that agent.
    pub boot: i64,
    pub cordoned: bool,
    pub lost: bool,
    pub seen_at: i64,
    pub created_at: i64,
    /// Those that are not the agent's own, by their source; JSON.
    pub given_labels: Option<String>,
}

#[derive(Clone, Copy, Debug)]
pub struct NodeRowRef<'a> {
    pub node_name: &'a str,
    pub labels: &'a str,
    pub facts: &'a str,
    pub agent: &'a str,
    pub boot: i64,
    pub cordoned: bool,
    pub lost: bool,
    pub seen_at: i64,
    pub created_at: i64,
    pub given_labels: Option<&'a str>,
}

/// The changes of one commit. Deletes come first; a row to put may be in it only once.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClusterGroup<'a> {
    /// Their placements go with them.
    pub delete_nodes: &'a [&'a str],
    pub delete_placements: &'a [Key<'a>],
    /// Added or replaced.
    pub put_nodes: &'a [NodeRowRef<'a>],
    /// Added or replaced.
    pub put_placements: &'a [PlacementRef<'a>],
    /// Entries for the audit trail.
    pub told: &'a [AuditRow],
}

static NODES: Rows = Rows {
    table: "t_node",
    columns: &[
        "node_name",
        "labels",
        "facts",
        "agent",
        "boot",
        "cordoned",
        "lost",
        "seen_at",
        "created_at",
        "given_labels",
    ],
    replaced_by: 1,
};
static BY_NAME: Keys = Keys { table: "t_node", columns: &["node_name"] };

impl Connection {
    /// The tables that have rows of a node, in words; none if nothing.
    pub fn what_is_known_of(&mut self, node: &str) -> Result<Option<&'static str>, Error> {
        // The journal is read first: changes that are folded meanwhile are in `t_data` then.
        let mut is_there = HashMap::new();
        self.replay(&mut |change| {
            let key = change.key();
            if key.node_name == node {
                is_there.insert(key.data_name.to_owned(), matches!(change, Change::Put(_)));
            }
        })?;
        self.read("asking what is known of a node", |backend| {
            let (nodes, placements, names): (i64, i64, Vec<String>) = on!(backend, connection => (
                t_node::table.filter(t_node::node_name.eq(node)).count().get_result(connection)?,
                t_placement::table.filter(t_placement::node_name.eq(node)).count().get_result(connection)?,
                t_data::table
                    .filter(t_data::node_name.eq(node))
                    .select(t_data::data_name)
                    .load(connection)?,
            ));
            let is_kept = |name: &String| is_there.get(name) != Some(&false);
            Ok(match () {
                () if nodes > 0 => Some("been heard of"),
                () if placements > 0 => Some("placements"),
                () if is_there.values().any(|there| *there) || names.iter().any(is_kept) => Some("values"),
                () => None,
            })
        })
    }

    /// All nodes, by name.
    pub fn load_nodes(&mut self) -> Result<Vec<NodeRow>, Error> {
        self.read(
            "loading the nodes",
            |backend| on!(backend, connection => t_node::table.order(t_node::node_name).load(connection)),
        )
    }

    /// Makes one group durable, or nothing of it. It is a beat of the leader as well. Also on a full disk, since without it
    /// nothing that is unregistered would end; its rows are few, and mostly there already.
    pub fn commit_cluster(&mut self, lead: &Lead, group: &ClusterGroup<'_>) -> Result<(), Error> {
        self.write_on_full_disk("committing the cluster", |backend| {
            leader::fence(backend, lead)?;
            placement::delete_of_nodes(backend, group.delete_nodes)?;
            placement::delete(backend, group.delete_placements)?;
            delete(backend, group.delete_nodes)?;
            put(backend, group.put_nodes)?;
            placement::put(backend, group.put_placements)?;
            for row in group.told {
                audit::add(backend, row)?;
            }
            Ok(())
        })
    }
}

fn delete(backend: &mut Backend, names: &[&str]) -> QueryResult<()> {
    let values: Vec<_> = names.iter().map(|name| Value::Text(name)).collect();
    BY_NAME.delete(backend, &values)
}

fn put(backend: &mut Backend, nodes: &[NodeRowRef<'_>]) -> QueryResult<()> {
    write_all(backend, &NODES, nodes, |row, values| {
        values.extend([
            Value::Text(row.node_name),
            Value::Text(row.labels),
            Value::Text(row.facts),
            Value::Text(row.agent),
            Value::Int(row.boot),
            Value::Bool(row.cordoned),
            Value::Bool(row.lost),
            Value::Int(row.seen_at),
            Value::Int(row.created_at),
            Value::OptText(row.given_labels),
        ]);
    })
}
