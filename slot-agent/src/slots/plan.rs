//! The plan of a registration on this node: the times of its runs, their longest duration, and how long its values hold. Pure.

use chrono::{DateTime, Utc};
use estimand_api::names::{DataName, NodeName};
use estimand_api::registration::{Mode, Phase, Registration, Timing};

use crate::derive::is_derived;
use crate::timetable::{self, Cadence, Plan};

/// The longest default timeout.
const MAX_DEFAULT_TIMEOUT_US: u64 = 30_000_000;
/// A value holds for so many intervals.
const VALID_INTERVALS: u64 = 3;
/// A value holds at least this long, so that fast collectors do not turn stale while they are delivered.
const LEAST_VALID_US: u64 = 1_000_000;

/// When the slot runs.
pub fn plan(registration: &Registration, node: &NodeName) -> Plan {
    let cadence = match &registration.timing {
        Timing::Every(span) => Cadence::Every { interval_us: span.as_micros() },
        Timing::Gap(span) => Cadence::Gap { gap_us: span.as_micros() },
        Timing::Cron(expr) => Cadence::Cron(expr.clone()),
    };
    let phase = match registration.phase {
        Phase::Staggered => timetable::Phase::Staggered { hash: stagger(node, &registration.data_name) },
        Phase::Aligned => timetable::Phase::Aligned,
    };
    // A derivation runs for ever, and at its times only looks at the clock.
    let at_once = registration.at_once || is_derived(registration);
    Plan { cadence, phase, at_once, takes_turn: registration.mode == Mode::Exec }
}

/// How long a run may take; for a stream how long it may be silent, if that is bounded at all.
pub fn timeout_us(registration: &Registration) -> Option<u64> {
    match (registration.timeout, registration.mode, &registration.timing) {
        (Some(span), _, _) => Some(span.as_micros()),
        (None, Mode::Stream, _) => None,
        (None, _, Timing::Every(span)) => Some(span.as_micros().min(MAX_DEFAULT_TIMEOUT_US)),
        (None, _, Timing::Gap(_) | Timing::Cron(_)) => Some(MAX_DEFAULT_TIMEOUT_US),
    }
}

/// How long a value that is collected now holds.
pub fn valid_for_us(registration: &Registration, now_us: i64) -> i64 {
    let span = match &registration.timing {
        Timing::Every(span) => span.as_micros().saturating_mul(VALID_INTERVALS),
        // From one end to the next one there is a run, too.
        Timing::Gap(span) => {
            let run = timeout_us(registration).unwrap_or(0);
            span.as_micros().saturating_add(run).saturating_mul(VALID_INTERVALS)
        }
        Timing::Cron(expr) => {
            let now = DateTime::<Utc>::from_timestamp_micros(now_us).unwrap_or_default();
            let last = (0..VALID_INTERVALS).try_fold(now, |at, _| expr.next_fire(at));
            last.map_or(u64::MAX, |at| {
                u64::try_from(at.timestamp_micros().saturating_sub(now_us)).unwrap_or(0)
            })
        }
    };
    // The value of a schedule that never fires again holds for a hundred years.
    i64::try_from(span.clamp(LEAST_VALID_US, 3_155_760_000_000_000)).unwrap_or(i64::MAX)
}

/// Where within its interval an instance runs: the same on every start, and even over nodes and names (FNV-1a,
/// then mixed so that its low bits are as good as its high ones).
fn stagger(node: &NodeName, name: &DataName) -> u64 {
    let bytes = node.as_str().bytes().chain([0]).chain(name.as_str().bytes());
    let mut hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^ (hash >> 33)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn registration(more: &str) -> Registration {
        let body = format!(r#"{{"dataName": "a", "cmd": "x", {more}}}"#);
        Registration::parse(body.as_bytes()).unwrap().registration
    }

    #[test]
    fn timeouts_and_validity_follow_the_timing() {
        let check = |more: &str, timeout: Option<u64>, valid: i64| {
            let registration = registration(more);
            // 2023-11-14 22:13:20 UTC.
            let now = 1_700_000_000_000_000;
            let seconds =
                (timeout_us(&registration).map(|us| us / 1_000_000), valid_for_us(&registration, now));
            assert_eq!(seconds, (timeout, valid * 1_000_000), "{more}");
        };
        check(r#""max-Time": 5"#, Some(5), 15);
        check(r#""max-Time": 0.1, "timeout": 2"#, Some(2), 1);
        check(r#""max-Time": 600"#, Some(30), 1800);
        check(r#""max-Time": 5, "mode": "stream""#, None, 15);
        check(r#""gap": 10, "timeout": 2"#, Some(2), 36);
        check(r#""schedule": "0 * * * *""#, Some(30), 2 * 3600 + 46 * 60 + 40);
    }

    #[test]
    fn a_calendar_waits_unless_it_is_told_not_to_or_watches_its_inputs() {
        let check = |more: &str, expected: bool| {
            let node = NodeName::parse("n").unwrap();
            assert_eq!(plan(&registration(more), &node).at_once, expected, "{more}");
        };
        check(r#""schedule": "@daily""#, false);
        check(r#""schedule": "@daily", "mode": "builtin""#, false);
        check(r#""schedule": "@daily", "atOnce": true"#, true);
        check(r#""schedule": "@daily", "mode": "expr""#, true);
    }

    #[test]
    fn staggering_is_even() {
        let node = NodeName::parse("node-1").unwrap();
        let mut buckets = [0; 10];
        for number in 0..1_000 {
            let name = DataName::parse(&format!("metric_{number}")).unwrap();
            buckets[(stagger(&node, &name) % 10) as usize] += 1;
        }
        assert!(buckets.iter().all(|count| (60..=140).contains(count)), "{buckets:?}");
    }
}
