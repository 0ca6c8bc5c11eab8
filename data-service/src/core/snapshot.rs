//! Everything the data service knows, at one revision.
//!
//! A snapshot never changes for its holders: its names and nodes are in maps that are shared between
//! snapshots and copied along a path when a key comes or goes; the value at the snapshot's revision is in its
//! cell. So a reader sees all of a group of writes or none of it, over any number of names, and holds no
//! lock; and replacing a value copies nothing.

use std::ops::Bound::{Excluded, Unbounded};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use estimand_api::names::{DataName, NodeName};
use estimand_api::value::BindingTarget;

use super::entry::Entry;
use super::table::{Alias, RenderedArray, Table};
use super::value_cell::ValueCell;
use super::view::{ShownValue, View};

pub use super::table::{Digest, LastChange};

/// All values and bindings.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// The revision of the last change in it.
    pub revision: u64,
    /// How many values there are, bindings aside.
    pub values: usize,
    tables: imbl::HashMap<DataName, Arc<Table>>,
    bindings: imbl::OrdMap<DataName, Bound>,
    /// The names that were bound and are no more, as they were at last.
    released: imbl::OrdMap<DataName, Bound>,
    /// Every node's name that was met, so that each is kept once and stays in the processor's cache.
    node_names: imbl::HashMap<NodeName, ()>,
}

/// Where a binding leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bound {
    pub served: BindingTarget,
    pub since: i64,
    pub revision: u64,
    /// The target before, if there was ever another one.
    pub before: Option<BindingTarget>,
}

/// The values of one name, at the revision of a snapshot.
#[derive(Debug, Clone, Copy)]
pub struct Values<'s> {
    table: &'s Table,
    revision: u64,
}

impl<'s> Values<'s> {
    /// The value itself, however it is shown and also if it is not.
    pub fn get(self, node: &str) -> Option<Entry> {
        self.table.get(node, self.revision)
    }

    /// The value of a node as it is shown.
    pub fn shown(self, node: &str) -> Option<ShownValue<'s>> {
        self.view().show(self.get(node)?)
    }

    /// All that is shown, in the order of the nodes' names.
    pub fn all(self) -> impl Iterator<Item = ShownValue<'s>> + use<'s> {
        let view = self.view();
        self.entries().filter_map(move |entry| view.show(entry))
    }

    /// The values of the nodes behind one, in the order of their names.
    pub fn after(self, node: Option<&NodeName>) -> impl Iterator<Item = ShownValue<'s>> + use<'s> {
        let (view, revision) = (self.view(), self.revision);
        let from = node.map_or(Unbounded, |node| Excluded(node.clone()));
        let cells = self.table.nodes.range((from, Unbounded));
        cells.filter_map(move |(_, cell)| view.show(cell.at(revision)?))
    }

    /// All that there is, in the order of the nodes' names.
    pub fn entries(self) -> impl Iterator<Item = Entry> + use<'s> {
        self.table.nodes.values().filter_map(move |cell| cell.at(self.revision))
    }

    /// The nodes that have a value, in order.
    pub fn nodes(self) -> impl Iterator<Item = &'s NodeName> {
        self.table.nodes.keys()
    }

    pub fn is_empty(self) -> bool {
        self.table.nodes.is_empty()
    }

    fn view(self) -> View<'s> {
        match &self.table.alias {
            None => View::default(),
            Some(Alias { name, field }) => View { alias: Some(name), field: field.as_ref() },
        }
    }

    /// All values as a JSON array.
    pub fn array(self) -> Bytes {
        let changed = self.table.changed.get();
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
        self.table.array.store(Some(Arc::new(RenderedArray {
            at: changed,
            array: array.clone(),
            digest: OnceLock::new(),
        })));
        array
    }

    /// The same without its brackets: to be joined with others.
    pub fn items(self) -> Bytes {
        items(&self.array())
    }

    /// The array with its digest, which is kept beside it.
    pub fn digested_array(self, digest: impl FnOnce(&[u8]) -> Digest) -> (Bytes, Digest) {
        let array = self.array();
        let kept = self.table.array.load();
        // The kept array may be of another revision by now; two that are there at once are one if they lie at one address.
        let same = kept.as_ref().filter(|kept| kept.array.as_ptr() == array.as_ptr());
        let digest = match same {
            Some(kept) => *kept.digest.get_or_init(|| digest(&array)),
            None => digest(&array),
        };
        (array, digest)
    }

    fn render(self) -> Bytes {
        let mut out = Vec::with_capacity(2 + self.table.nodes.len() * 256);
        out.push(b'[');
        for shown in self.all() {
            if out.len() > 1 {
                out.push(b',');
            }
            shown.push_json(&mut out);
        }
        out.push(b']');
        // The array is kept for long, so without room to grow.
        Bytes::from(out.into_boxed_slice())
    }
}

