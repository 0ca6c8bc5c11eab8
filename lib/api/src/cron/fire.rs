//! From wall-clock times to instants, through the changes of a zone's offset.
//!
//! Between two changes, wall-clock time is UTC plus a constant, and the calendar's answer can be used as it is.
//! So the search walks from change to change, but only where one can matter: close after the instant asked
//! for, and close before the candidate. It makes no assumption about when zones change, how far, or in which
//! direction, except that two changes are [`PROBE`] apart. All numbers are seconds.

use chrono::{DateTime, Offset, TimeZone};
use chrono_tz::Tz;

use super::calendar::Calendar;

const HOUR: i64 = 3_600;
/// More than any two offsets in the world, past or present, differ: a change farther away from an instant than
/// this cannot repeat or skip the wall-clock time of that instant.
const REACH: i64 = 48 * HOUR;
/// How far apart offsets are compared. A change that was undone sooner than this could be overlooked.
const PROBE: i64 = 6 * HOUR;

/// The meaning of the hour field when wall-clock times are skipped or repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HourRule {
    /// Each instant whose wall-clock time matches.
    EachInstant,
    /// Each matching wall-clock time once: where it first occurs, or where the gap that skips it ends.
    OncePerWallTime,
}

/// The first instant after `after` at which the calendar fires in the zone.
pub(super) fn next(zone: Tz, rule: HourRule, calendar: &Calendar, after: i64) -> Option<i64> {
    // `at` is the first instant that is not decided yet, and `floor` the wall-clock time up to which nothing can
    // fire from there on. Before 1970 the calendar is empty.
    let mut at = after.max(-REACH).checked_add(1)?;
    let mut offset = offset_at(zone, at)?;
    let mut floor = match rule {
        HourRule::EachInstant => at + offset - 1,
        HourRule::OncePerWallTime => latest_wall_before(zone, at)?,
    };
    loop {
        let wall = calendar.next_after(floor)?;
        // A time that lies before `at` was skipped by the change at `at`.
        let fire = (wall - offset).max(at);
        let near = fire.min(at + REACH);
        match first_change(zone, at, near) {
            Some(change) => {
                let last_wall = change - 1 + offset;
                at = change;
                offset = offset_at(zone, at)?;
                floor = match rule {
                    HourRule::EachInstant => at + offset - 1,
                    HourRule::OncePerWallTime => floor.max(last_wall),
                };
            }
            None if near == fire => return Some(fire),
            None => {
                // The times between can neither repeat a time up to `floor` nor reach `wall`.
                at = near.max(fire - REACH);
                offset = offset_at(zone, at)?;
            }
        }
    }
}

/// The latest time that a wall clock in the zone has shown before the instant; later than the one it showed
/// last if it was set back since.
fn latest_wall_before(zone: Tz, at: i64) -> Option<i64> {
    let last = at - 1;
    let mut latest = last + offset_at(zone, last)?;
    let mut from = last - REACH;
    while let Some(change) = first_change(zone, from, last) {
        latest = latest.max(change - 1 + offset_at(zone, change - 1)?);
        from = change;
    }
    Some(latest)
}

/// The first instant after `from`, up to `to`, from which on the offset is another than at `from`.
fn first_change(zone: Tz, from: i64, to: i64) -> Option<i64> {
    let offset = offset_at(zone, from);
    let mut same = from;
    while same < to {
        let mut other = to.min(same + PROBE);
        if offset_at(zone, other) == offset {
            same = other;
            continue;
        }
        while other - same > 1 {
            let middle = same + (other - same) / 2;
            match offset_at(zone, middle) == offset {
                true => same = middle,
                false => other = middle,
            }
        }
        return Some(other);
    }
    None
}

/// By how much the zone's wall clock is ahead of UTC.
fn offset_at(zone: Tz, at: i64) -> Option<i64> {
    let utc = DateTime::from_timestamp(at, 0)?.naive_utc();
    Some(i64::from(zone.offset_from_utc_datetime(&utc).fix().local_minus_utc()))
}
