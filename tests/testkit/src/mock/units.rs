//! Durations and sizes as people write them in a word: `50ms`, `2s`, `10MiB`.

use std::time::Duration;

pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is no duration like 50ms, 2s or 1m");
    let (number, unit) = split(text).ok_or_else(wrong)?;
    let millis = match unit {
        "ms" => Some(number),
        "s" => number.checked_mul(1_000),
        "m" => number.checked_mul(60_000),
        _ => None,
    };
    millis.map(Duration::from_millis).ok_or_else(wrong)
}

pub(super) fn bytes(text: &str) -> Result<u64, String> {
    let wrong = || format!("{text:?} is no size like 500, 64KiB, 10MiB or 1GiB");
    let (number, unit) = split(text).ok_or_else(wrong)?;
    let factor = match unit {
        "" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return Err(wrong()),
    };
    number.checked_mul(factor).ok_or_else(wrong)
}

fn split(text: &str) -> Option<(u64, &str)> {
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    Some((number.parse().ok()?, unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_people_write() {
        assert_eq!(duration("50ms"), Ok(Duration::from_millis(50)));
        assert_eq!(duration("2s"), Ok(Duration::from_secs(2)));
        assert_eq!(bytes("500"), Ok(500));
        assert_eq!(bytes("10MiB"), Ok(10 << 20));
    }

    #[test]
    fn refuses_what_has_no_meaning() {
        for text in ["", "5", "ms", "-1s", "1h", "99999999999999999999s", "18446744073709551615m"] {
            assert!(duration(text).is_err(), "{text:?}");
        }
        for text in ["", "MiB", "1MB", "18446744073709551615KiB"] {
            assert!(bytes(text).is_err(), "{text:?}");
        }
    }
}
