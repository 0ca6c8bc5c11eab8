//! The meaning of a scalar: the core schema of YAML 1.2.

use serde_json::{Number, Value};

/// The value of a scalar; one that is not plain is a text.
pub fn value(text: &str, is_text: bool) -> Result<Value, String> {
    if is_text {
        return Ok(Value::from(text));
    }
    Ok(match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        _ if is_infinite(text) => return Err(format!("`{text}` is a number that JSON does not have")),
        _ => number(text)?.map_or_else(|| Value::from(text), Value::Number),
    })
}

/// True for a plain scalar that is a text and nothing else.
pub fn is_plain_text(text: &str) -> bool {
    value(text, false).is_ok_and(|value| value.is_string())
}

fn is_infinite(text: &str) -> bool {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    matches!(unsigned, ".inf" | ".Inf" | ".INF" | ".nan" | ".NaN" | ".NAN")
}

fn number(text: &str) -> Result<Option<Number>, String> {
    for (prefix, radix) in [("0o", 8), ("0x", 16)] {
        if let Some(digits) = text.strip_prefix(prefix) {
            return Ok(u64::from_str_radix(digits, radix).ok().map(Number::from));
        }
    }
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if !unsigned.is_empty() && digits(unsigned) {
        let plain = text.strip_prefix('+').unwrap_or(text);
        let whole =
            plain.parse::<i64>().map(Number::from).or_else(|_| plain.parse::<u64>().map(Number::from));
        if let Ok(whole) = whole {
            return Ok(Some(whole));
        }
    }
    if !is_float(unsigned) {
        return Ok(None);
    }
    let finite = text.parse::<f64>().ok().and_then(Number::from_f64);
    finite.map(Some).ok_or_else(|| format!("the number `{text}` is too large"))
}

/// `[0-9]*(\.[0-9]*)?([eE][-+]?[0-9]+)?` with a digit before the exponent.
fn is_float(unsigned: &str) -> bool {
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent.strip_prefix(['-', '+']).unwrap_or(exponent))),
        None => (unsigned, None),
    };
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    digits(whole)
        && digits(fraction)
        && !(whole.is_empty() && fraction.is_empty())
        && exponent.is_none_or(|exponent| !exponent.is_empty() && digits(exponent))
}
