//! Leftovers: values of slots that run no more where the values are of.
//!
//! A slot that moved, was scaled down or was unregistered renews its value no more, and nobody would ever delete it. The
//! manager says what runs where; a value of a slot that is not there is dropped when a value with a higher epoch of the
//! same name is there, which is that of the slot after it moved, or else after a time to live. A plain write belongs to
//! nobody and stays. Nothing is stored: after a start the time begins anew.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use estimand_api::names::{DataName, NodeName};

use super::entry::{Entry, Facts};
use super::group::{Group, Retention};
use super::operations::Operation;
use super::snapshot::{Snapshot, Values};
use super::{Rejection, log::Change};

/// The nodes on which each name is produced, as the manager says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Producers {
    /// How long a value is kept that nothing renews any more, in microseconds.
    pub time_to_live: i64,
    /// All nodes.
    pub nodes: BTreeSet<NodeName>,
    pub names: BTreeMap<DataName, Place>,
}

/// Where a name is produced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    AllNodes,
    Nodes(BTreeSet<NodeName>),
    /// One slot answers for nodes that only it knows.
    Anywhere,
}

impl Producers {
    fn renews(&self, facts: &Facts) -> bool {
        match self.names.get(&facts.name) {
            None => false,
            Some(Place::Anywhere) => true,
            Some(Place::AllNodes) => self.nodes.contains(&facts.node),
            Some(Place::Nodes(nodes)) => nodes.contains(&facts.node),
        }
    }
}

/// A value that is to be dropped, if it is still that one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leftover {
    pub name: DataName,
    pub node: NodeName,
    pub revision: u64,
}

/// Since when values are known to be left over.
#[derive(Debug, Default)]
pub struct Leftovers {
    since: HashMap<(DataName, NodeName), i64>,
}

impl Leftovers {
    /// The values that are to be dropped now.
    pub fn due(&mut self, snapshot: &Snapshot, producers: &Producers, now: i64) -> Vec<Leftover> {
        let (mut since, mut due) = (HashMap::new(), Vec::new());
        for values in snapshot.own_names().into_iter().filter_map(|name| snapshot.table(name.as_str())) {
            for entry in values.entries().filter(|entry| is_of_slot(entry) && !producers.renews(&entry.facts))
            {
                let Facts { name, node, revision, .. } = &entry.facts;
                let key = (name.clone(), node.clone());
                let began = self.since.get(&key).copied().unwrap_or(now);
                if now.saturating_sub(began) >= producers.time_to_live || has_moved(&entry, values, producers)
                {
                    due.push(Leftover { name: name.clone(), node: node.clone(), revision: *revision });
                }
                since.insert(key, began);
            }
        }
        self.since = since;
        due
    }
}

/// A plain write has neither; one over a slot's value leaves the order that was there.
fn is_of_slot(entry: &Entry) -> bool {
    entry.facts.order().is_some() && entry.facts.provenance().is_some()
}

/// True if a slot that runs has delivered with a higher epoch: each move has one.
fn has_moved(left: &Entry, values: Values<'_>, producers: &Producers) -> bool {
    let Some(Place::Nodes(nodes)) = producers.names.get(&left.facts.name) else { return false };
    let epoch = |entry: &Entry| entry.facts.order().map(|order| order.epoch);
    nodes.iter().filter_map(|node| values.get(node.as_str())).any(|entry| epoch(&entry) > epoch(left))
}

/// Drops leftovers that have not changed since they were found; what is kept of their past stays.
#[derive(Debug)]
pub struct DropLeftovers(pub Vec<Leftover>);

impl Operation for DropLeftovers {
    type Reply = usize;
    const ONLY_REMOVES: bool = true;

    fn apply(&self, group: &mut Group, _: &Retention) -> Result<usize, Rejection> {
        let mut dropped = 0;
        for Leftover { name, node, revision } in &self.0 {
            let is_same = |entry: &Entry| entry.facts.revision == *revision;
            if group.get(name.as_str(), node.as_str()).is_some_and(|entry| is_same(&entry)) {
                group.take_out(name, node);
                dropped += 1;
            }
        }
        Ok(dropped)
    }
}

