//! All slots of an agent, found by name, by when they fall due, and by whose turn it is.
//!
//! Each change of a slot takes it off the lists, changes it, and lists it again, so lists and slots cannot
//! disagree. Nothing looks at all slots, except when the wall clock was set.

use std::collections::{BTreeSet, HashMap};

use super::cadence::Plan;
use super::clock::{Now, Step, WallClock};
use super::slot::{Listing, Slot};
use super::turns::Turns;
use super::view::{Key, View};

/// How long to wait at most before looking at the clocks again, with a plan on the wall clock and without.
const LOOK_AT_WALL_CLOCK_US: u64 = 1_000_000;
const LOOK_US: u64 = 60_000_000;

/// A run that is to be started now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Start {
    pub key: Key,
    /// When it fell due, by the monotonic clock.
    pub due_mono_us: u64,
    /// For how long it has waited since.
    pub waited_us: u64,
}

/// When each slot of an agent runs, and whose turn it is.
#[derive(Debug)]
pub struct Timetable {
    slots: HashMap<Key, Slot>,
    lists: Lists,
    wall_clock: WallClock,
    /// How many runs were started.
    starts: u64,
}

impl Timetable {
    /// `turns` runs at the same time (at least one), and `long_turns` more for those that last.
    pub fn new(turns: usize, long_turns: usize) -> Timetable {
        let lists = Lists { timers: BTreeSet::new(), turns: Turns::new(turns, long_turns), on_wall_clock: 0 };
        Timetable { slots: HashMap::new(), lists, wall_clock: WallClock::default(), starts: 0 }
    }

    /// Adds a slot, whose first run is due as its plan says, or gives it another plan, which counts at once: no run is
    /// lost or doubled, and an unchanged cadence keeps its next due time.
    pub fn put(&mut self, key: Key, plan: Plan, now: Now) {
        self.look(now);
        let latest_wall_us = self.wall_clock.latest(now);
        if self.slots.contains_key(&key) {
            self.change(key, |slot| slot.change(plan, now, latest_wall_us));
        } else {
            let slot = Slot::new(plan, now);
            self.lists.add(key, &slot);
            self.slots.insert(key, slot);
        }
    }

    /// Makes a run due at once, out of its cadence, which goes on from there. What already waits is due; what
    /// runs is due again when it ends.
    pub fn run_soon(&mut self, key: Key, now: Now) {
        self.look(now);
        self.change(key, |slot| slot.run_soon(now));
    }

    /// Takes a slot out. One that runs keeps its turn until its end is told, also if it is put again.
    pub fn remove(&mut self, key: Key) {
        let Some(slot) = self.slots.get_mut(&key) else { return };
        if !slot.remove() {
            self.lists.remove(key, slot);
            self.slots.remove(&key);
        }
    }

    /// Those whose turn it is, in fair order; from now on they count as running. To be called at
    /// [`Self::next_wake`], and after each of the other calls.
    pub fn start(&mut self, now: Now) -> Vec<Start> {
        self.look(now);
        self.lists.turns.move_long_runs(now.mono_us);
        let places = self.lists.turns.hand_out(now.mono_us);
        for place in &places {
            self.starts += 1;
            let number = self.starts;
            self.change(place.key, |slot| slot.begin(now, number));
        }
        let waited = |due_mono_us: u64| now.mono_us.saturating_sub(due_mono_us);
        places
            .iter()
            .map(|place| Start { key: place.key, due_mono_us: place.due_us, waited_us: waited(place.due_us) })
            .collect()
    }

    /// A run has ended, however it did. Nothing happens if none was going on.
    pub fn ended(&mut self, key: Key, now: Now) {
        self.look(now);
        let Some(slot) = self.slots.get_mut(&key) else { return };
        let Some(since_us) = slot.running_since() else { return };
        self.lists.turns.give_back(since_us, key);
        self.lists.remove(key, slot);
        match slot.end(now) {
            true => self.lists.add(key, slot),
            false => drop(self.slots.remove(&key)),
        }
    }

    /// When to call [`Self::start`] again if nothing else happens, by the monotonic clock; none without slots.
    pub fn next_wake(&mut self, now: Now) -> Option<u64> {
        self.look(now);
        if self.slots.is_empty() {
            return None;
        }
        if self.lists.turns.has_work() {
            return Some(now.mono_us);
        }
        let look = match self.lists.on_wall_clock {
            0 => LOOK_US,
            _ => LOOK_AT_WALL_CLOCK_US,
        };
        let timer = self.lists.timers.first().map(|(due, _)| *due);
        let events = timer.into_iter().chain(self.lists.turns.next_release());
        let wake = events.fold(now.mono_us.saturating_add(look), u64::min);
        Some(wake.max(now.mono_us))
    }

    /// The state and the counts of a slot; a removed one has them until its run has ended.
    pub fn view(&self, key: Key, now: Now) -> Option<View> {
        self.slots.get(&key).map(|slot| slot.view(now))
    }

    /// Takes note of the clocks: whatever has fallen due waits, and a step of the wall clock moves what goes by
    /// it.
    fn look(&mut self, now: Now) {
        if let Some(step) = self.wall_clock.see(now) {
            // A slot that fell due before the step was seen stays due.
            self.take_due(step.before);
            self.take_step(step, now);
        }
        self.take_due(now);
    }

    fn take_due(&mut self, now: Now) {
        while let Some(key) = self.lists.first_due(now.mono_us) {
            self.change(key, |slot| slot.fall_due(now));
        }
    }

    fn take_step(&mut self, step: Step, now: Now) {
        for (key, slot) in self.slots.iter_mut().filter(|(_, slot)| slot.is_on_wall_clock()) {
            self.lists.remove(*key, slot);
            slot.step(step, now);
            self.lists.add(*key, slot);
        }
    }

    fn change(&mut self, key: Key, change: impl FnOnce(&mut Slot)) {
        if let Some(slot) = self.slots.get_mut(&key) {
            self.lists.remove(key, slot);
            change(slot);
            self.lists.add(key, slot);
        }
    }
}

/// Where slots are found other than by name.
#[derive(Debug)]
struct Lists {
    /// The idle slots by when they fall due.
    timers: BTreeSet<(u64, Key)>,
    turns: Turns,
    /// How many slots go by the wall clock.
    on_wall_clock: usize,
}

impl Lists {
    fn add(&mut self, key: Key, slot: &Slot) {
        self.on_wall_clock += usize::from(slot.is_on_wall_clock());
        match slot.listing(key) {
            Listing::Timer(due) => drop(self.timers.insert((due, key))),
            Listing::Lane(lane, place) => self.turns.wait(lane, place),
            Listing::Nowhere => {}
        }
    }

    fn remove(&mut self, key: Key, slot: &Slot) {
        self.on_wall_clock -= usize::from(slot.is_on_wall_clock());
        match slot.listing(key) {
            Listing::Timer(due) => drop(self.timers.remove(&(due, key))),
            Listing::Lane(lane, place) => self.turns.wait_no_more(lane, place),
            Listing::Nowhere => {}
        }
    }

    fn first_due(&self, now_us: u64) -> Option<Key> {
        self.timers.first().filter(|(due, _)| *due <= now_us).map(|(_, key)| *key)
    }
}
