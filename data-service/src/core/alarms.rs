//! The time at which each value turns stale.
//!
//! One alarm stands for each value that can expire, however often the value is renewed meanwhile: when it
//! goes off and the value has been renewed, it is set again for the new time. So memory grows with the
//! values, not with the writes.
//!
//! When the machine's clock is set, values expire neither sooner nor later for it: the times of earlier
//! values are moved by as much.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use estimand_api::names::{DataName, NodeName};

use super::entry::{Entry, RELAXED};
use super::snapshot::Snapshot;

/// By how much the clock must have been set to be noticed, in microseconds.
const JUMP: i64 = 1_000_000;
/// How many jumps are remembered. Values from before older ones expire by the clock as it is.
const MAX_JUMPS: usize = 64;

/// The alarms that are set.
#[derive(Debug, Default)]
pub struct Alarms {
    heap: BinaryHeap<Reverse<(i64, DataName, NodeName)>>,
    /// The time of day and the steady clock, when they were last looked at.
    looked: Option<[i64; 2]>,
    /// Up to which revision values were received before the clock was set, and by how much it was.
    jumps: VecDeque<(u64, i64)>,
}

impl Alarms {
    /// Sees to it that there is an alarm for a value that has just been written.
    pub fn set(&mut self, entry: &Entry) {
        let Some(at) = self.expires_at(entry).filter(|_| !entry.facts.marks.stale) else { return };
        let standing = entry.alarm.load(RELAXED);
        if standing == 0 || at < standing {
            entry.alarm.store(at, RELAXED);
            self.heap.push(Reverse((at, entry.facts.name.clone(), entry.facts.node.clone())));
        }
    }

    /// Looks at both clocks, and sees to it that alarms go off in time although one of them was set.
    pub fn look(&mut self, now: i64, steady: i64, snapshot: &Snapshot) {
        let Some([before, steady_before]) = self.looked.replace([now, steady]) else { return };
        let jump = now.saturating_sub(before).saturating_sub(steady - steady_before);
        if jump.abs() <= JUMP {
            return;
        }
        tracing::warn!(
            by_seconds = jump / 1_000_000,
            "the clock was set; values keep the time that they hold"
        );
        if self.jumps.len() == MAX_JUMPS {
            self.jumps.pop_front();
        }
        self.jumps.push_back((snapshot.revision, jump));
        self.heap.clear();
        let tables = snapshot.own_names().into_iter().filter_map(|name| snapshot.table(name.as_str()));
        for entry in tables.flat_map(|table| table.entries()) {
            entry.alarm.store(0, RELAXED);
            self.set(&entry);
        }
    }

    /// When a value turns stale, by the clock as it is set now.
    fn expires_at(&self, entry: &Entry) -> Option<i64> {
        let later = self.jumps.iter().filter(|(upto, _)| entry.facts.revision <= *upto);
        let moved = later.fold(0_i64, |sum, (_, by)| sum.saturating_add(*by));
        Some(entry.facts.expires_at()?.saturating_add(moved))
    }

    /// When the next one goes off.
    pub fn next(&self) -> Option<i64> {
        self.heap.peek().map(|Reverse((at, ..))| *at)
    }

    /// The values, at most so many, that have expired at `now`.
    pub fn due(&mut self, now: i64, snapshot: &Snapshot, most: usize) -> Vec<Entry> {
        let mut due = Vec::new();
        while due.len() < most && self.next().is_some_and(|at| at <= now) {
            let Some(Reverse((at, name, node))) = self.heap.pop() else { break };
            let Some(entry) = snapshot.get(name.as_str(), node.as_str()) else { continue };
            if entry.alarm.load(RELAXED) != at {
                // An earlier alarm took its place.
                continue;
            }
            entry.alarm.store(0, RELAXED);
            match self.expires_at(&entry) {
                Some(expires) if expires > now => self.set(&entry),
                Some(_) => due.push(entry),
                None => {}
            }
        }
        due
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::core::entry::{Facts, Marks};

    fn entry(at: i64, valid_for: i64, alarm: i64) -> Entry {
        let facts = Facts {
            name: DataName::parse("a").unwrap(),
            node: NodeName::parse("n").unwrap(),
            collected_at: at,
            received_at: at,
            valid_for: Some(valid_for).into(),
            marks: Marks::default(),
            revision: 1,
            origin: None,
        };
        let entry = Entry::new(facts, "1");
        entry.alarm.store(alarm, RELAXED);
        entry
    }

    #[test]
    fn a_renewed_value_keeps_one_alarm_and_expires_at_its_new_time() {
        let (mut alarms, mut snapshot) = (Alarms::default(), Snapshot::empty(1));
        let first = entry(0, 10, 0);
        snapshot.insert(first.clone());
        alarms.set(&first);
        let renewed = entry(5, 10, first.alarm.load(RELAXED));
        let (slot, _) = snapshot.cell("a", "n").unwrap();
        slot.replace(renewed.clone());
        alarms.set(&renewed);
        assert_eq!(alarms.heap.len(), 1);
        assert!(alarms.due(10, &snapshot, 9).is_empty());
        assert_eq!(alarms.next(), Some(15));
        assert_eq!(alarms.due(15, &snapshot, 9).len(), 1);
        assert_eq!(alarms.next(), None);
    }

    #[test]
    fn a_shorter_validity_moves_the_alarm_forward() {
        let (mut alarms, mut snapshot) = (Alarms::default(), Snapshot::empty(1));
        let first = entry(0, 100, 0);
        alarms.set(&first);
        let shorter = entry(1, 4, first.alarm.load(RELAXED));
        snapshot.insert(shorter.clone());
        alarms.set(&shorter);
        assert_eq!(alarms.due(5, &snapshot, 9).len(), 1);
        assert!(alarms.due(100, &snapshot, 9).is_empty(), "the first alarm is void");
    }

    #[test]
    fn a_clock_that_is_set_changes_nothing() {
        const HOUR: i64 = 3_600_000_000;
        let second = 1_000_000;
        let (mut alarms, mut snapshot) = (Alarms::default(), Snapshot::empty(1));
        let first = entry(0, 10 * second, 0);
        snapshot.insert(first.clone());
        alarms.set(&first);
        alarms.look(0, 0, &snapshot);
        for off in [-HOUR, 24 * HOUR, 0] {
            alarms.look(off + second, second, &snapshot);
            assert_eq!(alarms.next(), Some(off + 10 * second));
            assert!(alarms.due(off + 9 * second, &snapshot, 9).is_empty());
        }
        alarms.look(-HOUR + second, second, &snapshot);
        assert_eq!(alarms.due(-HOUR + 10 * second, &snapshot, 9).len(), 1);
    }
}
