//! The order of turns.
//!
//! Owns the turns, who holds one and who waits for one. A run that lasts longer than [`LONG_US`] gives its turn
//! back and takes a *long* turn as long as there is one, and a slot whose last run was long waits for a long
//! turn from the start; so what is slow or hangs cannot occupy the turns of what is quick. Within a lane the
//! order is that of falling due, and among those who fell due together the one who started longest ago comes
//! first.

use std::collections::BTreeSet;

use super::view::Key;

/// From this age on a run is long.
pub(super) const LONG_US: u64 = 1_000_000;

/// The queue in which a run waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lane {
    /// Nothing: it needs no turn.
    Free,
    Quick,
    Long,
}

/// A place in a lane: when it fell due, the number of its last start (0: none yet), and who it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) due_us: u64,
    pub(super) last_start: u64,
    pub(super) key: Key,
}

#[derive(Debug)]
pub(super) struct Turns {
    quick_left: usize,
    long_left: usize,
    has_long: bool,
    free: BTreeSet<Place>,
    quick: BTreeSet<Place>,
    long: BTreeSet<Place>,
    /// The runs that hold a quick turn, oldest first.
    in_quick: BTreeSet<(u64, Key)>,
}

impl Turns {
    pub(super) fn new(quick: usize, long: usize) -> Turns {
        Turns {
            quick_left: quick.max(1),
            long_left: long,
            has_long: long > 0,
            free: BTreeSet::new(),
            quick: BTreeSet::new(),
            long: BTreeSet::new(),
            in_quick: BTreeSet::new(),
        }
    }

    pub(super) fn wait(&mut self, lane: Lane, place: Place) {
        self.lane(lane).insert(place);
    }

    pub(super) fn wait_no_more(&mut self, lane: Lane, place: Place) {
        self.lane(lane).remove(&place);
    }

    /// Moves the oldest of the long runs to long turns, as far as there are any.
    pub(super) fn move_long_runs(&mut self, now_us: u64) {
        while self.next_move().is_some_and(|at| at <= now_us) && self.in_quick.pop_first().is_some() {
            self.quick_left += 1;
            self.long_left -= 1;
        }
    }

    /// When a run has to give its turn back to someone who waits; none if nobody does, or no long turn is left.
    pub(super) fn next_release(&self) -> Option<u64> {
        self.next_move().filter(|_| !self.quick.is_empty())
    }

    /// When the next run may move to a long turn; none if there is none.
    fn next_move(&self) -> Option<u64> {
        let (since, _) = self.in_quick.first().filter(|_| self.long_left > 0)?;
        Some(since.saturating_add(LONG_US))
    }

    /// Takes all those whose turn it is out of their lanes, in the order of their places.
    pub(super) fn hand_out(&mut self, now_us: u64) -> Vec<Place> {
        let mut places: Vec<Place> = std::mem::take(&mut self.free).into_iter().collect();
        while self.quick_left > 0
            && let Some(place) = self.quick.pop_first()
        {
            self.quick_left -= 1;
            self.in_quick.insert((now_us, place.key));
            places.push(place);
        }
        while self.long_left > 0
            && let Some(place) = self.long.pop_first()
        {
            self.long_left -= 1;
            places.push(place);
        }
        places.sort_unstable();
        places
    }

    /// True if a slot waits whose turn it is.
    pub(super) fn has_work(&self) -> bool {
        !self.free.is_empty()
            || (self.quick_left > 0 && !self.quick.is_empty())
            || (self.long_left > 0 && !self.long.is_empty())
    }

    /// Takes back the turn of a run that began then.
    pub(super) fn give_back(&mut self, since_us: u64, key: Key) {
        match self.in_quick.remove(&(since_us, key)) {
            true => self.quick_left += 1,
            false => self.long_left += 1,
        }
    }

    fn lane(&mut self, lane: Lane) -> &mut BTreeSet<Place> {
        match lane {
            Lane::Free => &mut self.free,
            Lane::Long if self.has_long => &mut self.long,
            // Without long turns, all runs share the ones there are.
            Lane::Long | Lane::Quick => &mut self.quick,
        }
    }
}
