//! Proposals that are made ahead, on a shelf for each study that somebody asks.
//!
//! A proposal stands in a chain: it was made with the trials and proposals before it as pending. It is given only if the trial
//! before it is the one that it was made after, with the `seen` that it was made with. A proposal that is not given leaves
//! nothing behind: the next one of its number is computed anew from the seed and the number.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use estimand_tuning::TrialNumber;
use estimand_tuning::space::Parameters;
use tokio::sync::{Notify, mpsc, watch};

/// The most studies whose proposer is still to be started.
const MAX_STARTING: usize = 1_024;

#[derive(Debug, Clone, PartialEq)]
pub struct Proposal {
    pub number: TrialNumber,
    /// The number of results that it was made with.
    pub seen: u64,
    /// Its own among all proposals of this process, from 1.
    pub token: u64,
    /// The token of the trial or proposal before it.
    pub after: u64,
    /// None: the space has no more points.
    pub parameters: Option<Arc<Parameters>>,
}

/// Proposals by ascending number, without gaps.
pub type Chain = Arc<[Arc<Proposal>]>;

/// A token that no other proposal of this process has.
pub fn new_token() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    LAST.fetch_add(1, Ordering::Relaxed) + 1
}

#[derive(Debug)]
pub struct Shelf {
    pub study: u64,
    pub chain: watch::Sender<Chain>,
    /// The number of proposals that are waited for.
    wanted: AtomicU64,
    /// The study has changed, or more is wanted.
    pub poke: Notify,
}

impl Shelf {
    pub fn wanted(&self) -> u64 {
        self.wanted.load(Ordering::Relaxed)
    }

    /// Wants so many proposals until the guard is dropped.
    pub fn want(self: &Arc<Self>, count: u64) -> WaitGuard {
        self.wanted.fetch_add(count, Ordering::Relaxed);
        self.poke.notify_one();
        WaitGuard { shelf: Arc::clone(self), count }
    }
}

/// Proposals that are waited for.
pub struct WaitGuard {
    shelf: Arc<Shelf>,
    count: u64,
}

impl Drop for WaitGuard {
    fn drop(&mut self) {
        self.shelf.wanted.fetch_sub(self.count, Ordering::Relaxed);
    }
}

#[derive(Debug)]
pub struct Shelves {
    all: Mutex<HashMap<u64, Arc<Shelf>>>,
    started: mpsc::Sender<Arc<Shelf>>,
}

impl Shelves {
    /// The shelves, and those whose proposer is to be started.
    pub fn new() -> (Shelves, mpsc::Receiver<Arc<Shelf>>) {
        let (started, starting) = mpsc::channel(MAX_STARTING);
        (Shelves { all: Mutex::default(), started }, starting)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Arc<Shelf>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The shelf of a study; none: too many are being started, and it is to be tried again.
    pub fn open(&self, study: u64) -> Option<Arc<Shelf>> {
        let mut all = self.lock();
        if let Some(shelf) = all.get(&study) {
            return Some(Arc::clone(shelf));
        }
        let chain = watch::Sender::new(Chain::from([]));
        let shelf = Arc::new(Shelf { study, chain, wanted: AtomicU64::new(0), poke: Notify::new() });
        self.started.try_send(Arc::clone(&shelf)).ok()?;
        all.insert(study, Arc::clone(&shelf));
        Some(shelf)
    }

    /// Takes a shelf away, unless somebody has it.
    pub fn close(&self, shelf: &Arc<Shelf>) -> bool {
        let mut all = self.lock();
        // The map's and the proposer's own.
        let is_idle = Arc::strong_count(shelf) <= 2;
        if is_idle {
            all.remove(&shelf.study);
        }
        is_idle
    }

    /// Forgets all of them.
    pub fn clear(&self) {
        self.lock().clear();
    }

    pub fn poke(&self, study: u64) {
        if let Some(shelf) = self.lock().get(&study) {
            shelf.poke.notify_one();
        }
    }

    pub fn poke_all(&self) {
        self.lock().values().for_each(|shelf| shelf.poke.notify_one());
    }
}

/// The part of a chain that may be given next: from a number on, after the trial of this token.
pub fn usable(chain: &Chain, next: TrialNumber, after: u64) -> &[Arc<Proposal>] {
    let first = chain.iter().position(|proposal| proposal.number == next);
    let rest = first.and_then(|first| chain.get(first..)).unwrap_or_default();
    if rest.first().is_some_and(|first| first.after == after) { rest } else { &[] }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(proposals: &[(TrialNumber, u64, u64)]) -> Chain {
        let made = |(number, token, after): &(TrialNumber, u64, u64)| {
            Arc::new(Proposal { number: *number, seen: 0, token: *token, after: *after, parameters: None })
        };
        proposals.iter().map(made).collect()
    }

    #[test]
    fn a_proposal_is_given_only_after_the_one_that_it_was_made_after() {
        let made = chain(&[(3, 11, 10), (4, 12, 11), (5, 13, 12)]);
        let numbers =
            |next, after| usable(&made, next, after).iter().map(|one| one.number).collect::<Vec<_>>();
        assert_eq!(numbers(3, 10), [3, 4, 5]);
        assert_eq!(numbers(4, 11), [4, 5]);
        // Trial 3 is another proposal of that number, or was loaded.
        assert!(numbers(4, 14).is_empty() && numbers(4, 0).is_empty());
        assert!(numbers(6, 13).is_empty() && numbers(2, 10).is_empty());
    }
}
