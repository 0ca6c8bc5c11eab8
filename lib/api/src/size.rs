//! Sizes in bytes, as people write them: a number, or a text with a unit such as `"256MiB"`.

use serde_json::Value;

use crate::fields;

/// The texts that are read.
pub const PATTERN: &str = "^[0-9]{1,16} ?(B|KiB|Ki|MiB|Mi|GiB|Gi|TiB|Ti|KB|MB|GB)?$";

/// The number of bytes, if it is within bounds.
pub fn read(value: &Value, least: u64, most: u64) -> Result<u64, String> {
    let Value::String(text) = value else { return fields::whole(value, least, most) };
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit: u64 = match &text[digits.len()..] {
        "" | "B" => 1,
        "KiB" | "Ki" => 1 << 10,
        "MiB" | "Mi" => 1 << 20,
        "GiB" | "Gi" => 1 << 30,
        "TiB" | "Ti" => 1 << 40,
        "KB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        unit => return Err(format!("has the unknown unit `{unit}` (KiB, MiB, GiB, TiB, KB, MB, GB)")),
    };
    let number: u64 = digits.trim().parse().map_err(|_| "is not a whole number with a unit".to_owned())?;
    match number.checked_mul(unit) {
        Some(bytes) if (least..=most).contains(&bytes) => Ok(bytes),
        _ => Err("is out of range".to_owned()),
    }
}

/// A size as it may be given, in the largest unit of which it is a whole number.
pub fn text(bytes: u64) -> String {
    let units = [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    match units.into_iter().find(|(_, unit)| bytes > 0 && bytes.is_multiple_of(*unit)) {
        Some((name, unit)) => format!("{}{name}", bytes / unit),
        None => bytes.to_string(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn sizes_are_read_with_any_unit_and_within_bounds() {
        for (given, bytes) in [
            (json!(7), 7),
            (json!("7"), 7),
            (json!("7 B"), 7),
            (json!("2KiB"), 2 << 10),
            (json!("3 Mi"), 3 << 20),
            (json!("1GB"), 1_000_000_000),
            (json!("4TiB"), 4 << 40),
        ] {
            assert_eq!(read(&given, 0, u64::MAX), Ok(bytes), "{given}");
        }
        for wrong in ["", "MiB", "1.5GiB", "-1", "1 parsec", "1 M iB", "99999999999999TiB"] {
            assert!(read(&json!(wrong), 0, u64::MAX).is_err(), "{wrong}");
        }
        for beyond in [json!(9), json!("9"), json!("1KiB")] {
            assert!(read(&beyond, 10, 1_000).is_err(), "{beyond}");
        }
    }

    proptest! {
        #[test]
        fn a_size_is_read_as_it_is_written(number in 0..1_u64 << 20, shift in 0..44_u32) {
            let bytes = number << shift;
            prop_assert_eq!(read(&json!(text(bytes)), 0, u64::MAX), Ok(bytes));
        }
    }
}
