//! The subject of a watch, and how its changes are told: values of some names, of all nodes or of some, whole or in part.

use std::collections::BTreeSet;

use bytes::Bytes;
use estimand_api::condition::Condition;
use estimand_api::json::push_string;
use estimand_api::names::{DataName, NodeName};
use estimand_api::pointer::Pointer;
use estimand_web::push_event_id;

use crate::core::log::{Change, Interest};
use crate::core::rendering::push_number;
use crate::core::snapshot::{Snapshot, Values};
use crate::core::view::{ShownValue, View};
use crate::http::names::AskedNames;
use crate::http::node_labels::NodeChoice;

/// The values that are watched.
pub struct Watched {
    pub names: AskedNames,
    /// None stands for all.
    pub named: Option<BTreeSet<String>>,
    /// The nodes with the labels that are asked for; none stands for all.
    pub choice: Option<NodeChoice>,
    /// A value for which it does not hold is not there.
    pub condition: Option<Condition>,
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
        self.named.as_ref().is_none_or(|named| named.contains(node.as_str()))
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
        let whole =
            self.named.is_none() && self.choice.is_none() && self.condition.is_none() && self.field.is_none();
        match whole {
            true => tables.map(Values::items).collect(),
            false => vec![self.items_of(tables)],
        }
    }

    /// The values that are watched, rendered for this watcher alone.
    fn items_of<'s>(&self, tables: impl Iterator<Item = Values<'s>>) -> Bytes {
        let mut out = Vec::new();
        for table in tables {
            let named = self.named.iter().flatten().filter_map(|node| table.shown(node));
            let all = self.named.is_none().then(|| table.all());
            let shown = named.chain(all.into_iter().flatten());
            let shown = shown.filter(|shown| self.concerns(&shown.facts().node));
            for shown in shown.filter_map(|shown| self.part_of(shown)) {
                if !out.is_empty() {
                    out.push(b',');
                }
                shown.push_json(&mut out);
            }
        }
        Bytes::from(out)
    }

    /// The part of a value that is watched; none if it is not there, or the condition does not hold.
    fn part_of<'s>(&self, shown: ShownValue<'s>) -> Option<ShownValue<'s>> {
        let holds = self.condition.as_ref().is_none_or(|condition| condition.holds(shown.text()));
        shown.narrow(self.field.as_ref()).filter(|_| holds)
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
            Change::Put(entry) => view.show(entry.clone()).and_then(|shown| self.part_of(shown)),
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
