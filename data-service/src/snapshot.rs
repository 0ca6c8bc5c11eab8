//! Everything the data service knows, at one revision.
//!
//! A snapshot never changes once readers can see it. The writer clones one, which costs nothing because the
//! maps share their parts, changes the clone, and publishes it after the commit; so a reader sees all of a
//! group of writes or none of it, over any number of names, and holds no lock.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use estimand_api::names::{DataName, NodeName};

use crate::entry::Entry;

/// All values and bindings.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// The revision of the last change in it.
    pub revision: u64,
    /// How many values there are, bindings aside.
    pub values: usize,
    tables: imbl::HashMap<DataName, Arc<Table>>,
    bindings: imbl::OrdMap<DataName, Bound>,
}

/// Where a binding leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bound {
    pub to: DataName,
    pub since: i64,
    pub revision: u64,
}

/// The values of one name, or of the name that it is bound to.
#[derive(Debug, Default)]
pub struct Table {
    nodes: imbl::OrdMap<NodeName, Arc<Entry>>,
    /// The name under which they are shown, if it is not their own.
    alias: Option<DataName>,
    /// All of them as one JSON array, rendered when it is first asked for.
    array: OnceLock<Bytes>,
}

/// A table may be cloned only to be changed, hence without its rendered array.
impl Clone for Table {
    fn clone(&self) -> Self {
        Table { nodes: self.nodes.clone(), alias: self.alias.clone(), array: OnceLock::new() }
    }
}

impl Table {
    pub fn get(&self, node: &str) -> Option<&Arc<Entry>> {
        self.nodes.get(node)
    }

    /// In the order of the nodes' names.
    pub fn entries(&self) -> impl Iterator<Item = &Arc<Entry>> {
        self.nodes.values()
    }

    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// One value as JSON.
    pub fn json(&self, entry: &Entry) -> Bytes {
        match &self.alias {
            None => entry.json(),
            alias => {
                let mut out = Vec::with_capacity(384);
                entry.push_json(&mut out, alias.as_ref());
                Bytes::from(out)
            }
        }
    }

    /// Appends one value as JSON.
    pub fn push_json(&self, out: &mut Vec<u8>, entry: &Entry) {
        entry.push_json(out, self.alias.as_ref());
    }

    /// All values as a JSON array.
    pub fn array(&self) -> Bytes {
        // Two readers that are first at the same time both render; neither waits for the other.
        match self.array.get() {
            Some(array) => array.clone(),
            None => {
                let array = self.render();
                let _ = self.array.set(array.clone());
                array
            }
        }
    }

    fn render(&self) -> Bytes {
        let mut out = Vec::with_capacity(2 + self.nodes.len() * 256);
        out.push(b'[');
        for entry in self.nodes.values() {
            if out.len() > 1 {
                out.push(b',');
            }
            entry.push_json(&mut out, self.alias.as_ref());
        }
        out.push(b']');
        Bytes::from(out)
    }
}

impl Snapshot {
    /// Nothing, at a revision.
    pub fn empty(revision: u64) -> Self {
        Snapshot { revision, ..Snapshot::default() }
    }

    /// The values that a name serves, its own or those it is bound to.
    pub fn table(&self, name: &str) -> Option<&Table> {
        self.tables.get(name).map(|table| &**table)
    }

    /// The value of a name on a node.
    pub fn get(&self, name: &str, node: &str) -> Option<&Arc<Entry>> {
        self.table(name)?.get(node)
    }

    /// Every name that has values of its own, in order.
    pub fn own_names(&self) -> Vec<&DataName> {
        let mut names: Vec<&DataName> =
            self.tables.iter().filter(|(_, table)| table.alias.is_none()).map(|(name, _)| name).collect();
        names.sort();
        names
    }

    pub fn bindings(&self) -> &imbl::OrdMap<DataName, Bound> {
        &self.bindings
    }

    /// The name whose values are served under this one.
    pub fn resolve<'a>(&'a self, name: &'a DataName) -> &'a DataName {
        self.bindings.get(name).map_or(name, |bound| &bound.to)
    }

    /// Puts a value in, for the name of its own.
    pub fn put(&mut self, entry: Arc<Entry>) {
        let name = entry.facts.name.clone();
        let table = Arc::make_mut(self.tables.entry(name.clone()).or_default());
        table.array = OnceLock::new();
        if table.nodes.insert(entry.facts.node.clone(), entry).is_none() {
            self.values += 1;
        }
        self.refresh_aliases(&name);
    }

    /// Takes a value out.
    pub fn remove(&mut self, name: &DataName, node: &NodeName) {
        let Some(table) = self.tables.get_mut(name) else { return };
        let table = Arc::make_mut(table);
        table.array = OnceLock::new();
        if table.nodes.remove(node).is_some() {
            self.values -= 1;
        }
        if table.nodes.is_empty() {
            self.tables.remove(name);
        }
        self.refresh_aliases(name);
    }

    /// Binds a name; it must have no values of its own.
    pub fn bind(&mut self, name: DataName, bound: Bound) {
        let to = bound.to.clone();
        self.bindings.insert(name.clone(), bound);
        self.show(name, &to);
    }

    pub fn unbind(&mut self, name: &DataName) {
        if self.bindings.remove(name).is_some() {
            self.tables.remove(name);
        }
    }

    /// Lets the bindings to a name serve what it has now.
    fn refresh_aliases(&mut self, target: &DataName) {
        if self.bindings.is_empty() {
            return;
        }
        let aliases: Vec<DataName> = self
            .bindings
            .iter()
            .filter(|(_, bound)| bound.to == *target)
            .map(|(name, _)| name.clone())
            .collect();
        for alias in aliases {
            self.show(alias, target);
        }
    }

    fn show(&mut self, alias: DataName, target: &DataName) {
        let nodes = self.tables.get(target).map(|table| table.nodes.clone()).unwrap_or_default();
        let table = Table { nodes, alias: Some(alias.clone()), array: OnceLock::new() };
        self.tables.insert(alias, Arc::new(table));
    }
}
