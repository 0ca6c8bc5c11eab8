//! Applies a group of operations to a snapshot.
//!
//! The writer hands operations over one after the other; each is applied to a clone of the published snapshot
//! and leaves the changes to store and the changes to tell watchers. Nothing of it is visible until the
//! writer has stored the group. An operation that is rejected changes nothing, and a batch is never half
//! applied.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use estimand_api::names::{DataName, NodeName};
use estimand_api::registration::History;
use estimand_api::value::{BatchReceipt, DeletionReceipt, Outcome, StateReceipt, WriteReceipt};
use estimand_api::write::{Content, Order, Write};

use super::Rejection;
use super::binding_change::BindingChange;
use super::entry::{Entry, Facts, Marks};
use super::epochs::GivenEpochs;
use super::log::Change;
use super::origin::{LastOrigin, Origin};
use super::snapshot::{LastChange, Snapshot};
use super::value_cell::ValueCell;

/// The names that keep a history, and how much of it.
pub type Retention = BTreeMap<DataName, History>;

/// A group of operations, applied.
#[derive(Debug)]
pub struct Group {
    /// The next snapshot, but for the values that are replaced.
    pub next: Snapshot,
    /// Each changed value as it is going to be, by the address of its cell.
    put: HashMap<usize, Put>,
    pub changes: Vec<Change>,
    /// Values to be kept in the history.
    pub past: Vec<Entry>,
    /// The values with which histories begin, unless those have them already.
    pub first: Vec<Entry>,
    /// The names and nodes whose history is to be deleted.
    pub forget: Vec<(DataName, Option<NodeName>)>,
    /// The bindings that have changed.
    pub bindings: BTreeSet<DataName>,
    /// Their changes, one after the other.
    pub swaps: Vec<BindingChange>,
    pub retention: Option<Retention>,
    /// The orders that count.
    epochs: Arc<GivenEpochs>,
    last_origin: LastOrigin,
    /// Writes that were older than what is stored.
    pub superseded: u64,
    pub now: i64,
}

/// A value that is going to be in its cell.
#[derive(Debug)]
struct Put {
    cell: Arc<ValueCell>,
    changed: Arc<LastChange>,
    entry: Entry,
}

impl Group {
    pub fn new(published: &Snapshot, now: i64) -> Self {
        Group::under(published, Arc::default(), now)
    }

    /// A group in which only orders count that the manager gave.
    pub fn under(published: &Snapshot, epochs: Arc<GivenEpochs>, now: i64) -> Self {
        Group {
            next: published.clone(),
            put: HashMap::new(),
            changes: Vec::new(),
            past: Vec::new(),
            first: Vec::new(),
            forget: Vec::new(),
            bindings: BTreeSet::new(),
            swaps: Vec::new(),
            retention: None,
            epochs,
            last_origin: LastOrigin::default(),
            superseded: 0,
            now,
        }
    }

