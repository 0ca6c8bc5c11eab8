//! Values and times as both formats write them.

use std::borrow::Cow;

use crate::build::{instant, number_text};
use crate::head;

use super::Rules;

/// The value of a sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value<'a> {
    /// A finite number in JSON's spelling.
    Number(Cow<'a, str>),
    /// `NaN`, `+Inf` or `-Inf`, which JSON has no numbers for.
    NamedSamples(&'static str),
}

impl<'a> Value<'a> {
    pub(super) fn parse(text: &'a str) -> Result<Value<'a>, String> {
        if let Some(number) = number_text(text) {
            return Ok(Value::Number(number));
        }
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        let is = |word: &str| unsigned.eq_ignore_ascii_case(word);
        if is("inf") || is("infinity") {
            return Ok(Value::NamedSamples(if text.starts_with('-') { "-Inf" } else { "+Inf" }));
        }
        if is("nan") && unsigned.len() == text.len() {
            return Ok(Value::NamedSamples("NaN"));
        }
        Err(format!("the value `{}` is no number; expected one such as 1, 2.5e3, NaN or +Inf", head(text)))
    }

    pub(super) fn is_nan(&self) -> bool {
        *self == Value::NamedSamples("NaN")
    }

    /// As a number to compare with.
    pub(super) fn float(&self) -> f64 {
        match self {
            Value::Number(text) => text.parse().unwrap_or(f64::NAN),
            Value::NamedSamples("+Inf") => f64::INFINITY,
            Value::NamedSamples("-Inf") => f64::NEG_INFINITY,
            Value::NamedSamples(_) => f64::NAN,
        }
    }
}

/// A time in RFC 3339.
pub(super) fn time(text: &str, rules: Rules) -> Result<String, String> {
    let (micros, expected) = match rules {
        Rules::Classic => {
            (text.parse::<i64>().ok().and_then(|millis| millis.checked_mul(1_000)), "whole milliseconds")
        }
        Rules::OpenMetrics => (micros_of_seconds(text), "seconds"),
    };
    micros.and_then(instant).ok_or_else(|| {
        format!(
            "the time `{}` cannot be kept; expected {expected} since 1970, up to the year 9999",
            head(text)
        )
    })
}

/// The digits of the largest number of microseconds that can be kept, and a few more.
const MOST_DIGITS: usize = 18;

/// Microseconds of a decimal number of seconds, exactly; what is finer is cut off.
fn micros_of_seconds(text: &str) -> Option<i64> {
    let number = number_text(text)?;
    let unsigned = number.strip_prefix('-').unwrap_or(&number);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
        None => (unsigned, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = whole.bytes().chain(fraction.bytes());
    let point = i64::try_from(whole.len()).ok()? + i64::from(exponent) + 6;
    let zeros = digits.clone().take_while(|digit| *digit == b'0').count();
    if zeros == whole.len() + fraction.len() {
        return Some(0);
    }
    let kept = match usize::try_from(point - i64::try_from(zeros).ok()?) {
        Ok(kept) if kept <= MOST_DIGITS => kept,
        Ok(_) => return None,
        Err(_) => return Some(0),
    };
    let digits = digits.skip(zeros).chain(std::iter::repeat(b'0')).take(kept);
    let micros = digits.fold(0_i64, |micros, digit| micros * 10 + i64::from(digit - b'0'));
    Some(if number.starts_with('-') { -micros } else { micros })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn seconds_become_microseconds_exactly() {
        for (text, micros) in [
            ("0", Some(0)),
            ("-0.0", Some(0)),
            ("1", Some(1_000_000)),
            ("1.5", Some(1_500_000)),
            ("-1.25", Some(-1_250_000)),
            ("1520879607.789", Some(1_520_879_607_789_000)),
            ("1520879607.1234569", Some(1_520_879_607_123_456)),
            ("1.520879607789e9", Some(1_520_879_607_789_000)),
            ("1520879607789e-3", Some(1_520_879_607_789_000)),
            ("0.0000001", Some(0)),
            ("000000000000000000000001", Some(1_000_000)),
            ("0.00000000000000000001e20", Some(1_000_000)),
            ("1e-300", Some(0)),
            ("1e13", None),
            ("1e300", None),
            ("1e99999999999", None),
            ("0e999999999", Some(0)),
            ("NaN", None),
            ("+Inf", None),
            ("", None),
        ] {
            assert_eq!(micros_of_seconds(text), micros, "{text}");
        }
    }

    proptest! {
        #[test]
        fn microseconds_come_back_from_their_decimals(micros in -62_000_000_000_000_000_i64..250_000_000_000_000_000) {
            let sign = if micros < 0 { "-" } else { "" };
            let (seconds, rest) = (micros.unsigned_abs() / 1_000_000, micros.unsigned_abs() % 1_000_000);
            prop_assert_eq!(micros_of_seconds(&format!("{sign}{seconds}.{rest:06}")), Some(micros));
        }
    }
}
