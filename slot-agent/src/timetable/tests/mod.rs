//! Tests with turned clocks: a [`Bench`] is an agent without processes, which looks at its timetable only when
//! the timetable asked for it.
#![allow(clippy::unwrap_used)]

mod cadences;
mod changes;
mod clocks;
mod lanes;
mod model;
mod property;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use estimand_api::cron::CronExpr;

use super::view::View;
use super::*;

pub const S: u64 = 1_000_000;
pub const MS: u64 = 1_000;
pub const MINUTE: i64 = 60 * S as i64;

pub fn every(interval_us: u64) -> Plan {
    Plan {
        cadence: Cadence::Every { interval_us },
        phase: Phase::Staggered { hash: 0 },
        at_once: true,
        takes_turn: true,
    }
}

pub fn staggered(interval_us: u64, hash: u64) -> Plan {
    Plan { phase: Phase::Staggered { hash }, ..every(interval_us) }
}

pub fn aligned(interval_us: u64) -> Plan {
    Plan { phase: Phase::Aligned, ..every(interval_us) }
}

pub fn gap(gap_us: u64) -> Plan {
    Plan { cadence: Cadence::Gap { gap_us }, ..every(1) }
}

pub fn cron(text: &str) -> Plan {
    Plan { cadence: Cadence::Cron(CronExpr::parse(text).unwrap()), ..every(1) }
}

/// A run as it began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    pub key: u64,
    pub mono_us: u64,
    pub wall_us: i64,
    pub waited_us: u64,
}

pub struct Bench {
    pub table: Timetable,
    pub now: Now,
    pub runs: Vec<Run>,
    /// How long the runs of a slot last; none: they hang. Not given: no time at all.
    pub lasts: HashMap<u64, Option<u64>>,
    turnless: BTreeSet<u64>,
    ends: BTreeSet<(u64, u64)>,
    going_on: BTreeMap<u64, u64>,
    /// How often it looked.
    pub wakes: usize,
}

impl Bench {
    pub fn new(turns: usize, long_turns: usize, now: Now) -> Bench {
        Bench {
            table: Timetable::new(turns, long_turns),
            now,
            runs: Vec::new(),
            lasts: HashMap::new(),
            turnless: BTreeSet::new(),
            ends: BTreeSet::new(),
            going_on: BTreeMap::new(),
            wakes: 0,
        }
    }

    /// Enough turns for all.
    pub fn wide() -> Bench {
        Bench::new(100, 100, Now { mono_us: 0, wall_us: 0 })
    }

    pub fn put(&mut self, key: u64, plan: Plan) {
        match plan.takes_turn {
            true => self.turnless.remove(&key),
            false => self.turnless.insert(key),
        };
        self.table.put(Key(key), plan, self.now);
        self.look();
    }

    pub fn put_lasting(&mut self, key: u64, plan: Plan, lasts_us: u64) {
        self.lasts.insert(key, Some(lasts_us));
        self.put(key, plan);
    }

    pub fn put_hanging(&mut self, key: u64, plan: Plan) {
        self.lasts.insert(key, None);
        self.put(key, plan);
    }

    pub fn remove(&mut self, key: u64) {
        self.table.remove(Key(key));
        self.look();
    }

    pub fn end(&mut self, key: u64) {
        let since = self.going_on.remove(&key);
        assert!(since.is_some(), "{key} does not run");
        self.ends.retain(|(_, other)| *other != key);
        self.table.ended(Key(key), self.now);
        self.look();
    }

    /// Sets the wall clock and looks.
    pub fn set_wall_clock_by(&mut self, step_us: i64) {
        self.now.wall_us += step_us;
        self.look();
    }

    /// Lets time pass without looking, as if the process were stopped.
    pub fn stop_for(&mut self, time_us: u64) {
        self.now.mono_us += time_us;
        self.now.wall_us += time_us as i64;
    }

    pub fn look(&mut self) {
        self.wakes += 1;
        for start in self.table.start(self.now) {
            let key = start.key.0;
            assert_eq!(start.waited_us, self.now.mono_us - start.due_mono_us);
            self.runs.push(Run {
                key,
                mono_us: self.now.mono_us,
                wall_us: self.now.wall_us,
                waited_us: start.waited_us,
            });
            if self.turnless.contains(&key) {
                continue;
            }
            assert_eq!(self.going_on.insert(key, self.now.mono_us), None, "{key} runs twice");
            if let Some(lasts) = self.lasts.get(&key).copied().unwrap_or(Some(0)) {
                self.ends.insert((self.now.mono_us + lasts, key));
            }
        }
    }

    /// Does what the timetable asks for until that much time has passed.
    pub fn pass(&mut self, time_us: u64) {
        let until = self.now.mono_us + time_us;
        loop {
            let wake = self.table.next_wake(self.now).unwrap_or(u64::MAX);
            let end = self.ends.first().copied();
            let next = end.map_or(wake, |(at, _)| at.min(wake)).max(self.now.mono_us);
            if next > until {
                break;
            }
            self.stop_for(next - self.now.mono_us);
            if let Some((at, key)) = end
                && at <= next
            {
                self.end(key);
            } else {
                self.look();
            }
        }
        self.stop_for(until - self.now.mono_us);
    }

    pub fn starts(&self, key: u64) -> Vec<u64> {
        self.runs.iter().filter(|run| run.key == key).map(|run| run.mono_us).collect()
    }

    pub fn walls(&self, key: u64) -> Vec<i64> {
        self.runs.iter().filter(|run| run.key == key).map(|run| run.wall_us).collect()
    }

    pub fn view(&self, key: u64) -> View {
        self.table.view(Key(key), self.now).unwrap()
    }

    /// Runs and overruns.
    pub fn counts(&self, key: u64) -> (u64, u64) {
        let view = self.view(key);
        (view.runs, view.overruns)
    }

    pub fn running(&self) -> usize {
        self.going_on.len()
    }
}
