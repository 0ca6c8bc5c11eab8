//! A request of the past, or of a simulation: one resource, and what the job was worth.

use estimand_capacity::Tick;

use crate::money::Money;
use crate::rate::Rate;

/// `width` units for `length` ticks in a row, asked for at `arrival`, begun at `from` or later and over at `deadline`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Job {
    pub arrival: Tick,
    pub from: Tick,
    pub width: u64,
    pub length: u64,
    pub deadline: Tick,
    pub value: Money,
}

impl Job {
    /// Units times ticks.
    pub fn work(&self) -> u64 {
        self.width.saturating_mul(self.length)
    }

    /// The ticks in which it may run.
    pub fn window(&self) -> u64 {
        self.deadline.saturating_sub(self.from)
    }

    /// The worth of one unit for one tick, rounded down. A price up to this one is covered.
    pub fn unit_value(&self) -> Rate {
        Rate::of(self.value, self.work())
    }

    /// A job that could be done at all.
    pub fn is_possible(&self) -> bool {
        self.work() > 0 && self.length <= self.window()
    }
}
