//! The pressure on a node: what the plane measured, and what is known to have changed since.
//!
//! A fact is some seconds old when it is read. Meanwhile tasks were placed on the node, started and ended; of that the
//! service knows all. The correction is made here and nowhere else, so every policy that wants it gets the same.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::Millis;

/// Beyond so many changes since a fact, the oldest are counted as one.
const MAX_CHANGES: usize = 1024;

/// A fact: the runnable work on a node in thousandths of what its processors do at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pressure {
    pub thousandths: u64,
    pub measured_at: Millis,
    /// The revision of the value that it was read from.
    pub revision: u64,
}

/// The latest fact of a node, and the pressure of tasks that it does not have in it or has in it no more.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodePressure {
    fact: Option<Pressure>,
    /// Of tasks that are placed and have not started: no measurement has them.
    unstarted: u64,
    /// Starts and ends since the fact was measured, in their order, and their sum.
    changes: VecDeque<(Millis, i64)>,
    sum: i64,
}

impl NodePressure {
    pub fn fact(&self) -> Option<Pressure> {
        self.fact
    }

    /// Takes the fact that the plane has now, or has no more. It may have been measured before the last one: of another
    /// estimator.
    pub fn learn(&mut self, fact: Option<Pressure>) {
        let before = std::mem::replace(&mut self.fact, fact);
        let Some(fact) = fact.filter(|_| before != fact) else { return };
        while let Some((_, change)) = self.changes.front().filter(|(at, _)| *at <= fact.measured_at) {
            self.sum -= change;
            self.changes.pop_front();
        }
    }

    pub fn placed(&mut self, weight: u64) {
        self.unstarted = self.unstarted.saturating_add(weight);
    }

    pub fn started(&mut self, at: Millis, weight: u64) {
        self.withdrawn(weight);
        self.change(at, signed(weight));
    }

    /// A task that was placed does not start after all.
    pub fn withdrawn(&mut self, weight: u64) {
        self.unstarted = self.unstarted.saturating_sub(weight);
    }

    pub fn ended(&mut self, at: Millis, weight: u64) {
        self.change(at, -signed(weight));
    }

    fn change(&mut self, at: Millis, by: i64) {
        if self.fact.is_some_and(|fact| at <= fact.measured_at) {
            return;
        }
        self.sum = self.sum.saturating_add(by);
        // One may be heard of behind a later one.
        let place = self.changes.partition_point(|(other, _)| *other <= at);
        self.changes.insert(place, (at, by));
        if self.changes.len() > MAX_CHANGES {
            let oldest = self.changes.pop_front().map_or(0, |(_, by)| by);
            if let Some((_, by)) = self.changes.front_mut() {
                *by = by.saturating_add(oldest);
            }
        }
    }

    /// The pressure now: the fact and all that has changed since. None without a fact.
    pub fn estimate(&self) -> Option<u64> {
        let fact = self.fact?.thousandths;
        Some(fact.saturating_add(self.unstarted).saturating_add_signed(self.sum))
    }
}

fn signed(weight: u64) -> i64 {
    i64::try_from(weight).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fact(thousandths: u64, measured_at: u64) -> Pressure {
        Pressure { thousandths, measured_at: Millis(measured_at), revision: measured_at }
    }

    #[test]
    fn what_changed_since_the_fact_counts_and_what_is_in_it_does_not() {
        let mut node = NodePressure::default();
        assert_eq!(node.estimate(), None);
        node.learn(Some(fact(2000, 100)));
        node.placed(1000);
        assert_eq!(node.estimate(), Some(3000), "placed, on its way");
        node.started(Millis(110), 1000);
        assert_eq!(node.estimate(), Some(3000));
        node.ended(Millis(120), 500);
        assert_eq!(node.estimate(), Some(2500));
        // Measured after the start and before the end was: the start is in it.
        node.learn(Some(fact(3000, 115)));
        assert_eq!(node.estimate(), Some(2500));
        node.learn(Some(fact(9, 50)));
        assert_eq!(node.fact(), Some(fact(9, 50)), "of an estimator that has measured less recently");
        node.learn(Some(fact(3000, 115)));
        // Heard of late, though the fact has it.
        node.placed(700);
        node.started(Millis(112), 700);
        assert_eq!(node.estimate(), Some(2500));
        node.ended(Millis(150), 200);
        node.ended(Millis(130), 300);
        node.learn(Some(fact(2000, 140)));
        assert_eq!(node.estimate(), Some(1800), "the earlier one is in it, though it was heard of last");
        node.learn(Some(fact(1000, 200)));
        assert_eq!(node.estimate(), Some(1000));
    }

    #[test]
    fn a_fact_that_is_gone_is_no_fact() {
        let mut node = NodePressure::default();
        node.learn(Some(fact(2000, 100)));
        node.placed(1000);
        node.learn(None);
        assert_eq!((node.fact(), node.estimate()), (None, None));
        node.started(Millis(110), 1000);
        node.learn(Some(fact(500, 105)));
        assert_eq!(node.estimate(), Some(1500), "the start is not in it");
    }

    #[test]
    fn facts_that_stay_away_take_no_memory() {
        let mut node = NodePressure::default();
        node.learn(Some(fact(0, 0)));
        for at in 1..5000 {
            node.placed(1000);
            node.started(Millis(at), 1000);
        }
        for at in 5000..9000 {
            node.ended(Millis(at), 1000);
        }
        assert_eq!(node.estimate(), Some(999_000));
        assert!(node.changes.len() <= MAX_CHANGES);
        node.ended(Millis(9000), u64::MAX);
        assert_eq!(node.estimate(), Some(0), "never less than nothing");
    }
}
