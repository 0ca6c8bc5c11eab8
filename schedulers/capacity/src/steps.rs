//! A step function of time: how much of one resource of one node is used at each tick.
//!
//! It is a sorted map of the ticks at which the level changes; before the first it is 0. No two neighbours are equal.
//! Ticks before `since` are forgotten.

use std::collections::BTreeMap;

use crate::window::{Tick, Window};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Steps {
    levels: BTreeMap<Tick, u128>,
    /// No level from `since` on is higher, so that most checks need no look at the map.
    peak: u128,
    /// How often levels have fallen since the peak may be too high. It is found again when that was as often as there are
    /// levels, so that a fall costs one look on average.
    falls: usize,
    since: Tick,
}

/// Changes of a level that are tried: by how much more it is from each tick on.
pub(crate) type Changes = BTreeMap<Tick, i128>;

impl Steps {
    /// As high as the highest level, or a little higher.
    pub fn peak(&self) -> u128 {
        self.peak
    }

    pub fn level(&self, at: Tick) -> u128 {
        self.levels.range(..=at).next_back().map_or(0, |(_, level)| *level)
    }

    /// The highest level in a window.
    pub fn most(&self, window: Window) -> u128 {
        let later = self.levels.range(window.start()..window.end()).map(|(_, level)| *level);
        later.fold(self.level(window.start()), u128::max)
    }

    /// The same after some changes. Between two of them the levels stay as they are to each other.
    pub fn most_after(&self, changes: &Changes, window: Window) -> u128 {
        let mut by: i128 = changes.range(..=window.start()).map(|(_, change)| *change).sum();
        let (mut from, mut most) = (window.start(), 0);
        let later = changes.range(window.start()..window.end()).filter(|(at, _)| **at > window.start());
        let ends = later.map(|(at, change)| (*at, *change)).chain([(window.end(), 0)]);
        for (at, change) in ends {
            let highest = Window::new(from, at).map_or(0, |part| self.most(part));
            most = highest.saturating_add_signed(by).max(most);
            (from, by) = (at, by + change);
        }
        most
    }

    /// The same within a window, and nothing beside it.
    pub fn within(&self, window: Window) -> Steps {
        let first = Some((window.start(), self.level(window.start()))).filter(|(_, level)| *level > 0);
        let later = self.levels.range(window.start()..window.end()).map(|(at, level)| (*at, *level));
        let levels: BTreeMap<Tick, u128> = first.into_iter().chain(later).collect();
        let mut part = Steps { levels, since: window.start(), ..Steps::default() };
        part.find_peak();
        part
    }

    /// The ticks at which the level changes, with the level from there on.
    pub fn changes(&self) -> impl Iterator<Item = (Tick, u128)> {
        self.levels.iter().map(|(at, level)| (*at, *level))
    }

    /// The ticks after `from` at which the level falls.
    pub fn falls_after(&self, from: Tick) -> impl Iterator<Item = Tick> {
        let mut before = self.level(from);
        self.levels.range(from..).filter_map(move |(at, level)| {
            let falls = *level < before;
            before = *level;
            falls.then_some(*at)
        })
    }

    /// Forgets what was before `now`.
    pub fn forget_before(&mut self, now: Tick) {
        if now <= self.since {
            return;
        }
        self.since = now;
        let mut forgotten = 0;
        let mut current = None;
        while let Some(first) = self.levels.first_entry().filter(|first| *first.key() <= now) {
            let level = first.remove();
            forgotten = forgotten.max(level);
            current = Some(level);
        }
        if let Some(level) = current.filter(|level| *level > 0) {
            self.levels.insert(now, level);
        }
        self.fall(forgotten == self.peak);
    }

    /// Raises the level in a window. Levels are wide enough for any sum, also of more than there is.
    pub fn add(&mut self, window: Window, amount: u64) {
        let Some(window) = window.from(self.since) else { return };
        self.change(window, |level| level + u128::from(amount));
        self.peak = self.peak.max(self.most(window));
    }

    /// Lowers the level in a window by what was added to it.
    pub fn subtract(&mut self, window: Window, amount: u64) {
        let Some(window) = window.from(self.since) else { return };
        let was_peak = self.most(window) == self.peak;
        self.change(window, |level| level.saturating_sub(u128::from(amount)));
        self.fall(was_peak);
    }

