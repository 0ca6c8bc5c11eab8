//! When something is to run, as a crontab says it.
//!
//! Owns the text of an expression, its checks and the answer to "when next". It reads no clock: the answer
//! depends on the expression and on the instant asked for alone. The parts: `field` reads one field, `calendar`
//! asks the `cron` crate for the next matching wall-clock time, `fire` turns wall-clock times into instants.
//! Invariant: an expression that parsed fires, strictly after the instant asked for, and never twice for
//! one wall-clock time; the calendar ends with the year 2100.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use chrono_tz::{TZ_VARIANTS, Tz};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use self::calendar::Calendar;
use self::field::{DAY_OF_MONTH, DAY_OF_WEEK, HOUR, MINUTE, MONTH, SECOND};
use self::fire::HourRule;
use crate::problem::shorten;
use crate::schema;

mod calendar;
mod field;
mod fire;
#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;

/// The longest text of an expression.
pub const MAX_CRON_BYTES: usize = 256;

/// One field of an expression as a regular expression, made of the patterns of its numbers and of its steps.
macro_rules! field_pattern {
    ($number:literal, $step:literal) => {
        concat!(item_pattern!($number, $step), "(,", item_pattern!($number, $step), ")*")
    };
}

macro_rules! item_pattern {
    ($number:literal, $step:literal) => {
        concat!(r"(\*(/(", $step, "))?|(", $number, ")|(", $number, ")-(", $number, ")(/(", $step, "))?)")
    };
}

/// The names for common schedules, and their meaning.
const SHORTHANDS: [(&str, &str); 7] = [
    ("@hourly", "0 * * * *"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@weekly", "0 0 * * 0"),
    ("@monthly", "0 0 1 * *"),
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
];

/// The form of an expression as a regular expression. That a range runs forwards, that the zone and the day exist
/// is not in it.
const PATTERN: &str = concat!(
    r"^(TZ=[A-Za-z][A-Za-z0-9_+/-]* +)?(@(hourly|daily|midnight|weekly|monthly|yearly|annually)|",
    field_pattern!("[0-5]?[0-9]", "[1-5]?[1-9]|[1-5]0"),
    "( +",
    field_pattern!("[0-5]?[0-9]", "[1-5]?[1-9]|[1-5]0"),
    ")? +",
    field_pattern!("1?[0-9]|2[0-3]", "1?[1-9]|10|2[0-3]"),
    " +",
    field_pattern!("[1-9]|[12][0-9]|3[01]", "[1-9]|[12][0-9]|3[01]"),
    " +",
    field_pattern!("[1-9]|1[0-2]|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec", "[1-9]|1[0-2]"),
    " +",
    field_pattern!("[0-7]|sun|mon|tue|wed|thu|fri|sat", "[1-7]"),
    ")$"
);

/// The form of an expression.
fn described() -> Value {
    let words = "A cron expression that fires at some time: five fields, six with seconds first, or a name such as \
                 `@daily`; before them optionally a time zone of the IANA database";
    let mut text = schema::text(words, PATTERN, "TZ=Europe/Berlin 30 2 * * mon-fri");
    text["maxLength"] = MAX_CRON_BYTES.into();
    text
}

crate::described!(CronExpr, [], described());

/// A cron expression.
///
/// Five fields, `minute hour day-of-month month day-of-week`, or six with seconds first, or a name such as
/// `@daily`; before them optionally a time zone, `TZ=Europe/Berlin`, which is UTC unless given. A field is `*`, a
/// number, a range, either of the ranges with a step, or a list of these. Months and weekdays have names;
/// Sunday is 0 and 7. If both the day of the month and the day of the week are restricted, that is, neither
/// begins with `*`, a day matches if either does.
///
/// When the clocks change, an hour field that begins with `*` follows the wall clock from instant to instant, so
/// `*/5 * * * *` keeps its pace. With any other hour field a time that is skipped fires at the first instant
/// after the gap, and a time that occurs twice fires at its first occurrence.
///
/// ```
/// use chrono::{DateTime, Utc};
/// use estimand_api::cron::CronExpr;
///
/// let at = |text: &str| text.parse::<DateTime<Utc>>();
/// let workdays = CronExpr::parse("30 8 * * mon-fri")?;
/// assert_eq!(workdays.next_fire(at("2026-01-02T08:30:00Z")?), Some(at("2026-01-05T08:30:00Z")?));
///
/// // In Berlin, 02:30 does not exist on 29 March 2026: the clock goes from 02:00 to 03:00.
/// let nightly = CronExpr::parse("TZ=Europe/Berlin 30 2 * * *")?;
/// assert_eq!(nightly.next_fire(at("2026-03-28T12:00:00Z")?), Some(at("2026-03-29T01:00:00Z")?));
///
/// assert!(CronExpr::parse("0 0 30 feb *").is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct CronExpr(Arc<ParsedExpression>);

struct ParsedExpression {
    text: String,
    zone: Tz,
    hours: HourRule,
    calendar: Calendar,
}

/// An expression that is not one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CronError {
    #[error("the cron expression has {0} bytes; at most {MAX_CRON_BYTES} are taken")]
    TooLong(usize),
    #[error(
        "`{}` has {fields} fields; expected five (minute hour day-of-month month day-of-week), six (seconds \
         first), or one of {}", shorten(.given), shorthands()
    )]
    FieldCount { given: String, fields: usize },
    #[error("`{}` is not a known name; expected one of {}", shorten(.0), shorthands())]
    Shorthand(String),
    #[error("`{}` is not a time zone; expected {hint}", shorten(.given))]
    Zone { given: String, hint: String },
    #[error(
        "{field} `{}`: {problem}; expected {range}, alone, as a range, as `*` or a range with a step (`*/5`), or as \
         a list (`1,3`)", shorten(.given)
    )]
    Field { field: &'static str, given: String, problem: String, range: &'static str },
    #[error("`{0}` never fires: no month it names has such a day; expected a day that exists")]
    NeverFires(String),
}

