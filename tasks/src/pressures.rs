//! The pressures that the plane has, and those that the planner has not looked at.

use std::collections::{BTreeMap, BTreeSet};

use crate::core::pressure::Pressure;

/// The pressure of each node, by its name.
#[derive(Debug, Default)]
pub struct Pressures {
    known: BTreeMap<String, Pressure>,
    /// The nodes whose pressure changed, or is gone, since they were taken.
    changed: BTreeSet<String>,
}

impl Pressures {
    pub fn set(&mut self, node: &str, fact: Option<Pressure>) {
        let before = match fact {
            Some(fact) => self.known.insert(node.to_owned(), fact),
            None => self.known.remove(node),
        };
        if before != fact {
            self.changed.insert(node.to_owned());
        }
    }

    /// Those that changed since the last time; none of a node: it is gone.
    pub fn take_changed(&mut self) -> Vec<(String, Option<Pressure>)> {
        let changed = std::mem::take(&mut self.changed);
        changed.into_iter().map(|node| (node.clone(), self.known.get(&node).copied())).collect()
    }

    /// The same with all others.
    pub fn take_all(&mut self) -> Vec<(String, Option<Pressure>)> {
        self.changed.extend(self.known.keys().cloned());
        self.take_changed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::Millis;

    fn fact(thousandths: u64) -> Pressure {
        Pressure { thousandths, measured_at: Millis(1), revision: thousandths }
    }

    #[test]
    fn each_change_is_taken_once() {
        let mut pressures = Pressures::default();
        pressures.set("b", Some(fact(2)));
        pressures.set("a", Some(fact(1)));
        pressures.set("b", Some(fact(3)));
        let of = |node: &str, thousandths: Option<u64>| (node.to_owned(), thousandths.map(fact));
        assert_eq!(pressures.take_changed(), [of("a", Some(1)), of("b", Some(3))]);
        pressures.set("a", Some(fact(1)));
        assert_eq!(pressures.take_changed(), []);
        pressures.set("a", None);
        pressures.set("c", None);
        assert_eq!(pressures.take_all(), [of("a", None), of("b", Some(3))]);
        assert_eq!(pressures.take_changed(), []);
    }
}