    /// Levels have fallen, the highest among them or not.
    fn fall(&mut self, was_peak: bool) {
        self.falls += usize::from(was_peak || self.falls > 0);
        if self.falls > 0 && self.falls >= self.levels.len() {
            self.find_peak();
        }
    }

    fn change(&mut self, window: Window, new: impl Fn(u128) -> u128) {
        for edge in [window.start(), window.end()] {
            let level = self.level(edge);
            self.levels.entry(edge).or_insert(level);
        }
        for (_, level) in self.levels.range_mut(window.start()..window.end()) {
            *level = new(*level);
        }
        // All levels in between changed by the same, so only the edges can have become equal to their neighbours.
        for edge in [window.start(), window.end()] {
            let before = self.levels.range(..edge).next_back().map_or(0, |(_, level)| *level);
            if self.levels.get(&edge) == Some(&before) {
                self.levels.remove(&edge);
            }
        }
    }

    fn find_peak(&mut self) {
        self.peak = self.levels.values().copied().max().unwrap_or(0);
        self.falls = 0;
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TICKS: Tick = 16;

    fn naive(steps: &Steps) -> Vec<u128> {
        (0..TICKS).map(|at| steps.level(at)).collect()
    }

    proptest! {
        #[test]
        fn steps_are_an_array_of_ticks(
            added in proptest::collection::vec((0..TICKS, 1..=TICKS, 1..9_u64), 0..20),
            removed in 0..20_usize, now in 0..TICKS, asked in (0..TICKS, 1..=TICKS), tried in 0..20_usize,
        ) {
            let (mut steps, mut array) = (Steps::default(), vec![0_u128; TICKS as usize]);
            let windows: Vec<(Window, u64)> = added
                .iter()
                .filter_map(|(start, length, amount)| Some((Window::new(*start, (start + length).min(TICKS)).ok()?, *amount)))
                .collect();
            let change = |array: &mut [u128], window: Window, by: i128| {
                for at in window.start()..window.end() {
                    array[at as usize] = array[at as usize].checked_add_signed(by).unwrap();
                }
            };
            for (window, amount) in &windows {
                steps.add(*window, *amount);
                change(&mut array, *window, i128::from(*amount));
            }
            steps.forget_before(now);
            for (window, amount) in windows.iter().take(removed) {
                steps.subtract(*window, *amount);
                change(&mut array, *window, -(i128::from(*amount)));
            }
            prop_assert_eq!(&naive(&steps)[now as usize..], &array[now as usize..]);
            prop_assert!(steps.peak() >= array[now as usize..].iter().copied().max().unwrap_or(0));
            if let Ok(window) = Window::new(asked.0.max(now), asked.1) {
                let range = window.start() as usize..window.end() as usize;
                prop_assert_eq!(steps.most(window), *array[range.clone()].iter().max().unwrap());
                let part = steps.within(window);
                prop_assert_eq!(part.most(window), steps.most(window));
                prop_assert_eq!(part.level(window.start()), steps.level(window.start()));
                // The first of those that are left go, and come a second time.
                let (mut changes, mut after) = (Changes::new(), array.clone());
                for (place, (tried, amount)) in windows.iter().skip(removed).take(tried).enumerate() {
                    let by = if place % 2 == 0 { i128::from(*amount) } else { -i128::from(*amount) };
                    *changes.entry(tried.start()).or_default() += by;
                    *changes.entry(tried.end()).or_default() -= by;
                    if let Some(tried) = tried.from(now) {
                        change(&mut after, tried, by);
                    }
                }
                prop_assert_eq!(steps.most_after(&changes, window), *after[range].iter().max().unwrap());
            }
            let levels: Vec<u128> = steps.changes().map(|(_, level)| level).collect();
            prop_assert!(levels.windows(2).all(|pair| pair[0] != pair[1]), "{:?}", steps);
        }
    }

    #[test]
    fn the_end_of_time_is_no_special_case() {
        let mut steps = Steps::default();
        let all = Window::open(0).unwrap();
        steps.add(all, u64::MAX);
        let most = u128::from(u64::MAX);
        assert_eq!((steps.peak(), steps.level(7), steps.level(u64::MAX - 1)), (most, most, most));
        steps.subtract(all, u64::MAX);
        assert_eq!(steps, Steps::default());
    }
}
