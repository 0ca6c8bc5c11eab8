//! The place of one value: its latest entry, and earlier ones for readers of older snapshots.
//!
//! Replacing a value changes nothing but its cell; the maps that lead to it are shared by all snapshots. Each
//! entry carries the revision from which on it holds, so a reader of revision R takes the newest entry that
//! is not newer than R. Only the writer changes cells. It puts the old entry aside before it shows the new
//! one, and drops it when no snapshot is left that could ask for it.

use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;

use super::entry::Entry;

#[derive(Debug)]
pub struct ValueCell {
    current: ArcSwap<Entry>,
    /// Earlier entries, oldest first.
    before: Mutex<Vec<Arc<Entry>>>,
}

impl ValueCell {
    pub fn new(entry: Arc<Entry>) -> Self {
        ValueCell { current: ArcSwap::new(entry), before: Mutex::default() }
    }

    /// The entry at a revision.
    pub fn at(&self, revision: u64) -> Option<Arc<Entry>> {
        let current = self.current.load();
        if current.facts.revision <= revision {
            return Some(arc_swap::Guard::into_inner(current));
        }
        let before = self.before.lock().unwrap_or_else(PoisonError::into_inner);
        before.iter().rev().find(|entry| entry.facts.revision <= revision).cloned()
    }

    /// The latest entry. For the writer.
    pub fn latest(&self) -> Arc<Entry> {
        self.current.load_full()
    }

    /// Shows a new entry to readers of its revision or a later one. For the writer.
    pub fn replace(&self, entry: Arc<Entry>) {
        let old = self.latest();
        if !Arc::ptr_eq(&old, &entry) {
            self.before.lock().unwrap_or_else(PoisonError::into_inner).push(old);
            self.current.store(entry);
        }
    }

    /// Drops earlier entries, if no reader looks at anything older than `oldest` any more. For the writer.
    pub fn forget(&self, oldest: u64) {
        if self.current.load().facts.revision <= oldest {
            *self.before.lock().unwrap_or_else(PoisonError::into_inner) = Vec::new();
        }
    }
}
