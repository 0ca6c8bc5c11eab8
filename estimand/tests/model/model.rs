//! The values and answers expected of the data service, in a map.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::operations::{Item, NAMES, Name, Node, Operation, Target};

#[derive(Debug, Default)]
pub struct Model {
    values: BTreeMap<(Name, Node), Kept>,
    bindings: BTreeMap<Name, Target>,
    /// All that a name was ever bound to, one after the other.
    swaps: BTreeMap<Name, Vec<Target>>,
}

#[derive(Debug, Clone)]
struct Kept {
    value: Value,
    order: Option<(u64, u64)>,
    failed: bool,
    lost: bool,
}

/// The expected answer to an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    Written(&'static str),
    /// Created, replaced, superseded.
    Batch([usize; 3]),
    Deleted(usize),
    Changed(usize),
    Done,
    Missing,
    Conflict,
}

/// A value as it should be read: name, node, value, state.
pub type Seen = (Name, Node, Value, &'static str);

impl Model {
    pub fn apply(&mut self, operation: &Operation) -> Answer {
        match operation {
            Operation::Write(item) if self.is_bound(item.name) => Answer::Conflict,
            Operation::Write(item) => Answer::Written(self.write(item)),
            Operation::Batch(items) if items.iter().any(|item| self.is_bound(item.name)) => Answer::Conflict,
            Operation::Batch(items) => {
                let outcomes: Vec<_> = items.iter().map(|item| self.write(item)).collect();
                let count = |wanted: &[&str]| outcomes.iter().filter(|one| wanted.contains(one)).count();
                Answer::Batch([count(&["created"]), count(&["replaced"]), count(&["superseded", "no-value"])])
            }
            Operation::Delete { name, .. } if self.is_bound(*name) => Answer::Conflict,
            Operation::Delete { name, node } => {
                let before = self.values.len();
                self.values.retain(|(of, on), _| of != name || node.is_some_and(|node| node != *on));
                Answer::Deleted(before - self.values.len())
            }
            Operation::Mark { node, lost } => {
                let of_node =
                    self.values.iter_mut().filter(|((_, on), kept)| on == node && kept.lost != *lost);
                Answer::Changed(of_node.map(|(_, kept)| kept.lost = *lost).count())
            }
            Operation::Bind { name, target } => self.bind(*name, *target),
            Operation::RollBack { name } => self.roll_back(*name),
            Operation::Unbind { name } => match self.bindings.remove(name) {
                Some(_) => Answer::Done,
                None => Answer::Missing,
            },
            Operation::Restart | Operation::Kill => Answer::Done,
        }
    }

    /// Everything that is read, in the order of names and nodes.
    pub fn seen(&self) -> Vec<Seen> {
        let of_name = |name: Name| {
            let (served, field) = *self.bindings.get(&name).unwrap_or(&(name, None));
            let own = self.values.range((served, 0)..(served + 1, 0));
            own.filter_map(move |((_, node), kept)| {
                let part = field.map_or(Some(&kept.value), |field| kept.value.pointer(field))?;
                Some((name, *node, part.clone(), kept.state()))
            })
        };
        (0..NAMES).flat_map(of_name).collect()
    }

    pub fn bindings(&self) -> Vec<(Name, Target)> {
        self.bindings.iter().map(|(name, target)| (*name, *target)).collect()
    }

    fn is_bound(&self, name: Name) -> bool {
        self.bindings.contains_key(&name)
    }

    fn write(&mut self, item: &Item) -> &'static str {
        let before = self.values.get_mut(&(item.name, item.node));
        let newest = before.as_ref().and_then(|kept| kept.order);
        match (&item.value, before) {
            (_, Some(_)) if item.order.is_some() && item.order <= newest => "superseded",
            (None, None) => "no-value",
            (None, Some(kept)) => {
                kept.failed = true;
                kept.order = item.order.or(newest);
                "replaced"
            }
            (Some(value), before) => {
                let outcome = if before.is_some() { "replaced" } else { "created" };
                let order = item.order.or(newest);
                let kept = Kept { value: value.clone(), order, failed: false, lost: false };
                self.values.insert((item.name, item.node), kept);
                outcome
            }
        }
    }

    fn bind(&mut self, name: Name, target: Target) -> Answer {
        let has_values = self.values.keys().any(|(of, _)| *of == name);
        let is_target = self.bindings.values().any(|(to, _)| *to == name);
        if name == target.0 || self.is_bound(target.0) || is_target || has_values {
            return Answer::Conflict;
        }
        if self.bindings.insert(name, target) != Some(target) {
            self.swaps.entry(name).or_default().push(target);
        }
        Answer::Done
    }

    /// To the last that it was bound to and is not now.
    fn roll_back(&mut self, name: Name) -> Answer {
        let now = self.bindings.get(&name);
        let Some(swaps) = self.swaps.get(&name) else { return Answer::Missing };
        match swaps.iter().rev().find(|target| Some(*target) != now) {
            Some(target) => self.bind(name, *target),
            None => Answer::Conflict,
        }
    }
}

impl Kept {
    fn state(&self) -> &'static str {
        match self {
            Kept { lost: true, .. } => "node-lost",
            Kept { failed: true, .. } => "failed",
            _ => "fresh",
        }
    }
}
