//! Epochs that the manager gave: which orders of stored values count.
//!
//! A write of a slot replaces a value only if its order is higher. So an order that was never given, from a node that
//! was taken over or from before the manager's store was restored, would keep every later value away. The manager says
//! from time to time which epoch it gave each name last. A stored order beyond that counts for nothing once the manager
//! has said so for long enough after the value came: a message may be late, and be older than the value.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use estimand_api::names::DataName;
use estimand_api::write::Order;

use super::entry::Facts;

/// Longer than a message of the manager may be on its way.
const SETTLED_AFTER: Duration = Duration::from_secs(10);

/// The highest epoch of each name that is registered, as the manager said last.
#[derive(Debug, Default)]
pub struct GivenEpochs {
    by_name: BTreeMap<DataName, u64>,
    /// Of a value with a higher revision the manager may have known nothing when it said so.
    settled: u64,
}

impl GivenEpochs {
    pub fn new(by_name: BTreeMap<DataName, u64>, settled: u64) -> Self {
        GivenEpochs { by_name, settled }
    }

    /// The order that a slot's next write has to be above, if there is one that counts.
    pub fn standing(&self, facts: &Facts) -> Option<Order> {
        let is_beyond = |order: &Order| {
            facts.revision <= self.settled
                && self.by_name.get(&facts.name).is_some_and(|given| order.epoch > *given)
        };
        facts.order().filter(|order| !is_beyond(order))
    }
}

/// When the manager said something, and the revision then.
#[derive(Debug, Default)]
pub struct Messages(VecDeque<(Instant, u64)>);

impl Messages {
    /// A message came; returns the revision of which its sender has certainly known.
    pub fn came(&mut self, now: Instant, revision: u64) -> u64 {
        self.0.push_back((now, revision));
        let is_settled = |at: &Instant| now.saturating_duration_since(*at) >= SETTLED_AFTER;
        // The latest that is long enough ago stays, as the one to compare with.
        while self.0.get(1).is_some_and(|(at, _)| is_settled(at)) {
            self.0.pop_front();
        }
        self.0.front().filter(|(at, _)| is_settled(at)).map_or(0, |(_, revision)| *revision)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_message_knows_of_what_came_long_before_it() {
        let began = Instant::now();
        let mut messages = Messages::default();
        let seen: Vec<u64> = [(0, 5), (4, 7), (9, 8), (10, 9), (13, 10), (14, 11), (60, 12)]
            .map(|(seconds, revision)| messages.came(began + Duration::from_secs(seconds), revision))
            .into();
        assert_eq!(seen, [0, 0, 0, 5, 5, 7, 11]);
        assert_eq!(messages.0.len(), 2);
    }
}
