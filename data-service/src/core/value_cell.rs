//! The place of one value: its latest entry, and earlier ones for readers of older snapshots.
//!
//! Replacing a value changes nothing but its cell; the maps that lead to it are shared by all snapshots. Each
//! entry carries the revision from which on it holds, so a reader of revision R takes the newest entry that
//! is not newer than R. Only the writer changes cells. It puts the old entry aside before it shows the new
//! one, and drops it when no snapshot is left that could ask for it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use arc_swap::{ArcSwapAny, Guard};

use super::entry::{Entry, SharedEntry};

#[derive(Debug)]
pub struct ValueCell {
    current: ArcSwapAny<SharedEntry>,
    /// Hardly ever there.
    before: Mutex<Option<Box<Earlier>>>,
}

/// An earlier entry, and those before it.
#[derive(Debug)]
struct Earlier {
    entry: Entry,
    before: Option<Box<Earlier>>,
}

impl ValueCell {
    pub fn new(entry: Entry) -> Self {
        ValueCell { current: ArcSwapAny::new(entry.into_shared()), before: Mutex::default() }
    }

    /// The entry at a revision.
    pub fn at(&self, revision: u64) -> Option<Entry> {
        let current = self.current.load();
        if revision_of(&current) <= revision {
            return Some(Guard::into_inner(current).into());
        }
        let before = self.before();
        let mut earlier = before.as_deref();
        while let Some(Earlier { entry, before }) = earlier {
            if entry.facts.revision <= revision {
                return Some(entry.clone());
            }
            earlier = before.as_deref();
        }
        None
    }

    /// True if it is the place of a value of that node.
    pub fn is_of(&self, node: &str) -> bool {
        self.current.load().header.header.facts.node.as_str() == node
    }

    /// The latest entry. For the writer.
    pub fn latest(&self) -> Entry {
        self.current.load_full().into()
    }

    /// Shows a new entry to readers of its revision or a later one. For the writer.
    pub fn replace(&self, entry: Entry) {
        let old = self.latest();
        if !old.is(&entry) {
            let mut before = self.before();
            *before = Some(Box::new(Earlier { entry: old, before: before.take() }));
            drop(before);
            self.current.store(entry.into_shared());
        }
    }

    /// Drops earlier entries, if no reader looks at anything older than `oldest` any more. For the writer.
    pub fn forget(&self, oldest: u64) {
        if revision_of(&self.current.load()) <= oldest {
            let before = self.before().take();
            drop(before);
        }
    }

    fn before(&self) -> MutexGuard<'_, Option<Box<Earlier>>> {
        self.before.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn revision_of(entry: &SharedEntry) -> u64 {
    entry.header.header.facts.revision
}

/// However many there are, they are dropped one after the other, not one within the other.
impl Drop for Earlier {
    fn drop(&mut self) {
        let mut before = self.before.take();
        while let Some(mut earlier) = before {
            before = earlier.before.take();
        }
    }
}
