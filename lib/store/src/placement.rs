//! `t_placement`: the nodes of the registrations that run on a number of nodes. Written only by commits of
//! the cluster.

use diesel::prelude::*;

use crate::backend::{Backend, on};
use crate::schema::t_placement;
use crate::statement::{Keys, Rows, Value, write_all};
use crate::{Connection, Error, Key};

#[derive(Clone, Debug, PartialEq, Eq, Queryable)]
pub struct PlacementRow {
    pub data_name: String,
    pub node_name: String,
    pub moves: i64,
    pub placed_at: i64,
}

#[derive(Clone, Copy, Debug)]
pub struct PlacementRef<'a> {
    pub data_name: &'a str,
    pub node_name: &'a str,
    pub moves: i64,
    pub placed_at: i64,
}

/// The data name comes first here; in the index the node does.
static PLACEMENTS: Rows =
    Rows { table: "t_placement", columns: &["data_name", "node_name", "moves", "placed_at"], replaced_by: 2 };
static BY_KEY: Keys = Keys { table: "t_placement", columns: &["node_name", "data_name"] };
static BY_NODE: Keys = Keys { table: "t_placement", columns: &["node_name"] };

impl Connection {
    /// All placements, by data name and node.
    pub fn load_placements(&mut self) -> Result<Vec<PlacementRow>, Error> {
        self.read("loading the placements", |backend| {
            on!(backend, connection => t_placement::table
                .order((t_placement::data_name, t_placement::node_name))
                .load(connection))
        })
    }
}

pub(crate) fn put(backend: &mut Backend, placements: &[PlacementRef<'_>]) -> QueryResult<()> {
    write_all(backend, &PLACEMENTS, placements, |row, values| {
        values.extend([
            Value::Text(row.data_name),
            Value::Text(row.node_name),
            Value::Int(row.moves),
            Value::Int(row.placed_at),
        ]);
    })
}

pub(crate) fn delete(backend: &mut Backend, keys: &[Key<'_>]) -> QueryResult<()> {
    let values: Vec<_> =
        keys.iter().flat_map(|key| [Value::Text(key.node_name), Value::Text(key.data_name)]).collect();
    BY_KEY.delete(backend, &values)
}

pub(crate) fn delete_of_nodes(backend: &mut Backend, nodes: &[&str]) -> QueryResult<()> {
    let values: Vec<_> = nodes.iter().map(|node| Value::Text(node)).collect();
    BY_NODE.delete(backend, &values)
}