/// The values of an array, without its brackets.
pub fn items(array: &Bytes) -> Bytes {
    array.slice(1..array.len() - 1)
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
    pub fn get(&self, name: &str, node: &str) -> Option<Entry> {
        self.table(name)?.get(node)
    }

    /// Every name that has values of its own, in order.
    pub fn own_names(&self) -> Vec<&DataName> {
        let own = self.tables.iter().filter(|(_, table)| table.alias.is_none());
        let mut names: Vec<&DataName> = own.map(|(name, _)| name).collect();
        names.sort();
        names
    }

    /// Every name that serves values, its own or those of another one, in order.
    pub fn all_names(&self) -> Vec<&DataName> {
        let mut names: Vec<&DataName> = self.tables.keys().collect();
        names.sort();
        names
    }

    pub fn bindings(&self) -> &imbl::OrdMap<DataName, Bound> {
        &self.bindings
    }

    /// The last binding of a name that is bound no more.
    pub fn released(&self, name: &DataName) -> Option<&Bound> {
        self.released.get(name)
    }

    /// The name whose values are served under this one.
    pub fn resolve<'a>(&'a self, name: &'a DataName) -> &'a DataName {
        self.bindings.get(name).map_or(name, |bound| &bound.served.to)
    }

    /// How a name shows values.
    pub fn view<'a>(&'a self, name: &'a DataName) -> View<'a> {
        match self.bindings.get(name) {
            None => View::default(),
            Some(bound) => View { alias: Some(name), field: bound.served.field.as_ref() },
        }
    }

    /// The cell of a value, and the revision of the last change to its name's values. For the writer.
    pub fn cell(&self, name: &str, node: &str) -> Option<(&Arc<ValueCell>, &Arc<LastChange>)> {
        let table = self.tables.get(name)?;
        Some((table.cell(node)?, &table.changed))
    }

    /// Makes a cell for a value that had none, under its own name.
    pub fn insert(&mut self, entry: Entry) -> (Arc<ValueCell>, Arc<LastChange>) {
        let (name, node) = (entry.facts.name.clone(), entry.facts.node.clone());
        let cell = Arc::new(ValueCell::new(entry));
        let table = Arc::make_mut(self.tables.entry(name.clone()).or_default());
        table.insert(node, cell.clone());
        let changed = table.changed.clone();
        self.values += 1;
        self.refresh_aliases(&name);
        (cell, changed)
    }

    /// Puts a value where nobody reads yet, in place of the one that is there.
    pub fn set(&mut self, entry: Entry) {
        let table = Arc::make_mut(self.tables.entry(entry.facts.name.clone()).or_default());
        match table.cell(entry.facts.node.as_str()) {
            Some(cell) => {
                cell.replace(entry);
                cell.forget(u64::MAX);
            }
            None => {
                table.insert(entry.facts.node.clone(), Arc::new(ValueCell::new(entry)));
                self.values += 1;
            }
        }
    }

    /// The node of that name, if it is one, with its name as it is kept.
    pub fn interned(&mut self, node: &str) -> Option<NodeName> {
        match self.node_names.get_key_value(node) {
            Some((kept, ())) => Some(kept.clone()),
            None => NodeName::parse(node).ok().map(|node| self.intern(&node)),
        }
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

    /// Takes a value and its cell out.
    pub fn remove(&mut self, name: &DataName, node: &NodeName) {
        let Some(table) = self.tables.get_mut(name) else { return };
        let table = Arc::make_mut(table);
        if table.remove(node).is_some() {
            self.values -= 1;
        }
        if table.nodes.is_empty() {
            self.tables.remove(name);
        }
        self.refresh_aliases(name);
    }

    /// Binds a name; it must have no values of its own.
    pub fn bind(&mut self, name: DataName, bound: Bound) {
        let served = bound.served.clone();
        self.released.remove(&name);
        self.bindings.insert(name.clone(), bound);
        self.show(name, &served);
    }

    pub fn unbind(&mut self, name: &DataName) {
        if let Some(bound) = self.bindings.remove(name) {
            self.tables.remove(name);
            self.released.insert(name.clone(), bound);
        }
    }

    /// Notes the last binding of a name that is bound no more.
    pub fn release(&mut self, name: DataName, bound: Bound) {
        self.released.insert(name, bound);
    }

    /// Lets the bindings to a name serve the nodes that it has now.
    fn refresh_aliases(&mut self, target: &DataName) {
        if self.bindings.is_empty() {
            return;
        }
        let to_target = self.bindings.iter().filter(|(_, bound)| bound.served.to == *target);
        let aliases: Vec<(DataName, BindingTarget)> =
            to_target.map(|(name, bound)| (name.clone(), bound.served.clone())).collect();
        for (alias, served) in aliases {
            self.show(alias, &served);
        }
    }

    fn show(&mut self, alias: DataName, served: &BindingTarget) {
        let mut shown = self.tables.get(&served.to).map(|table| Table::clone(table)).unwrap_or_default();
        let of = Alias { name: alias.clone(), field: served.field.clone() };
        shown.alias = Some(of);
        self.tables.insert(alias, Arc::new(shown));
    }
}
