//! The cells of one name, and what is made of them for readers.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use estimand_api::names::{DataName, NodeName};
use estimand_api::pointer::Pointer;

use super::entry::Entry;
use super::node_index::{MAX_NODES, NodeIndex};
use super::value_cell::ValueCell;

/// Makes a table that of a bound name.
#[derive(Debug, Clone)]
pub struct Alias {
    /// The name under which values are shown.
    pub name: DataName,
    /// The part of each that is shown.
    pub field: Option<Pointer>,
}

/// The nodes that have a value of one name, or of the name that it is bound to.
#[derive(Debug, Default)]
pub struct Table {
    pub nodes: imbl::OrdMap<NodeName, Arc<ValueCell>>,
    /// The same for finding one, made when one is first read.
    index: OnceLock<NodeIndex>,
    /// Under which name and in which part they are shown, if not as they are.
    pub alias: Option<Alias>,
    pub changed: Arc<LastChange>,
    /// All of them as one JSON array, rendered when it is first asked for.
    pub array: ArcSwapOption<RenderedArray>,
}

/// The revision of the last published change to a name's values.
#[derive(Debug, Default)]
pub struct LastChange(AtomicU64);

impl LastChange {
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    /// For the writer, before it publishes the snapshot of that revision.
    pub fn set(&self, revision: u64) {
        self.0.store(revision, Ordering::Release);
    }
}

#[derive(Debug)]
pub struct RenderedArray {
    /// The value of `changed` when it was rendered.
    pub at: u64,
    pub array: Bytes,
    /// Made when it is first asked for.
    pub digest: OnceLock<Digest>,
}

/// The digest of a rendered array; how it is made is its readers' matter.
pub type Digest = [u8; 16];

/// A table is cloned only to be changed, hence without its index and its rendered array.
impl Clone for Table {
    fn clone(&self) -> Self {
        Table {
            nodes: self.nodes.clone(),
            index: OnceLock::new(),
            alias: self.alias.clone(),
            changed: self.changed.clone(),
            array: ArcSwapOption::empty(),
        }
    }
}

impl Table {
    /// The value of a node at a revision.
    pub fn get(&self, node: &str, revision: u64) -> Option<Entry> {
        if self.nodes.len() > MAX_NODES {
            return self.nodes.get(node)?.at(revision);
        }
        if self.index.get().is_none() {
            // Two readers that are first at the same time both make one; neither waits for the other.
            let nodes = self.nodes.iter().map(|(node, cell)| (node.as_str(), cell));
            let _ = self.index.set(NodeIndex::new(nodes));
        }
        let mut entries = self.index.get()?.candidates(node).filter_map(|cell| cell.at(revision));
        entries.find(|entry| entry.facts.node.as_str() == node)
    }

    /// The cell of a node. For the writer, who makes no index: the next change may be one of nodes again.
    pub fn cell(&self, node: &str) -> Option<&Arc<ValueCell>> {
        match self.index.get() {
            Some(index) => index.candidates(node).find(|cell| cell.is_of(node)),
            None => self.nodes.get(node),
        }
    }

    pub fn insert(&mut self, node: NodeName, cell: Arc<ValueCell>) {
        self.index = OnceLock::new();
        self.nodes.insert(node, cell);
    }

    pub fn remove(&mut self, node: &NodeName) -> Option<Arc<ValueCell>> {
        self.index = OnceLock::new();
        self.nodes.remove(node)
    }
}
