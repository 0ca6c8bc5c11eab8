//! The recent changes, for watchers.
//!
//! The writer appends; a watcher holds nothing but the revision that it has seen and takes the later changes
//! from here. Nothing is kept for a slow watcher once the log does not reach back to its revision: it gets a
//! fresh snapshot. So memory depends neither on the number of watchers nor on their speed.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use estimand_api::names::{DataName, NodeName};
use tokio::sync::Notify;

use super::entry::Entry;
use super::shared_pieces::SharedPieces;

/// How many changes are kept at most.
const MAX_CHANGES: usize = 65_536;
/// How much memory they may hold.
const MAX_BYTES: usize = 64 * 1024 * 1024;
/// The most watchers at the same time.
pub const MAX_WATCHERS: usize = 20_000;

/// One change; each has a revision of its own, and they are without gaps.
#[derive(Debug, Clone)]
pub enum Change {
    /// A value is new, or its state is.
    Put(Entry),
    Removed {
        name: DataName,
        node: NodeName,
        revision: u64,
    },
    /// A binding leads elsewhere, or nowhere any more.
    Rebound {
        name: DataName,
        revision: u64,
    },
}

impl Change {
    pub fn revision(&self) -> u64 {
        match self {
            Change::Put(entry) => entry.facts.revision,
            Change::Removed { revision, .. } | Change::Rebound { revision, .. } => *revision,
        }
    }

    pub fn name(&self) -> &DataName {
        match self {
            Change::Put(entry) => &entry.facts.name,
            Change::Removed { name, .. } | Change::Rebound { name, .. } => name,
        }
    }

    fn size(&self) -> usize {
        match self {
            Change::Put(entry) => entry.size(),
            _ => 128,
        }
    }
}

/// The changes after a revision.
#[derive(Debug)]
pub enum Since {
    /// At most as many as asked for.
    Changes(Vec<Change>),
    /// Some of them are not kept any more.
    Gone,
}

/// The log and its watchers.
#[derive(Debug)]
pub struct Log {
    /// Its changes as they were rendered last.
    pub pieces: SharedPieces,
    ring: RwLock<Ring>,
    waiting: Mutex<Watchers>,
    watchers: AtomicUsize,
}

#[derive(Debug)]
struct Ring {
    changes: VecDeque<Change>,
    bytes: usize,
    /// The revision before the first change that is kept.
    base: u64,
}

impl Log {
    /// An empty log, of which nothing up to `base` is known.
    pub fn new(base: u64) -> Self {
        let ring = Ring { changes: VecDeque::new(), bytes: 0, base };
        let pieces = SharedPieces::default();
        Log { pieces, ring: RwLock::new(ring), waiting: Mutex::default(), watchers: AtomicUsize::new(0) }
    }

    /// Appends changes. The snapshot that contains them is visible already.
    pub fn append(&self, changes: &[Change]) {
        let mut ring = self.ring.write().unwrap_or_else(PoisonError::into_inner);
        for change in changes {
            ring.bytes += change.size();
            ring.changes.push_back(change.clone());
        }
        while ring.changes.len() > MAX_CHANGES || ring.bytes > MAX_BYTES {
            let Some(oldest) = ring.changes.pop_front() else { break };
            ring.bytes -= oldest.size();
            ring.base = oldest.revision();
        }
        drop(ring);
        if self.watchers.load(Ordering::Acquire) > 0 {
            self.wake(changes);
        }
    }

    /// Up to `most` changes after a revision. `published` is the last revision that readers can see: they see
    /// changes a moment before those are here, and a reader that has seen them already only has to wait for the next.
    pub fn since(&self, revision: u64, published: u64, most: usize) -> Since {
        let ring = self.ring.read().unwrap_or_else(PoisonError::into_inner);
        let head = ring.base + ring.changes.len() as u64;
        if revision < ring.base || revision > head.max(published) {
            return Since::Gone;
        }
        let seen = (revision.min(head) - ring.base) as usize;
        Since::Changes(ring.changes.range(seen..).take(most).cloned().collect())
    }

    /// Counts a watcher in, unless there are too many.
    pub fn join(self: &Arc<Self>) -> Option<Seat> {
        let joined = self.watchers.fetch_update(Ordering::AcqRel, Ordering::Acquire, |count| {
            (count < MAX_WATCHERS).then_some(count + 1)
        });
        joined.is_ok().then(|| Seat {
            log: self.clone(),
            notify: Arc::new(Notify::new()),
            interest: Interest::Nothing,
        })
    }

    pub fn watchers(&self) -> usize {
        self.watchers.load(Ordering::Acquire)
    }

