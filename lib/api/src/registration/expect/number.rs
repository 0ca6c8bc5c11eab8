//! Numbers of JSON, compared as they are: a whole number past 2^53 is not rounded to be compared.

use std::cmp::Ordering;

use serde_json::{Number, Value};

use super::at;
use crate::json::kind_of;

pub(super) fn read(value: &Value) -> Result<Number, String> {
    match value {
        Value::Number(number) => Ok(number.clone()),
        other => Err(format!("is {}, not a number", kind_of(other))),
    }
}

/// Compares two numbers. Past 64 bits they are compared as fractions are, to 53 bits.
pub(super) fn compare(a: &Number, b: &Number) -> Ordering {
    match (whole(a), whole(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        (Some(a), None) => compare_mixed(a, fraction(b)),
        (None, Some(b)) => compare_mixed(b, fraction(a)).reverse(),
        (None, None) => fraction(a).total_cmp(&fraction(b)),
    }
}

/// The number as an integer, if it has nothing behind its point.
pub(super) fn is_whole(number: &Number) -> bool {
    whole(number).is_some() || fraction(number).fract() == 0.0
}

/// Checks a number against bounds, which are allowed themselves.
pub(super) fn within(
    place: &str,
    number: &Number,
    min: Option<&Number>,
    max: Option<&Number>,
) -> Result<(), String> {
    let allows = "that the registration allows";
    match (min, max) {
        (Some(min), _) if compare(number, min) == Ordering::Less => {
            Err(format!("{}: {number} is less than the {min} {allows}", at(place)))
        }
        (_, Some(max)) if compare(number, max) == Ordering::Greater => {
            Err(format!("{}: {number} is more than the {max} {allows}", at(place)))
        }
        _ => Ok(()),
    }
}

fn whole(number: &Number) -> Option<i128> {
    number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from))
}

fn fraction(number: &Number) -> f64 {
    // Adding 0 makes one zero of the two.
    number.as_f64().unwrap_or(f64::NAN) + 0.0
}

/// Compares without rounding the whole number, which has 64 bits at most.
fn compare_mixed(whole: i128, fraction: f64) -> Ordering {
    const BEYOND: f64 = (1_u128 << 65) as f64;
    if fraction.abs() >= BEYOND {
        return if fraction > 0.0 { Ordering::Less } else { Ordering::Greater };
    }
    let (floor, rest) = (fraction.floor(), fraction - fraction.floor());
    whole.cmp(&(floor as i128)).then(if rest > 0.0 { Ordering::Less } else { Ordering::Equal })
}
