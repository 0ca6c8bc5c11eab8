//! The backlog: the groups of writes that are in the journal, and not in `t_data` yet.
//!
//! Its size says when the journal is folded, and when writers wait for that. It is counted here, because counting in the
//! database would cost more than folding; a group of unknown outcome counts once it is known to be stored.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Writers wait for the folder once `t_data` is that far behind. A start reads as much again.
pub const MAX_CHANGES: usize = 500_000;
pub const MAX_BYTES: usize = 64 << 20;
/// A fold begins when there is that much to fold: the more it is, the more changes of one value, or of one page, become one.
const FOLD_CHANGES: usize = 125_000;
const FOLD_BYTES: usize = 16 << 20;
/// It begins at this age of the oldest change at the latest, unless a program wants another one.
pub const FOLD_AGE: Duration = Duration::from_secs(2);

/// A group in the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JournaledGroup {
    pub revision: u64,
    pub changes: usize,
    pub bytes: usize,
    /// When it was known to be stored.
    pub at: Instant,
}

/// The groups, oldest first, and their sums.
#[derive(Debug)]
pub struct Backlog {
    groups: VecDeque<JournaledGroup>,
    changes: usize,
    bytes: usize,
    fold_age: Duration,
}

impl Backlog {
    /// An empty one. A fold begins at that age of the oldest change at the latest.
    pub fn new(fold_age: Duration) -> Self {
        Backlog { groups: VecDeque::new(), changes: 0, bytes: 0, fold_age }
    }

    pub fn add(&mut self, group: JournaledGroup) {
        if group.changes > 0 {
            self.changes += group.changes;
            self.bytes += group.bytes;
            self.groups.push_back(group);
        }
    }

    /// All that was in the journal at `read_at` is in `t_data`; with a revision, only groups up to that one.
    pub fn fold(&mut self, read_at: Instant, up_to: Option<u64>) {
        let is_folded =
            |group: &JournaledGroup| group.at <= read_at && up_to.is_none_or(|end| group.revision <= end);
        while let Some(group) = self.groups.front().copied().filter(is_folded) {
            self.changes -= group.changes;
            self.bytes -= group.bytes;
            self.groups.pop_front();
        }
    }

    /// When the next fold is due; none if there is nothing to fold.
    pub fn due(&self) -> Option<Instant> {
        let oldest = self.groups.front()?.at;
        Some(if self.is_worth_a_fold() { oldest } else { oldest + self.fold_age })
    }

    /// True if a fold is due because of its size.
    pub fn is_worth_a_fold(&self) -> bool {
        self.changes >= FOLD_CHANGES || self.bytes >= FOLD_BYTES
    }

    /// True if folding takes precedence over writing.
    pub fn is_half_full(&self) -> bool {
        self.changes >= MAX_CHANGES / 2 || self.bytes >= MAX_BYTES / 2
    }

    pub fn is_full(&self) -> bool {
        self.changes >= MAX_CHANGES || self.bytes >= MAX_BYTES
    }

    pub fn changes(&self) -> usize {
        self.changes
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The age of the oldest change.
    pub fn age(&self, now: Instant) -> Duration {
        self.groups.front().map_or(Duration::ZERO, |oldest| now.saturating_duration_since(oldest.at))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn group(revision: u64, changes: usize, at: Instant) -> JournaledGroup {
        JournaledGroup { revision, changes, bytes: changes * 100, at }
    }

    #[test]
    fn a_fold_is_due_by_age_or_by_size() {
        let began = Instant::now();
        let mut backlog = Backlog::new(FOLD_AGE);
        backlog.add(group(1, 0, began));
        assert_eq!((backlog.due(), backlog.age(began)), (None, Duration::ZERO));
        backlog.add(group(2, 5, began));
        assert_eq!(backlog.due(), Some(began + FOLD_AGE));
        backlog.add(group(3, FOLD_CHANGES - 5, began + FOLD_AGE));
        assert_eq!((backlog.due(), backlog.is_full()), (Some(began), false));
        let large = JournaledGroup { bytes: MAX_BYTES, ..group(4, 1, began) };
        backlog.add(large);
        assert!(backlog.is_full());
    }

    #[test]
    fn what_came_while_a_page_was_read_stays() {
        let began = Instant::now();
        let later = began + Duration::from_secs(1);
        let mut backlog = Backlog::new(FOLD_AGE);
        (1..=4).for_each(|revision| backlog.add(group(revision, 10, began)));
        backlog.add(group(5, 10, later));
        backlog.fold(began, Some(2));
        assert_eq!((backlog.changes(), backlog.bytes()), (30, 3_000));
        backlog.fold(began, None);
        assert_eq!((backlog.changes(), backlog.age(later)), (10, Duration::ZERO));
        backlog.fold(later, None);
        assert_eq!((backlog.changes(), backlog.bytes(), backlog.due()), (0, 0, None));
    }
}
