//! The two clocks, and what the wall clock did against the other one.
//!
//! The monotonic clock only goes on, and all waiting is done by it. The wall clock may be set: [`WallClock`]
//! remembers how far it stood from the monotonic one, and how far it has ever got, so that a step can be told
//! from the passing of time and a small step back from a correction that must be believed.

/// How far the wall clock may drift from the monotonic one before due times on it are computed again.
const TOLERATED_DRIFT_US: i64 = 100_000;
/// Up to this far behind what it has shown before, the wall clock is taken to catch up; beyond it was wrong
/// before.
const CATCHES_UP_US: i64 = 600_000_000;

/// Both clocks, read together, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// Never goes back; from any origin.
    pub mono_us: u64,
    /// Since 1970; may be set.
    pub wall_us: i64,
}

impl Now {
    /// The time of the wall clock, as it goes now, at an instant of the monotonic clock.
    pub(super) fn wall_at(self, mono_us: u64) -> i64 {
        self.wall_us.saturating_add(signed(mono_us)).saturating_sub(signed(self.mono_us))
    }

    /// When, by the monotonic clock, the wall clock says this if nobody sets it; zero if that is before its
    /// origin.
    pub(super) fn mono_at(self, wall_us: i64) -> u64 {
        let ahead = wall_us.saturating_sub(self.wall_us);
        u64::try_from(signed(self.mono_us).saturating_add(ahead)).unwrap_or(0)
    }

    fn offset(self) -> i64 {
        self.wall_us.saturating_sub(signed(self.mono_us))
    }
}

/// The offset and the latest time of the wall clock.
#[derive(Debug, Default)]
pub(super) struct WallClock {
    seen: Option<LastReading>,
}

#[derive(Debug, Clone, Copy)]
struct LastReading {
    offset: i64,
    /// The latest time it has shown since it was last believed anew.
    latest_us: i64,
}

/// The wall clock was set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Step {
    /// Both clocks as they would stand now without the step.
    pub(super) before: Now,
    /// True if times that it has shown before are to come again.
    pub(super) is_new_truth: bool,
}

impl WallClock {
    /// Takes note of the clocks; says so if the wall clock was set since the last time.
    pub(super) fn see(&mut self, now: Now) -> Option<Step> {
        let Some(seen) = &mut self.seen else {
            self.seen = Some(LastReading { offset: now.offset(), latest_us: now.wall_us });
            return None;
        };
        let moved = now.offset().saturating_sub(seen.offset);
        if moved.saturating_abs() <= TOLERATED_DRIFT_US {
            seen.latest_us = seen.latest_us.max(now.wall_us);
            return None;
        }
        let before = Now { wall_us: now.wall_us.saturating_sub(moved), ..now };
        let latest_us = seen.latest_us.max(before.wall_us);
        let is_new_truth = latest_us.saturating_sub(now.wall_us) > CATCHES_UP_US;
        let latest_us = if is_new_truth { now.wall_us } else { latest_us.max(now.wall_us) };
        *seen = LastReading { offset: now.offset(), latest_us };
        Some(Step { before, is_new_truth })
    }

    /// The latest time that the wall clock has shown and still stands by.
    pub(super) fn latest(&self, now: Now) -> i64 {
        self.seen.map_or(now.wall_us, |seen| seen.latest_us.max(now.wall_us))
    }
}

fn signed(mono_us: u64) -> i64 {
    i64::try_from(mono_us).unwrap_or(i64::MAX)
}