impl Group {
    /// Takes a value out.
    pub fn take_out(&mut self, name: &DataName, node: &NodeName) {
        let revision = self.next_revision();
        self.withdraw(name, node);
        self.next.remove(name, node);
        self.changes.push(Change::Removed { name: name.clone(), node: node.clone(), revision });
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use estimand_api::write::{Content, Order, Write};

    use super::*;

    const MINUTE: i64 = 60_000_000;

    fn name(text: &str) -> DataName {
        text.parse().unwrap()
    }

    fn node(text: &str) -> NodeName {
        text.parse().unwrap()
    }

    /// Values by name, node and epoch; those of epoch 0 are plain.
    fn snapshot(values: &[(&str, &str, u64)]) -> Snapshot {
        let mut group = Group::new(&Snapshot::default(), 0);
        for (data_name, node_name, epoch) in values {
            let is_plain = *epoch == 0;
            let provenance = (!is_plain).then(|| "{\"version\":1}".into());
            let content = Content::Value { text: "1".into(), valid_for: None, provenance };
            let order = (!is_plain).then_some(Order { epoch: *epoch, sequence: 1 });
            let (data_name, node_name) = (name(data_name), node(node_name));
            let write = Write { data_name, node_name, content, collected_at: None, order };
            group.write(&write, &Retention::new()).unwrap();
        }
        group.settle();
        group.next
    }

    fn producers(names: &[(&str, Place)]) -> Producers {
        let names = names.iter().map(|(text, place)| (name(text), place.clone())).collect();
        Producers { time_to_live: 10 * MINUTE, nodes: BTreeSet::from([node("n1"), node("n2")]), names }
    }

    fn on(nodes: &[&str]) -> Place {
        Place::Nodes(nodes.iter().map(|text| node(text)).collect())
    }

    #[track_caller]
    fn check(due: &[Leftover], expected: &[(&str, &str)]) {
        let found: Vec<_> = due.iter().map(|left| (left.name.as_str(), left.node.as_str())).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn what_nothing_renews_goes_after_its_time_to_live() {
        let snapshot = snapshot(&[
            ("all", "n1", 1),
            ("all", "n3", 1),
            ("gone", "n1", 1),
            ("hdfs", "elsewhere", 1),
            ("plain", "n1", 0),
            ("some", "n1", 1),
            ("some", "n2", 1),
        ]);
        let mut producers =
            producers(&[("all", Place::AllNodes), ("hdfs", Place::Anywhere), ("some", on(&["n2"]))]);
        let mut leftovers = Leftovers::default();
        check(&leftovers.due(&snapshot, &producers, MINUTE), &[]);
        check(&leftovers.due(&snapshot, &producers, 10 * MINUTE), &[]);
        let all = [("all", "n3"), ("gone", "n1"), ("some", "n1")];
        check(&leftovers.due(&snapshot, &producers, 11 * MINUTE), &all);
        // A slot that runs again in between begins anew.
        producers.names.insert(name("gone"), Place::AllNodes);
        check(&leftovers.due(&snapshot, &producers, 12 * MINUTE), &[all[0], all[2]]);
        producers.names.remove(&name("gone"));
        check(&leftovers.due(&snapshot, &producers, 13 * MINUTE), &[all[0], all[2]]);
    }

    #[test]
    fn what_moved_goes_when_the_new_node_has_delivered() {
        let producers = producers(&[("one", on(&["n2"]))]);
        let mut leftovers = Leftovers::default();
        check(&leftovers.due(&snapshot(&[("one", "n1", 1)]), &producers, 0), &[]);
        // A former value of the new node is none that came after the move.
        check(&leftovers.due(&snapshot(&[("one", "n1", 2), ("one", "n2", 1)]), &producers, 0), &[]);
        check(
            &leftovers.due(&snapshot(&[("one", "n1", 1), ("one", "n2", 2)]), &producers, 0),
            &[("one", "n1")],
        );
    }

    #[test]
    fn only_what_has_not_changed_meanwhile_is_dropped_and_its_past_stays() {
        let snapshot = snapshot(&[("a", "n1", 1), ("a", "n2", 1)]);
        let left = |at: &str, revision| Leftover { name: name("a"), node: node(at), revision };
        let mut group = Group::new(&snapshot, 0);
        let dropped = DropLeftovers(vec![left("n1", 1), left("n2", 1), left("n3", 1)]);
        assert_eq!(dropped.apply(&mut group, &Retention::new()).unwrap(), 1);
        assert!(group.get("a", "n1").is_none() && group.get("a", "n2").is_some() && group.forget.is_empty());
        assert_eq!(group.removed().len(), 1);
    }
}
