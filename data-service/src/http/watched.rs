//! The subject of a watch, and how its changes are told: values of some names, of all nodes or of some, whole or in part.

use bytes::Bytes;
use estimand_api::json::push_string;
use estimand_api::names::{DataName, NodeName};
use estimand_api::pointer::Pointer;
use estimand_web::push_event_id;

use crate::core::log::{Change, Interest};
use crate::core::rendering::push_number;
use crate::core::snapshot::{Snapshot, Values};
use crate::core::view::View;
use crate::http::names::AskedNames;
use crate::http::node_labels::NodeChoice;

/// The values that are watched.
pub struct Watched {
    pub names: AskedNames,
    /// None stands for all.
    pub node: Option<NodeName>,
    /// The nodes with the labels that are asked for; none stands for all.
    pub choice: Option<NodeChoice>,
    /// The part of each value that is watched; none stands for all of it.
    pub field: Option<Pointer>,
}

impl Watched {
    /// The changes that concern it.
    pub fn interest(&self, snapshot: &Snapshot) -> Interest {
        let Some(mut names) = self.names.plain() else { return Interest::Everything };
        let resolved: Vec<_> = names.iter().map(|name| snapshot.resolve(name).clone()).collect();
        names.extend(resolved);
        names.sort();
        names.dedup();
        Interest::Names(names)
    }

    /// True if values of the node are watched.
    fn concerns(&self, node: &NodeName) -> bool {
        self.node.as_ref().is_none_or(|watched| watched == node)
            && self.choice.as_ref().is_none_or(|choice| choice.nodes().contains(node))
    }

    pub fn is_rebinding(&self, change: &Change) -> bool {
        matches!(change, Change::Rebound { name, .. } if self.is_watched(name))
    }

    /// True if a name has been bound after a revision.
    pub fn is_rebound(&self, snapshot: &Snapshot, seen: u64) -> bool {
        let mut later = snapshot.bindings().iter().filter(|(_, bound)| bound.revision > seen);
        later.any(|(name, _)| self.is_watched(name))
    }

    /// True if a binding of that name concerns the watch; of all names only those that have values of their own are
    /// watched.
    fn is_watched(&self, name: &DataName) -> bool {
        !matches!(self.names, AskedNames::All) && self.names.contains(name)
    }

    /// All of them, as items of an array. Whole tables are shared with all who read them.
    pub fn items(&self, snapshot: &Snapshot) -> Vec<Bytes> {
        let tables = self.names.of(snapshot).into_iter().filter_map(|name| snapshot.table(name));
        match self.node.is_none() && self.choice.is_none() && self.field.is_none() {
            true => tables.map(Values::items).collect(),
            false => vec![self.items_of(tables)],
        }
    }

    /// The values that are watched, rendered for this watcher alone.
    fn items_of<'s>(&self, tables: impl Iterator<Item = Values<'s>>) -> Bytes {
        let mut out = Vec::new();
        for table in tables {
            let (one, all) = match &self.node {
                Some(node) => (table.shown(node.as_str()), None),
                None => (None, Some(table.all())),
            };
            let shown = one.into_iter().chain(all.into_iter().flatten());
            let shown = shown.filter(|shown| self.concerns(&shown.facts().node));
            for shown in shown.filter_map(|shown| shown.narrow(self.field.as_ref())) {
                if !out.is_empty() {
                    out.push(b',');
                }
                shown.push_json(&mut out);
            }
        }
        Bytes::from(out)
    }

    /// Appends a change, once under each of the watched names that it concerns. Only the last of these events has an id,
    /// so that all of them come again if the connection breaks between two.
    pub fn push(&self, out: &mut Vec<u8>, change: &Change, snapshot: &Snapshot) {
        let (node, revision) = match change {
            Change::Put(entry) => (&entry.facts.node, entry.facts.revision),
            Change::Removed { node, revision, .. } => (node, *revision),
            Change::Rebound { .. } => return,
        };
        if !self.concerns(node) {
            return;
        }
        let before = out.len();
        if matches!(self.names, AskedNames::All) {
            self.push_as(out, change, (node, revision), View::default());
        } else {
            for name in self.names.shown_by(change.name(), snapshot) {
                if out.len() > before {
                    out.push(b'\n');
                }
                self.push_as(out, change, (node, revision), snapshot.view(name));
            }
        }
        if out.len() > before {
            push_event_id(out, revision);
        }
    }

    /// Appends the event of a change under one name, without an id and without the empty line that ends it.
    fn push_as(
        &self,
        out: &mut Vec<u8>,
        change: &Change,
        (node, revision): (&NodeName, u64),
        view: View<'_>,
    ) {
        let shown = match change {
            Change::Put(entry) => {
                view.show(entry.clone()).and_then(|shown| shown.narrow(self.field.as_ref()))
            }
            _ => None,
        };
        match shown {
            Some(shown) => {
                out.extend_from_slice(b"event: change\ndata: ");
                shown.push_json(out);
            }
            // A value without the part that is watched is as good as gone, whether it was there before or not.
            None => {
                out.extend_from_slice(b"event: delete\ndata: {\"dataName\":");
                push_string(out, view.alias.unwrap_or(change.name()).as_str());
                out.extend_from_slice(b",\"nodeName\":");
                push_string(out, node.as_str());
                out.extend_from_slice(b",\"revision\":");
                push_number(out, revision);
                out.push(b'}');
            }
        }
        out.push(b'\n');
    }
}

/// All that was written together has been sent; a client that waits for that need not guess. Clients of an earlier
/// version know it by the comment.
pub fn push_settled(out: &mut Vec<u8>, revision: u64) {
    out.extend_from_slice(b": settled\nevent: settled\ndata: {\"revision\":");
    push_number(out, revision);
    out.extend_from_slice(b"}\n");
    push_event_id(out, revision);
}
