//! Instants on the wire: microseconds since 1970 inside, RFC 3339 in UTC outside.
//!
//! Rendering is on the path of every read, hence by hand; reading is not, hence through chrono.

use chrono::{DateTime, Utc};
use serde_json::json;

use crate::duration::{Span, SpanText};
use crate::problem::{FieldError, Problem};
use crate::schema::of;

/// Renders `2026-01-31T23:59:59.000001Z`.
pub fn rfc3339(micros: i64) -> [u8; 27] {
    if !WRITABLE.contains(&micros) {
        return *b"9999-12-31T23:59:59.999999Z";
    }
    let since_year_0 = (micros - WRITABLE.start).unsigned_abs();
    let (year, month, day) = civil((since_year_0 / 86_400_000_000) as u32);
    let of_day = since_year_0 % 86_400_000_000;
    let (seconds, micros) = ((of_day / 1_000_000) as u32, (of_day % 1_000_000) as u32);
    let mut text = *b"0000-00-00T00:00:00.000000Z";
    for (at, number) in [
        (0, year / 100),
        (2, year % 100),
        (5, month),
        (8, day),
        (11, seconds / 3600),
        (14, seconds / 60 % 60),
        (17, seconds % 60),
        (20, micros / 10_000),
        (22, micros / 100 % 100),
        (24, micros % 100),
    ] {
        text[at..at + 2].copy_from_slice(&PAIRS[number as usize]);
    }
    text
}

/// Appends the same.
pub fn push_rfc3339(out: &mut Vec<u8>, micros: i64) {
    out.extend_from_slice(&rfc3339(micros));
}

/// The same as a string.
pub fn to_rfc3339(micros: i64) -> String {
    String::from_utf8_lossy(&rfc3339(micros)).into_owned()
}

/// The instants that can be written: the years 0 to 9999 in UTC, in microseconds since 1970.
pub const WRITABLE: std::ops::Range<i64> = -62_167_219_200_000_000..253_402_300_800_000_000;

/// An instant in a header: generators of clients take no `format: date-time` there. The pattern admits days that do
/// not exist.
#[derive(Debug)]
pub enum Instant {}

crate::described!(
    Instant,
    [],
    crate::schema::text(
        "An instant as RFC 3339 writes it",
        r"^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$",
        "2026-01-31T23:59:59Z"
    )
);

/// Reads an RFC 3339 instant, if it can be written in UTC as well.
pub fn parse_rfc3339(text: &str) -> Option<i64> {
    let at = DateTime::parse_from_rfc3339(text).ok()?.with_timezone(&Utc).timestamp_micros();
    WRITABLE.contains(&at).then_some(at)
}

/// An instant, said as it is or as how long ago it was.
#[derive(Debug)]
pub enum Moment {}

crate::described!(
    Moment,
    [SpanText],
    json!({
        "description": "An instant as RFC 3339 writes it, or how long ago it was",
        "anyOf": [{ "type": "string", "format": "date-time" }, of::<SpanText>("")],
        "examples": ["1h", "2026-01-31T23:59:59Z"],
    })
);

/// Reads a [`Moment`], in microseconds since 1970.
pub fn moment(field: &str, text: &str, now: i64) -> Result<i64, Problem> {
    let ago = || text.parse::<Span>().ok().and_then(|span| i64::try_from(span.as_micros()).ok());
    parse_rfc3339(text).or_else(|| Some(now.saturating_sub(ago()?))).ok_or_else(|| {
        let error = FieldError::new(field, "is neither an instant nor a duration").given(text);
        Problem::invalid_field(error.expected("2026-01-31T23:59:59Z, or how long ago, e.g. 1h"))
    })
}

/// `#[serde(with = "wire")]` on a field that is an instant.
pub mod wire {
    use super::{DateTime, Utc, to_rfc3339};
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(at: &DateTime<Utc>, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&to_rfc3339(at.timestamp_micros()))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<DateTime<Utc>, D::Error> {
        let text = String::deserialize(deserializer)?;
        let at = DateTime::parse_from_rfc3339(&text).map_err(serde::de::Error::custom)?;
        Ok(at.with_timezone(&Utc))
    }
}

/// Instants that may be absent.
pub mod optional {
    use chrono::{DateTime, Utc};
    use serde::{Deserialize, Deserializer, Serializer};

    use super::to_rfc3339;

    pub fn serialize<S: Serializer>(at: &Option<DateTime<Utc>>, serializer: S) -> Result<S::Ok, S::Error> {
        match at {
            Some(at) => serializer.serialize_some(&to_rfc3339(at.timestamp_micros())),
            None => serializer.serialize_none(),
        }
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<DateTime<Utc>>, D::Error> {
        let Some(text) = Option::<String>::deserialize(deserializer)? else { return Ok(None) };
        let at = DateTime::parse_from_rfc3339(&text).map_err(serde::de::Error::custom)?;
        Ok(Some(at.with_timezone(&Utc)))
    }
}

/// The numbers up to 99, in two digits.
const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[b'0'; 2]; 100];
    let mut number = 0;
    while number < 100 {
        pairs[number] = [b'0' + (number / 10) as u8, b'0' + (number % 10) as u8];
        number += 1;
    }
    pairs
};

/// Year, month and day of a day counted from 0000-01-01, in the proleptic Gregorian calendar. Years are
/// counted from March, so that the leap day is the last of its year, and from 400 years before, so that all are positive.
fn civil(days: u32) -> (u32, u32, u32) {
    let shifted = days + 146_097 - 60;
    let era = shifted / 146_097;
    let of_era = shifted % 146_097;
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (era * 400 + year_of_era + u32::from(month <= 2) - 400, month, day)
}

#[cfg(test)]
mod tests {
    use chrono::SecondsFormat;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn renders_as_chrono_does_and_reads_back(micros in -62_167_219_200_000_000i64..253_402_300_800_000_000) {
            let text = to_rfc3339(micros);
            let at = DateTime::<Utc>::from_timestamp_micros(micros);
            let theirs = at.map(|at| at.to_rfc3339_opts(SecondsFormat::Micros, true));
            prop_assert_eq!(Some(text.clone()), theirs);
            prop_assert_eq!(parse_rfc3339(&text), Some(micros));
        }
    }

    #[test]
    fn a_time_that_could_not_be_written_back_is_no_instant() {
        for text in ["9999-12-31T23:59:60.5Z", "0000-01-01T00:00:00+01:00", "9999-12-31T23:59:59-01:00"] {
            assert_eq!(parse_rfc3339(text), None, "{text}");
        }
        for text in ["0000-01-01T00:00:00.000000Z", "9999-12-31T23:59:59.999999Z"] {
            assert_eq!(parse_rfc3339(text).map(to_rfc3339).as_deref(), Some(text));
        }
    }
}