    /// There is nothing to store.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.retention.is_none() && self.forget.is_empty()
    }

    /// Lets a value turn stale, if it is still the one that expires now.
    pub fn expire(&mut self, entry: &Entry) {
        let marks = Marks { stale: true, ..entry.facts.marks };
        if marks != entry.facts.marks {
            self.remark(entry, marks);
        }
    }

    /// The values to be stored, of several changes of one the last; in the order of their keys, which is that
    /// of the table, so that a database goes through it once.
    pub fn stored(&self) -> Vec<&Entry> {
        let mut stored: Vec<&Entry> = self.put.values().map(|put| &put.entry).collect();
        stored.sort_unstable_by_key(|entry| (&entry.facts.name, &entry.facts.node));
        stored
    }

    /// Puts the values into their cells, where only the snapshot that is published next shows them. Returns
    /// the cells that now also hold the values before.
    pub fn settle(&mut self) -> Vec<Arc<ValueCell>> {
        let settle = |put: Put| {
            put.cell.replace(put.entry);
            put.changed.set(self.next.revision);
            put.cell
        };
        std::mem::take(&mut self.put).into_values().map(settle).collect()
    }

    /// The value as this group leaves it.
    pub fn get(&self, name: &str, node: &str) -> Option<Entry> {
        let (cell, _) = self.next.cell(name, node)?;
        Some(self.put.get(&address(cell)).map_or_else(|| cell.latest(), |put| put.entry.clone()))
    }

    /// The values to be deleted from the store.
    pub fn removed(&self) -> HashSet<(&DataName, &NodeName)> {
        let removed = self.changes.iter().filter_map(|change| match change {
            Change::Removed { name, node, .. } => Some((name, node)),
            _ => None,
        });
        // A name that is bound by now shows cells of another one, and has none of its own.
        let is_gone = |name: &DataName, node: &NodeName| {
            self.next.bindings().contains_key(name) || self.next.cell(name.as_str(), node.as_str()).is_none()
        };
        removed.filter(|(name, node)| is_gone(name, node)).collect()
    }

    /// Rejects a name that serves another one's values.
    pub fn reject_bound(&self, name: &DataName) -> Result<(), Rejection> {
        match self.next.bindings().get(name) {
            None => Ok(()),
            Some(bound) => Err(Rejection::BoundName { name: name.clone(), to: bound.served.to.clone() }),
        }
    }

    pub fn next_revision(&mut self) -> u64 {
        self.next.revision += 1;
        self.next.revision
    }

    fn put(&mut self, entry: Entry) -> Entry {
        let (name, node) = (entry.facts.name.as_str(), entry.facts.node.as_str());
        let (cell, changed) = match self.next.cell(name, node) {
            Some((cell, changed)) => (cell.clone(), changed.clone()),
            None => self.next.insert(entry.clone()),
        };
        self.put.insert(address(&cell), Put { cell, changed, entry: entry.clone() });
        self.changes.push(Change::Put(entry.clone()));
        entry
    }

    fn remark(&mut self, entry: &Entry, marks: Marks) -> u64 {
        let revision = self.next_revision();
        self.put(entry.marked(marks, revision));
        revision
    }

    pub fn write(&mut self, write: &Write, retention: &Retention) -> Result<WriteReceipt, Rejection> {
        let before = self.get(write.data_name.as_str(), write.node_name.as_str());
        let standing = before.as_ref().and_then(|before| self.epochs.standing(&before.facts));
        if let Some(before) = &before
            && write.order.is_some()
            && write.order <= standing
        {
            // The same order is the same write, delivered once more.
            self.superseded += u64::from(write.order < standing);
            return Ok(WriteReceipt { outcome: Outcome::Superseded, revision: before.facts.revision });
        }
        let order = write.order.or(standing);
        let Content::Value { text, valid_for, provenance } = &write.content else {
            return Ok(self.fail(before.as_ref(), write, order));
        };
        // Names are shared with what is there already, so that they are kept once.
        let (name, node) = match &before {
            Some(before) => (before.facts.name.clone(), before.facts.node.clone()),
            None => (self.next.kept_name(&write.data_name), self.next.intern(&write.node_name)),
        };
        let facts = Facts {
            name,
            node,
            collected_at: write.collected_at.unwrap_or(self.now),
            received_at: self.now,
            valid_for: (*valid_for).into(),
            marks: Marks::default(),
            revision: self.next_revision(),
            origin: self.last_origin.share(order, provenance.as_deref()),
        };
        let stale = facts.expires_at().is_some_and(|at| at <= self.now);
        let facts = Facts { marks: Marks { stale, ..facts.marks }, ..facts };
        let outcome = if before.is_some() { Outcome::Replaced } else { Outcome::Created };
        let revision = facts.revision;
        let entry = Entry::new(facts, text);
        if let Some(before) = before {
            entry.alarm.store(before.alarm.load(super::entry::RELAXED), super::entry::RELAXED);
        }
        let kept = self.retention.as_ref().unwrap_or(retention).contains_key(&entry.facts.name);
        let entry = self.put(entry);
        if kept {
            self.past.push(entry);
        }
        Ok(WriteReceipt { outcome, revision })
    }

    /// Keeps the last good value and says that it was not renewed.
    fn fail(&mut self, before: Option<&Entry>, write: &Write, order: Option<Order>) -> WriteReceipt {
        let Some(before) = before else {
            return WriteReceipt { outcome: Outcome::NoValue, revision: self.next.revision };
        };
        let marks = Marks { failed: true, ..before.facts.marks };
        if marks == before.facts.marks && write.order.is_none() {
            return WriteReceipt { outcome: Outcome::Replaced, revision: before.facts.revision };
        }
        let revision = self.next_revision();
        let origin = Origin::new(order, before.facts.provenance());
        self.put(before.with(Facts { marks, revision, origin, ..before.facts.clone() }));
        WriteReceipt { outcome: Outcome::Replaced, revision }
    }

    pub fn batch(&mut self, writes: &[Write], retention: &Retention) -> Result<BatchReceipt, Rejection> {
        for (place, write) in writes.iter().enumerate() {
            let rejected = self.reject_bound(&write.data_name);
            rejected.map_err(|cause| Rejection::Item { place, cause: Box::new(cause) })?;
        }
        let mut done =
            BatchReceipt { created: 0, replaced: 0, superseded: 0, older: Vec::new(), revision: 0 };
        for (place, write) in writes.iter().enumerate() {
            let older = self.superseded;
            match self.write(write, retention)?.outcome {
                Outcome::Created => done.created += 1,
                Outcome::Replaced => done.replaced += 1,
                Outcome::Superseded | Outcome::NoValue => done.superseded += 1,
            }
            done.older.extend((self.superseded > older).then_some(place));
        }
        done.revision = self.next.revision;
        Ok(done)
    }

    /// Keeps histories as this list says. A history that is new begins with the values that are there: an agent may
    /// have written the first one before this list arrived.
    pub fn retain(&mut self, retention: &Retention, before: &Retention) {
        let before = self.retention.as_ref().unwrap_or(before);
        let begun = retention.keys().filter(|name| !before.contains_key(*name));
        let tables = begun.filter(|name| !self.next.bindings().contains_key(*name)).filter_map(|name| {
            let nodes = self.next.table(name.as_str())?.nodes();
            Some(nodes.filter_map(|node| self.get(name.as_str(), node.as_str())))
        });
        let is_kept = |entry: &Entry| self.past.iter().any(|kept| kept.is(entry));
        let first: Vec<_> = tables.flatten().filter(|entry| !is_kept(entry)).collect();
        self.first.extend(first);
        self.retention = Some(retention.clone());
    }

    pub fn delete(&mut self, name: &DataName, node: Option<&NodeName>) -> Result<DeletionReceipt, Rejection> {
        self.reject_bound(name)?;
        let nodes: Vec<NodeName> = match node {
            Some(node) => {
                self.next.cell(name.as_str(), node.as_str()).map(|_| node.clone()).into_iter().collect()
            }
            None => self
                .next
                .table(name.as_str())
                .into_iter()
                .flat_map(|values| values.nodes())
                .cloned()
                .collect(),
        };
        nodes.iter().for_each(|node| self.take_out(name, node));
        let stays =
            |entry: &Entry| entry.facts.name != *name || node.is_some_and(|node| entry.facts.node != *node);
        self.past.retain(stays);
        self.first.retain(stays);
        self.forget.push((name.clone(), node.cloned()));
        Ok(DeletionReceipt { deleted: nodes.len(), revision: self.next.revision })
    }

    /// A value that is taken out is not put any more.
    pub fn withdraw(&mut self, name: &DataName, node: &NodeName) {
        if let Some((cell, _)) = self.next.cell(name.as_str(), node.as_str()) {
            self.put.remove(&address(cell));
        }
    }

    pub fn mark_node(&mut self, node: &NodeName, lost: bool) -> StateReceipt {
        let of_node: Vec<Entry> = self
            .next
            .own_names()
            .into_iter()
            .filter_map(|name| self.get(name.as_str(), node.as_str()))
            .filter(|entry| entry.facts.marks.lost != lost)
            .collect();
        for entry in &of_node {
            self.remark(entry, Marks { lost, ..entry.facts.marks });
        }
        StateReceipt { changed: of_node.len(), revision: self.next.revision }
    }
}

/// A cell is itself for as long as something holds it, which the group does.
fn address(cell: &Arc<ValueCell>) -> usize {
    Arc::as_ptr(cell) as usize
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
#[path = "group_tests.rs"]
mod tests;