impl CronExpr {
    pub fn parse(text: &str) -> Result<CronExpr, CronError> {
        if text.len() > MAX_CRON_BYTES {
            return Err(CronError::TooLong(text.len()));
        }
        let mut words: Vec<&str> = text.split_ascii_whitespace().collect();
        let text = words.join(" ");
        let zone = match words.first().and_then(|word| word.strip_prefix("TZ=")) {
            Some(name) => {
                words.remove(0);
                parse_zone(name)?
            }
            None => Tz::UTC,
        };
        if let [name] = words[..]
            && name.starts_with('@')
        {
            let known = SHORTHANDS.iter().find(|(known, _)| name.eq_ignore_ascii_case(known));
            let (_, fields) = known.ok_or_else(|| CronError::Shorthand(name.to_owned()))?;
            words = fields.split(' ').collect();
        }
        if words.len() == 5 {
            words.insert(0, "0");
        }
        let [second, minute, hour, day_of_month, month, day_of_week] = words[..] else {
            return Err(CronError::FieldCount { given: text, fields: words.len() });
        };
        let calendar = Calendar::new(
            [SECOND.parse(second)?, MINUTE.parse(minute)?, HOUR.parse(hour)?, MONTH.parse(month)?],
            DAY_OF_MONTH.parse(day_of_month)?,
            DAY_OF_WEEK.parse(day_of_week)?,
        );
        let calendar = calendar.ok_or_else(|| CronError::NeverFires(text.clone()))?;
        let hours = if hour.starts_with('*') { HourRule::EachInstant } else { HourRule::OncePerWallTime };
        Ok(CronExpr(Arc::new(ParsedExpression { text, zone, hours, calendar })))
    }

    /// The first instant after `after` at which it fires; none once the calendar has ended.
    pub fn next_fire(&self, after: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let ParsedExpression { zone, hours, calendar, .. } = &*self.0;
        let next = fire::next(*zone, *hours, calendar, after.timestamp())?;
        DateTime::from_timestamp(next, 0)
    }

    /// The text as it was given, with single spaces.
    pub fn as_str(&self) -> &str {
        &self.0.text
    }

    /// The zone whose wall clock counts.
    pub fn zone(&self) -> Tz {
        self.0.zone
    }
}

fn parse_zone(name: &str) -> Result<Tz, CronError> {
    name.parse().map_err(|_| {
        let close = TZ_VARIANTS.iter().find(|zone| zone.name().eq_ignore_ascii_case(name));
        let hint = match close {
            Some(zone) => format!("`{}`", zone.name()),
            None => "a name of the IANA database such as `Europe/Berlin` or `UTC`".to_owned(),
        };
        CronError::Zone { given: name.to_owned(), hint }
    })
}

fn shorthands() -> String {
    SHORTHANDS.map(|(name, _)| name).join(", ")
}

/// Two expressions are the same if they are written the same.
impl PartialEq for CronExpr {
    fn eq(&self, other: &Self) -> bool {
        self.0.text == other.0.text
    }
}

impl Eq for CronExpr {}

impl std::hash::Hash for CronExpr {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.text.hash(state);
    }
}

impl FromStr for CronExpr {
    type Err = CronError;
    fn from_str(text: &str) -> Result<Self, CronError> {
        CronExpr::parse(text)
    }
}

impl fmt::Display for CronExpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0.text)
    }
}

impl fmt::Debug for CronExpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CronExpr").field(&self.0.text).finish()
    }
}

impl Serialize for CronExpr {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0.text)
    }
}

impl<'de> Deserialize<'de> for CronExpr {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        CronExpr::parse(&text).map_err(serde::de::Error::custom)
    }
}
