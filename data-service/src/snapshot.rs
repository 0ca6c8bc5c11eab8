//! Everything the data service knows, at one revision.
//!
//! A snapshot never changes for those who hold it: which names and nodes there are is in maps that are shared
//! between snapshots and copied along a path when a key comes or goes; what a value is at the snapshot's
//! revision is in its slot. So a reader sees all of a group of writes or none of it, over any number of names,
//! and holds no lock; and replacing a value copies nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use estimand_api::names::{DataName, NodeName};

use crate::entry::Entry;
use crate::slot::Slot;

/// All values and bindings.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// The revision of the last change in it.
    pub revision: u64,
    /// How many values there are, bindings aside.
    pub values: usize,
    tables: imbl::HashMap<DataName, Arc<Table>>,
    bindings: imbl::OrdMap<DataName, Bound>,
    /// Every node's name that was met, so that each is kept once and stays in the processor's cache.
    node_names: imbl::HashMap<NodeName, ()>,
}

/// Where a binding leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bound {
    pub to: DataName,
    pub since: i64,
    pub revision: u64,
}

/// The nodes that have a value of one name, or of the name that it is bound to.
#[derive(Debug, Default)]
pub struct Table {
    nodes: imbl::OrdMap<NodeName, Arc<Slot>>,
    /// The name under which they are shown, if it is not their own.
    alias: Option<DataName>,
    changed: Arc<Changed>,
    /// All of them as one JSON array, rendered when it is first asked for.
    array: ArcSwapOption<Rendered>,
}

/// The revision of the last published change to a name's values.
#[derive(Debug, Default)]
pub struct Changed(AtomicU64);

impl Changed {
    /// For the writer, before it publishes the snapshot of that revision.
    pub fn set(&self, revision: u64) {
        self.0.store(revision, Ordering::Release);
    }
}

#[derive(Debug)]
struct Rendered {
    /// What `changed` was.
    at: u64,
    array: Bytes,
}

/// A table is cloned only to be changed, hence without its rendered array.
impl Clone for Table {
    fn clone(&self) -> Self {
        Table {
            nodes: self.nodes.clone(),
            alias: self.alias.clone(),
            changed: self.changed.clone(),
            array: ArcSwapOption::empty(),
        }
    }
}

/// The values of one name, at the revision of a snapshot.
#[derive(Debug, Clone, Copy)]
pub struct Values<'s> {
    table: &'s Table,
    revision: u64,
}

impl<'s> Values<'s> {
    pub fn get(self, node: &str) -> Option<Arc<Entry>> {
        self.table.nodes.get(node)?.at(self.revision)
    }

    /// In the order of the nodes' names.
    pub fn entries(self) -> impl Iterator<Item = Arc<Entry>> + use<'s> {
        self.table.nodes.values().filter_map(move |slot| slot.at(self.revision))
    }

    /// The nodes that have a value, in order.
    pub fn nodes(self) -> impl Iterator<Item = &'s NodeName> {
        self.table.nodes.keys()
    }

    pub fn is_empty(self) -> bool {
        self.table.nodes.is_empty()
    }

    /// One value as JSON.
    pub fn json(self, entry: &Entry) -> Bytes {
        match &self.table.alias {
            None => entry.json(),
            alias => {
                let mut out = Vec::with_capacity(384);
                entry.push_json(&mut out, alias.as_ref());
                Bytes::from(out)
            }
        }
    }

    /// Appends one value as JSON.
    pub fn push_json(self, out: &mut Vec<u8>, entry: &Entry) {
        entry.push_json(out, self.table.alias.as_ref());
    }

    /// All values as a JSON array.
    pub fn array(self) -> Bytes {
        let changed = self.table.changed.0.load(Ordering::Acquire);
        if changed > self.revision {
            // A later snapshot is about to be published, or is already; this one's array is asked for no more.
            return self.render();
        }
        if let Some(rendered) = &*self.table.array.load()
            && rendered.at == changed
        {
            return rendered.array.clone();
        }
        // Two readers that are first at the same time both render; neither waits for the other.
        let array = self.render();
        self.table.array.store(Some(Arc::new(Rendered { at: changed, array: array.clone() })));
        array
    }

    fn render(self) -> Bytes {
        let mut out = Vec::with_capacity(2 + self.table.nodes.len() * 256);
        out.push(b'[');
        for entry in self.entries() {
            if out.len() > 1 {
                out.push(b',');
            }
            self.push_json(&mut out, &entry);
        }
        out.push(b']');
        // What is kept is kept for long, so without room to grow.
        Bytes::from(out.into_boxed_slice())
    }
}

