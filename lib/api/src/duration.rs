//! A length of time as people write it and as programs need it: whole microseconds.
//!
//! A [`Span`] is never a float: text is read digit by digit, so `0.1` is 100 milliseconds and not a little
//! more. A span displays as the shortest text that reads back as the same span. It is at most
//! [`Span::MAX`]; the caller decides if zero makes sense.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value, json};

use crate::problem::shorten;
use crate::schema;

const MICROS_PER_SECOND: u64 = 1_000_000;
/// A hundred years of 365.25 days.
const MAX_MICROS: u64 = 36_525 * 86_400 * MICROS_PER_SECOND;

/// The units in the order in which they may follow each other, in microseconds.
const UNITS: [(&str, u64); 6] = [
    ("d", 86_400 * MICROS_PER_SECOND),
    ("h", 3_600 * MICROS_PER_SECOND),
    ("m", 60 * MICROS_PER_SECOND),
    ("s", MICROS_PER_SECOND),
    ("ms", 1_000),
    ("us", 1),
];

/// The form of a span, for messages.
pub const EXPECTED: &str = "seconds such as 5 or 0.25, or a number with a unit (us, ms, s, m, h, d) such as \
                            250ms, 1.5s or 1h30m, at most 100 years";

/// The pattern of a span's text that is not empty: without its bounds, and of fractions those that are never too fine.
const PATTERN: &str = r"^([0-9]+(\.[0-9]{1,6})?|([0-9]+(\.[0-9]{1,8})?d)?([0-9]+(\.[0-9]{1,8})?h)?([0-9]+(\.[0-9]{1,7})?m)?([0-9]+(\.[0-9]{1,6})?s)?([0-9]+(\.[0-9]{1,3})?ms)?([0-9]+us)?)$";

/// A length of time.
///
/// ```
/// use estimand_api::duration::Span;
///
/// let span: Span = "1h30m".parse()?;
/// assert_eq!(span.as_micros(), 5_400_000_000);
/// assert_eq!(span, "5400".parse()?);
/// assert_eq!(span.to_string(), "90m");
/// # Ok::<(), estimand_api::duration::SpanError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Span(u64);

/// A span that is not one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{}` {problem}; expected {EXPECTED}", shorten(.given))]
pub struct SpanError {
    given: String,
    problem: &'static str,
}

const NOT_A_DURATION: &str = "is not a duration";
const TOO_LONG: &str = "is longer than 100 years";
const TOO_FINE: &str = "is finer than a microsecond";
const NEGATIVE: &str = "is negative";
const WRONG_ORDER: &str = "has its units out of order: the larger one comes first, each at most once";

impl Span {
    pub const ZERO: Span = Span(0);
    /// The longest span: a hundred years.
    pub const MAX: Span = Span(MAX_MICROS);

    /// Reads `500us`, `250ms`, `1.5s`, `2m`, `1h30m`, `7d`, or a bare number of seconds.
    pub fn parse(text: &str) -> Result<Span, SpanError> {
        read(text).map(Span).map_err(|problem| SpanError { given: text.to_owned(), problem })
    }

    pub fn from_micros(micros: u64) -> Result<Span, SpanError> {
        match micros <= MAX_MICROS {
            true => Ok(Span(micros)),
            false => Err(SpanError { given: format!("{micros}us"), problem: TOO_LONG }),
        }
    }

    /// The nearest whole number of microseconds; a length above zero never becomes zero.
    pub fn from_secs_f64(seconds: f64) -> Result<Span, SpanError> {
        let micros = seconds * MICROS_PER_SECOND as f64;
        let problem = match micros {
            _ if micros.is_nan() => NOT_A_DURATION,
            _ if micros < 0.0 => NEGATIVE,
            _ if micros > MAX_MICROS as f64 => TOO_LONG,
            _ if micros > 0.0 && micros < 0.5 => TOO_FINE,
            _ => return Ok(Span(micros.round() as u64)),
        };
        Err(SpanError { given: seconds.to_string(), problem })
    }

    pub const fn as_micros(self) -> u64 {
        self.0
    }

    pub const fn as_std(self) -> Duration {
        Duration::from_micros(self.0)
    }

    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
}

/// A span from `least` to `most` microseconds: a number of seconds, or a text.
pub(crate) fn schema_between(least: u64, most: u64) -> Value {
    let seconds = |micros: u64| micros as f64 / MICROS_PER_SECOND as f64;
    let (from, to) = (Span(least), Span(most));
    json!({
        "description": format!("A length of time from {from} to {to}: seconds, or a text such as `1h30m`"),
        "oneOf": [
            { "type": "number", "minimum": seconds(least), "maximum": seconds(most) },
            text_schema(),
        ],
    })
}

