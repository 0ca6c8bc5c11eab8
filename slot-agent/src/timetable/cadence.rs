//! The next due time of a plan: arithmetic, without state.
//!
//! A due time lies on the clock that its plan goes by: staggered intervals and gaps on the monotonic one, where
//! nobody can set it, aligned intervals and crontabs on the wall clock. All due times of an interval are points of
//! one grid, so no lateness adds up. A run that the grid did not cause (the first one) moves the grid no more
//! than a late one does; the points less than half an interval after it are left out.

use std::time::Duration;

use chrono::DateTime;
use estimand_api::cron::CronExpr;
use estimand_api::duration::Span;

use super::clock::Now;

/// So many skipped times of a crontab are counted one by one; a count that was reached stands for "many". Each
/// takes a search through the calendar, and a clock that was set from 1970 to today passes millions.
const MAX_CRON_COUNT: u64 = 100;
const MICROS: i64 = Duration::from_secs(1).as_micros() as i64;

/// How a slot repeats.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cadence {
    /// From start to start.
    Every { interval_us: u64 },
    /// From the end of a run to the start of the next.
    Gap { gap_us: u64 },
    /// At the times of a calendar.
    Cron(CronExpr),
}

/// Where the grid of an interval lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// On the monotonic clock, shifted by a hash, so that slots spread over the interval.
    Staggered { hash: u64 },
    /// On the multiples of the interval since 1970, which are the same instants on every node.
    Aligned,
}

/// The request of a slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    pub cadence: Cadence,
    /// Matters to [`Cadence::Every`] only.
    pub phase: Phase,
    /// True if the first run is due as soon as the slot is there, and not only at a time of its calendar. Matters to
    /// [`Cadence::Cron`] only: others always begin at once.
    pub at_once: bool,
    /// True if a run takes one of the turns, and lasts. A plan that only asks a running process for a value does
    /// neither.
    pub takes_turn: bool,
}

/// A due time, on the clock that it belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DueTime {
    Mono(u64),
    Wall(i64),
}

impl DueTime {
    /// When it falls due by the monotonic clock, as the wall clock goes now.
    pub(super) fn due(self, now: Now) -> u64 {
        match self {
            DueTime::Mono(at) => at,
            DueTime::Wall(at) => now.mono_at(at),
        }
    }
}

impl Plan {
    /// True if its due times move when the wall clock is set.
    pub(super) fn is_on_wall_clock(&self) -> bool {
        match self.cadence {
            Cadence::Every { .. } => self.phase == Phase::Aligned,
            Cadence::Gap { .. } => false,
            Cadence::Cron(_) => true,
        }
    }

    /// True if both have the same due times.
    pub(super) fn keeps_pace_of(&self, other: &Plan) -> bool {
        let is_grid = matches!(self.cadence, Cadence::Every { .. });
        self.cadence == other.cadence && (!is_grid || self.phase == other.phase)
    }

    /// The first point of the grid that is at least half an interval after `anchor_us` and not before
    /// `floor_us`; none if it has no grid. Both are of the monotonic clock, and may be past.
    pub(super) fn grid_time(&self, anchor_us: u64, floor_us: u64, now: Now) -> Option<DueTime> {
        let least = anchor_us.saturating_add(self.interval()?.div_ceil(2));
        self.grid_time_from(least.max(floor_us), now)
    }

    fn grid_time_from(&self, least_us: u64, now: Now) -> Option<DueTime> {
        let interval = self.interval()?;
        Some(match self.phase {
            Phase::Staggered { hash } => {
                let offset = hash % interval;
                let steps = least_us.saturating_sub(offset).div_ceil(interval);
                DueTime::Mono(steps.saturating_mul(interval).saturating_add(offset))
            }
            Phase::Aligned => {
                let (least, interval) = (now.wall_at(least_us), interval as i64);
                let past = least.rem_euclid(interval);
                DueTime::Wall(if past == 0 { least } else { least.saturating_add(interval - past) })
            }
        })
    }

    /// True if the first run waits for a time of the calendar.
    pub(super) fn waits_for_calendar(&self) -> bool {
        matches!(self.cadence, Cadence::Cron(_)) && !self.at_once
    }

    /// The first time of its calendar after an instant of the wall clock; none if it has no calendar.
    pub(super) fn calendar_time(&self, after_wall_us: i64) -> Option<DueTime> {
        let Cadence::Cron(expr) = &self.cadence else { return None };
        next_fire(expr, after_wall_us).map(DueTime::Wall)
    }

    /// How many due times, from `next` on, lie before the instant, and which one is the first that does not.
    pub(super) fn skip(&self, next: DueTime, instant: Now) -> (u64, Option<DueTime>) {
        match (self.interval(), next) {
            (Some(interval), DueTime::Mono(at)) => {
                let count = instant.mono_us.saturating_sub(at).div_ceil(interval);
                (count, Some(DueTime::Mono(at.saturating_add(count.saturating_mul(interval)))))
            }
            (Some(interval), DueTime::Wall(at)) => {
                let behind = u64::try_from(instant.wall_us.saturating_sub(at)).unwrap_or(0);
                let count = behind.div_ceil(interval);
                (count, Some(DueTime::Wall(at.saturating_add_unsigned(count.saturating_mul(interval)))))
            }
            (None, DueTime::Wall(at)) => self.skip_calendar(at, instant.wall_us),
            (None, DueTime::Mono(_)) => (0, Some(next)),
        }
    }

    fn skip_calendar(&self, first: i64, wall_us: i64) -> (u64, Option<DueTime>) {
        let mut next = Some(DueTime::Wall(first));
        let mut count = 0;
        while let Some(DueTime::Wall(at)) = next
            && at < wall_us
        {
            count += 1;
            let after = if count < MAX_CRON_COUNT { at } else { wall_us.saturating_sub(1) };
            next = self.calendar_time(after);
        }
        (count, next)
    }

    /// The length of an interval; at least a microsecond, and at most what a [`Span`] can be.
    fn interval(&self) -> Option<u64> {
        match self.cadence {
            Cadence::Every { interval_us } => Some(interval_us.clamp(1, Span::MAX.as_micros())),
            Cadence::Gap { .. } | Cadence::Cron(_) => None,
        }
    }
}

fn next_fire(expr: &CronExpr, after_wall_us: i64) -> Option<i64> {
    let after = DateTime::from_timestamp(after_wall_us.div_euclid(MICROS), 0)?;
    expr.next_fire(after).map(|fire| fire.timestamp_micros())
}
