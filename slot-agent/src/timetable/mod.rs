//! When each slot of an agent runs, and whose turn it is.
//!
//! Owns the due times of every slot, the bound on runs at the same time and the counts of what was skipped. It
//! reads no clock, starts nothing and waits for nothing: the caller passes both clocks in, starts what
//! [`Timetable::start`] names, says when a run has ended, and calls again at [`Timetable::next_wake`].
//! The parts: `cadence` answers when the next due time is, `clock` tells steps from time, `turns` says whose run
//! may begin, `slot` is one slot and `table` all of them.
//! Invariants: a slot never runs twice at once; it never has more than one run waiting, whatever happened
//! to the process, the machine or the clocks; a due time is either a run or counted as an overrun.

mod cadence;
mod clock;
mod slot;
mod table;
mod turns;
mod view;

#[cfg(test)]
mod tests;

pub use self::cadence::{Cadence, Phase, Plan};
pub use self::clock::Now;
pub use self::table::{Start, Timetable};
pub use self::view::{Key, State};