/// The text of a span.
pub(crate) fn text_schema() -> Value {
    let mut text = schema::text(EXPECTED, PATTERN, "1h30m");
    text["minLength"] = 1.into();
    text
}

crate::described!(Span, [], schema_between(1, MAX_MICROS));

/// A span that is always written as a text, as in a query.
#[derive(Debug)]
pub enum SpanText {}

crate::described!(SpanText, [], text_schema());

impl From<Span> for Duration {
    fn from(span: Span) -> Duration {
        span.as_std()
    }
}

impl FromStr for Span {
    type Err = SpanError;
    fn from_str(text: &str) -> Result<Span, SpanError> {
        Span::parse(text)
    }
}

/// Reads the whole text, a bare number or parts with units from large to small.
fn read(text: &str) -> Result<u64, &'static str> {
    if text.starts_with('-') {
        return Err(NEGATIVE);
    }
    let (mut rest, mut total, mut smallest_unit) = (text, 0u64, u64::MAX);
    loop {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, tail) = rest.split_at(digits);
        let letters = tail.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(tail.len());
        let (name, tail) = tail.split_at(letters);
        let unit = match UNITS.iter().find(|(unit, _)| *unit == name) {
            Some((_, unit)) => *unit,
            // Only a number that stands alone may do without a unit.
            None if digits == text.len() => MICROS_PER_SECOND,
            None => return Err(NOT_A_DURATION),
        };
        if unit >= smallest_unit {
            return Err(WRONG_ORDER);
        }
        smallest_unit = unit;
        total += decimal(number, unit)?;
        if total > MAX_MICROS {
            return Err(TOO_LONG);
        }
        if tail.is_empty() {
            return Ok(total);
        }
        rest = tail;
    }
}

/// A decimal number times the unit, exactly, and at most [`MAX_MICROS`].
fn decimal(number: &str, unit: u64) -> Result<u64, &'static str> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    if whole.is_empty() || fraction.is_empty() || fraction.contains('.') {
        return Err(NOT_A_DURATION);
    }
    let mut micros = 0u64;
    for digit in whole.bytes() {
        micros = micros * 10 + u64::from(digit - b'0') * unit;
        if micros > MAX_MICROS {
            return Err(TOO_LONG);
        }
    }
    // The last digit is not zero here, and a day has 2 as a factor thirteen times: a fraction with more digits than
    // that is no whole number of microseconds in any unit.
    let (mut numerator, mut denominator) = (0u64, 1u64);
    for digit in fraction.trim_end_matches('0').bytes() {
        numerator = numerator * 10 + u64::from(digit - b'0');
        denominator *= 10;
        if denominator > 10_000_000_000_000 {
            return Err(TOO_FINE);
        }
    }
    let scaled = u128::from(numerator) * u128::from(unit);
    match scaled % u128::from(denominator) {
        0 => Ok(micros + (scaled / u128::from(denominator)) as u64),
        _ => Err(TOO_FINE),
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 {
            return f.pad("0s");
        }
        let whole = UNITS
            .iter()
            .filter(|(_, unit)| self.0.is_multiple_of(*unit))
            .map(|(name, unit)| format!("{}{name}", self.0 / unit));
        let others = [
            mixed(self.0),
            with_fraction(self.0, "s", MICROS_PER_SECOND),
            with_fraction(self.0, "ms", 1_000),
        ];
        // Of equally short ones the first wins: a whole number reads better than a fraction.
        let shortest = whole.chain(others).min_by_key(String::len).unwrap_or_default();
        f.pad(&shortest)
    }
}

/// Days, hours and minutes one after the other, then seconds with the rest.
fn mixed(micros: u64) -> String {
    let (mut text, mut left) = (String::new(), micros);
    for (name, unit) in &UNITS[..3] {
        if left >= *unit {
            text.push_str(&format!("{}{name}", left / unit));
            left %= unit;
        }
    }
    match left {
        0 => text,
        left => text + &with_fraction(left, "s", MICROS_PER_SECOND),
    }
}

fn with_fraction(micros: u64, name: &str, unit: u64) -> String {
    let digits = unit.ilog10() as usize;
    let number = format!("{}.{:0digits$}", micros / unit, micros % unit);
    format!("{}{name}", number.trim_end_matches('0').trim_end_matches('.'))
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(SpanVisitor)
    }
}

struct SpanVisitor;

