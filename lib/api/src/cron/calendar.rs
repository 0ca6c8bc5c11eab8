//! The next wall-clock time that an expression matches, in a calendar without zones.
//!
//! The search through years, months and days is the `cron` crate's, which is asked in its own notation and in
//! UTC, where each wall-clock time exists once. It knows days of the month *and* of the week only, so a
//! crontab's *or* is two schedules, of which the earlier counts.

use chrono::DateTime;
use cron::Schedule;

use super::field::Field;

/// Where the crate's calendar ends: the year 2101.
const END: i64 = 4_133_980_800;

/// The wall-clock times that an expression matches, as seconds since 1970 on that clock.
pub(super) struct Calendar {
    one: Schedule,
    other: Option<Schedule>,
}

impl Calendar {
    /// Makes a calendar of the second, minute, hour and month, and of the days; none if no day ever matches.
    pub(super) fn new(times: [Field; 4], day_of_month: Field, day_of_week: Field) -> Option<Calendar> {
        let [second, minute, hour, month] = times.map(|field| list(field.numbers()));
        let schedule = |day_of_month: &str, day_of_week: &str| -> Option<Schedule> {
            format!("{second} {minute} {hour} {day_of_month} {month} {day_of_week}").parse().ok()
        };
        let days_of_month = list(day_of_month.numbers());
        // The crate counts Sunday as 1.
        let days_of_week = list(day_of_week.numbers().map(|number| number % 7 + 1));
        let calendar = match day_of_month.starred || day_of_week.starred {
            true => Calendar { one: schedule(&days_of_month, &days_of_week)?, other: None },
            false => {
                Calendar { one: schedule(&days_of_month, "*")?, other: Some(schedule("*", &days_of_week)?) }
            }
        };
        calendar.next_after(-1).is_some().then_some(calendar)
    }

    /// The first matching time after `wall`, from 1970 to 2100.
    pub(super) fn next_after(&self, wall: i64) -> Option<i64> {
        if wall >= END {
            return None;
        }
        let after = DateTime::from_timestamp(wall.max(-1), 0)?;
        let next = |schedule: &Schedule| schedule.after(&after).next().map(|next| next.timestamp());
        let one = next(&self.one);
        let other = self.other.as_ref().and_then(next);
        one.into_iter().chain(other).min()
    }
}

fn list(numbers: impl Iterator<Item = u32>) -> String {
    let numbers: Vec<String> = numbers.map(|number| number.to_string()).collect();
    numbers.join(",")
}