impl Snapshot {
    /// Nothing, at a revision.
    pub fn empty(revision: u64) -> Self {
        Snapshot { revision, ..Snapshot::default() }
    }

    /// The values that a name serves, its own or those it is bound to.
    pub fn table(&self, name: &str) -> Option<Values<'_>> {
        self.tables.get(name).map(|table| Values { table, revision: self.revision })
    }

    /// The value of a name on a node.
    pub fn get(&self, name: &str, node: &str) -> Option<Arc<Entry>> {
        self.table(name)?.get(node)
    }

    /// Every name that has values of its own, in order.
    pub fn own_names(&self) -> Vec<&DataName> {
        let own = self.tables.iter().filter(|(_, table)| table.alias.is_none());
        let mut names: Vec<&DataName> = own.map(|(name, _)| name).collect();
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

    /// The place of a value, and what says when its name's values last changed. For the writer.
    pub fn slot(&self, name: &str, node: &str) -> Option<(&Arc<Slot>, &Arc<Changed>)> {
        let table = self.tables.get(name)?;
        Some((table.nodes.get(node)?, &table.changed))
    }

    /// Makes a place for a value that there was none of, for the name of its own.
    pub fn insert(&mut self, entry: Arc<Entry>) -> (Arc<Slot>, Arc<Changed>) {
        let (name, node) = (entry.facts.name.clone(), entry.facts.node.clone());
        let slot = Arc::new(Slot::new(entry));
        let table = Arc::make_mut(self.tables.entry(name.clone()).or_default());
        table.nodes.insert(node, slot.clone());
        let changed = table.changed.clone();
        self.values += 1;
        self.refresh_aliases(&name);
        (slot, changed)
    }

    /// The name of a node as it is kept.
    pub fn intern(&mut self, node: &NodeName) -> NodeName {
        if let Some((kept, ())) = self.node_names.get_key_value(node) {
            return kept.clone();
        }
        self.node_names.insert(node.clone(), ());
        node.clone()
    }

    /// The data name as it is kept.
    pub fn kept_name(&self, name: &DataName) -> DataName {
        self.tables.get_key_value(name).map_or_else(|| name.clone(), |(kept, _)| kept.clone())
    }

    /// Takes a value and its place out.
    pub fn remove(&mut self, name: &DataName, node: &NodeName) {
        let Some(table) = self.tables.get_mut(name) else { return };
        let table = Arc::make_mut(table);
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

    /// Lets the bindings to a name serve the nodes that it has now.
    fn refresh_aliases(&mut self, target: &DataName) {
        if self.bindings.is_empty() {
            return;
        }
        let to_target = self.bindings.iter().filter(|(_, bound)| bound.to == *target);
        let aliases: Vec<DataName> = to_target.map(|(name, _)| name.clone()).collect();
        for alias in aliases {
            self.show(alias, target);
        }
    }

    fn show(&mut self, alias: DataName, target: &DataName) {
        let shown = self.tables.get(target).map(|table| Table::clone(table)).unwrap_or_default();
        let table = Table { alias: Some(alias.clone()), ..shown };
        self.tables.insert(alias, Arc::new(table));
    }
}
