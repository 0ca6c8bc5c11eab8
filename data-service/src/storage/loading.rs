//! The values as they are stored, made a snapshot that nobody reads yet.
//!
//! They come in the order of their keys, so a name is looked up once for all of its nodes. What the journal changes comes
//! after them, in the order in which it was written.

use estimand_api::names::{DataName, NodeName};
use estimand_api::write::Order;
use estimand_store::{Change, DataRowRef, Key};

use crate::core::entry::{Entry, Facts, Marks};
use crate::core::origin::LastOrigin;
use crate::core::snapshot::Snapshot;

pub struct Loading {
    snapshot: Snapshot,
    now: i64,
    last_name: Option<DataName>,
    last_origin: LastOrigin,
}

impl Loading {
    pub fn new(revision: u64, now: i64) -> Self {
        let snapshot = Snapshot::empty(revision);
        Loading { snapshot, now, last_name: None, last_origin: LastOrigin::default() }
    }

    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    pub fn into_snapshot(self) -> Snapshot {
        self.snapshot
    }

    /// Takes a stored change in.
    pub fn take(&mut self, change: &Change<'_>) {
        let Key { data_name, node_name } = change.key();
        let Some((name, node)) = self.name(data_name).zip(self.snapshot.interned(node_name)) else {
            tracing::error!("a stored value has no valid name; it stays where it is and is not served");
            return;
        };
        match change {
            Change::Delete(_) => self.snapshot.remove(&name, &node),
            Change::Put(row) => {
                let entry = self.entry(row, name, node);
                self.snapshot.set(entry);
            }
        }
    }

    /// The name, once for all values of it.
    fn name(&mut self, text: &str) -> Option<DataName> {
        if self.last_name.as_ref().is_none_or(|last| last.as_str() != text) {
            let name = DataName::parse(text).ok();
            self.last_name = name.map(|name| self.snapshot.kept_name(&name));
        }
        self.last_name.clone()
    }

    fn entry(&mut self, row: &DataRowRef<'_>, name: DataName, node: NodeName) -> Entry {
        let order = u64::try_from(row.epoch).ok().zip(u64::try_from(row.sequence).ok());
        let order = order.map(|(epoch, sequence)| Order { epoch, sequence });
        let mut facts = Facts {
            name,
            node,
            collected_at: row.collected_at,
            received_at: row.received_at,
            valid_for: row.valid_for.into(),
            marks: Marks { stale: false, failed: row.failed, lost: row.lost },
            revision: row.revision.unsigned_abs(),
            origin: self.last_origin.share(order, row.provenance),
        };
        facts.marks.stale = facts.expires_at().is_some_and(|at| at <= self.now);
        Entry::new(facts, row.data_value)
    }
}