    fn wake(&self, changes: &[Change]) {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let mut last: Option<&DataName> = None;
        for name in changes.iter().map(Change::name) {
            if last != Some(name) {
                notify(waiting.by_name.get(name).into_iter().flatten());
                last = Some(name);
            }
        }
        if !changes.is_empty() {
            notify(waiting.everything.iter());
        }
    }
}

/// The watchers, by the names that they wait for.
#[derive(Debug, Default)]
struct Watchers {
    by_name: HashMap<DataName, Vec<Arc<Notify>>>,
    everything: Vec<Arc<Notify>>,
}

/// A watcher that does not wait right now finds the wake-up when it next does.
fn notify<'a>(watchers: impl Iterator<Item = &'a Arc<Notify>>) {
    watchers.for_each(|watcher| watcher.notify_one());
}

/// A watcher's place; given up when it is dropped.
#[derive(Debug)]
pub struct Seat {
    log: Arc<Log>,
    notify: Arc<Notify>,
    interest: Interest,
}

/// The changes for which a watcher is woken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Interest {
    Nothing,
    Names(Vec<DataName>),
    Everything,
}

impl Seat {
    /// Sets the changes for which the watcher is woken from now on.
    pub fn set_interest(&mut self, interest: Interest) {
        if interest == self.interest {
            return;
        }
        let mut waiting = self.log.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        self.leave(&mut waiting);
        match &interest {
            Interest::Nothing => {}
            Interest::Everything => waiting.everything.push(self.notify.clone()),
            Interest::Names(names) => {
                for name in names {
                    waiting.by_name.entry(name.clone()).or_default().push(self.notify.clone());
                }
            }
        }
        drop(waiting);
        self.interest = interest;
    }

    /// Ends when something of interest may have changed since the last time.
    pub async fn woken(&self) {
        self.notify.notified().await;
    }

    fn leave(&self, waiting: &mut Watchers) {
        let is_other = |other: &Arc<Notify>| !Arc::ptr_eq(other, &self.notify);
        match &self.interest {
            Interest::Nothing => {}
            Interest::Everything => waiting.everything.retain(is_other),
            Interest::Names(names) => {
                for name in names {
                    if let Some(others) = waiting.by_name.get_mut(name) {
                        others.retain(is_other);
                        if others.is_empty() {
                            waiting.by_name.remove(name);
                        }
                    }
                }
            }
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut waiting = self.log.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        self.leave(&mut waiting);
        drop(waiting);
        self.log.watchers.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn removal(revision: u64) -> Change {
        Change::Removed { name: DataName::parse("a").unwrap(), node: NodeName::parse("n").unwrap(), revision }
    }

    fn revisions(since: Since) -> Option<Vec<u64>> {
        match since {
            Since::Changes(changes) => Some(changes.iter().map(Change::revision).collect()),
            Since::Gone => None,
        }
    }

    #[test]
    fn a_watcher_takes_what_came_after_what_it_has_seen() {
        let log = Log::new(10);
        log.append(&[removal(11), removal(12), removal(13)]);
        assert_eq!(revisions(log.since(10, 13, 2)), Some(vec![11, 12]));
        assert_eq!(revisions(log.since(12, 13, 9)), Some(vec![13]));
        assert_eq!(revisions(log.since(13, 13, 9)), Some(vec![]));
        assert_eq!(revisions(log.since(9, 13, 9)), None, "before the log began");
        assert_eq!(
            revisions(log.since(14, 13, 9)),
            None,
            "not reached yet: from another life of the service"
        );
        assert_eq!(
            revisions(log.since(14, 14, 9)),
            Some(vec![]),
            "published already, and about to be appended"
        );
    }

    #[test]
    fn what_falls_out_of_the_log_is_gone() {
        let log = Log::new(0);
        for revision in 1..=MAX_CHANGES as u64 + 5 {
            log.append(&[removal(revision)]);
        }
        assert_eq!(revisions(log.since(4, 0, 1)), None);
        assert_eq!(revisions(log.since(5, 0, 1)), Some(vec![6]));
    }

    #[test]
    fn a_dropped_watcher_leaves_nothing_behind() {
        let log = Arc::new(Log::new(0));
        let mut seat = log.join().unwrap();
        seat.set_interest(Interest::Names(vec![DataName::parse("a").unwrap()]));
        assert_eq!(log.watchers(), 1);
        drop(seat);
        assert_eq!(log.watchers(), 0);
        assert!(log.waiting.lock().unwrap().by_name.is_empty());
    }
}