impl Visitor<'_> for SpanVisitor {
    type Value = Span;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(EXPECTED)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Span, E> {
        Span::parse(text).map_err(E::custom)
    }

    fn visit_u64<E: de::Error>(self, seconds: u64) -> Result<Span, E> {
        let micros = seconds.saturating_mul(MICROS_PER_SECOND);
        Span::from_micros(micros)
            .map_err(|error| E::custom(SpanError { given: seconds.to_string(), ..error }))
    }

    fn visit_i64<E: de::Error>(self, seconds: i64) -> Result<Span, E> {
        match u64::try_from(seconds) {
            Ok(seconds) => self.visit_u64(seconds),
            Err(_) => Err(E::custom(SpanError { given: seconds.to_string(), problem: NEGATIVE })),
        }
    }

    fn visit_f64<E: de::Error>(self, seconds: f64) -> Result<Span, E> {
        Span::from_secs_f64(seconds).map_err(E::custom)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_what_people_write() {
        let check = |text: &str, micros: u64| {
            assert_eq!(Span::parse(text).map(Span::as_micros), Ok(micros), "{text}");
        };
        check("500us", 500);
        check("250ms", 250_000);
        check("5s", 5_000_000);
        check("1.5s", 1_500_000);
        check("2m", 120_000_000);
        check("1h", 3_600_000_000);
        check("7d", 604_800_000_000);
        check("1h30m", 5_400_000_000);
        check("1d2h3m4s5ms6us", 93_784_005_006);
        check("5", 5_000_000);
        check("0.25", 250_000);
        check("0.1", 100_000);
        check("0.000001", 1);
        check("0", 0);
        check("0.50000000000000", 500_000);
        check("36525d", MAX_MICROS);
        check("0.0001220703125d", 10_546_875);
    }

    #[test]
    fn refuses_the_rest_and_says_why() {
        let check =
            |text: &str, problem: &str| assert_eq!(Span::parse(text).unwrap_err().problem, problem, "{text}");
        for text in [
            "", " ", "s", "5 s", "5x", "5S", ".5", "5.", "1..5", "1.5.2s", "5s3", "1h 30m", "1e3", "+5", "٣s",
        ] {
            check(text, NOT_A_DURATION);
        }
        check("-5s", NEGATIVE);
        check("30m1h", WRONG_ORDER);
        check("5s5s", WRONG_ORDER);
        check("36525d1us", TOO_LONG);
        check("99999999999999999999999999", TOO_LONG);
        check("0.5us", TOO_FINE);
        check("0.0000001", TOO_FINE);
        check("0.00000000000000000000000000000000000000001d", TOO_FINE);
        let error = Span::parse("5 minutes").unwrap_err().to_string();
        assert!(error.starts_with("`5 minutes` is not a duration; expected seconds such as 5"), "{error}");
    }

    #[test]
    fn displays_as_the_shortest_exact_text() {
        let check = |micros: u64, text: &str| assert_eq!(Span(micros).to_string(), text);
        check(0, "0s");
        check(1, "1us");
        check(250_000, "250ms");
        check(1_250, "1250us");
        check(1_500_000, "1.5s");
        check(60_000_000, "1m");
        check(90_000_000, "90s");
        check(3_601_000_000, "1h1s");
        check(3_600_000_001, "1h0.000001s");
        check(86_400_000_000, "1d");
        check(MAX_MICROS, "36525d");
    }

    #[test]
    fn json_numbers_are_seconds() {
        let read =
            |json: &str| serde_json::from_str::<Span>(json).map(Span::as_micros).map_err(|e| e.to_string());
        assert_eq!(read("5"), Ok(5_000_000));
        assert_eq!(read("0.1"), Ok(100_000));
        assert_eq!(read("\"1h\""), Ok(3_600_000_000));
        assert_eq!(serde_json::to_string(&Span(1_500_000)).unwrap(), "\"1.5s\"");
        assert!(read("-1").unwrap_err().contains("`-1` is negative"));
        assert!(read("-0.5").unwrap_err().contains("is negative"));
        assert!(read("1e-9").unwrap_err().contains("is finer"));
        assert!(read("1e300").unwrap_err().contains("is longer"));
        assert!(read("18446744073709551615").unwrap_err().contains("`18446744073709551615` is longer"));
        assert!(read("true").unwrap_err().contains("expected seconds such as 5"));
    }

    proptest! {
        #[test]
        fn texts_of_the_pattern_are_read(text in &PATTERN[1..PATTERN.len() - 1]) {
            let problem = Span::parse(&text).err().map(|error| error.problem);
            prop_assert!(text.is_empty() || matches!(problem, None | Some(TOO_LONG)), "{text}: {problem:?}");
        }

        #[test]
        fn a_displayed_span_reads_back(micros in prop_oneof![0..=MAX_MICROS, 0..=100_000_000u64]) {
            let span = Span::from_micros(micros).unwrap();
            prop_assert_eq!(Span::parse(&span.to_string()), Ok(span));
        }

        #[test]
        fn a_json_number_of_whole_microseconds_is_exact(micros in 0..=1_000_000_000_000_000u64) {
            prop_assert_eq!(Span::from_secs_f64(micros as f64 / 1e6), Ok(Span(micros)));
        }
    }
}
