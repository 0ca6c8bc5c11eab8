//! Money: whole microcredits, of which a million are one credit.

use std::fmt;
use std::iter::Sum;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The microcredits of a credit.
const CREDIT: u64 = 1_000_000;
/// Digits behind the point of an amount in credits.
const DECIMALS: usize = 6;

/// An amount of money in microcredits. It has no negative amounts, no fractions and no infinity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Money(u64);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MoneyError {
    #[error("`{0}` is not an amount of credits: write digits, and a point if needed, such as 30 or 2.5")]
    NotANumber(String),
    #[error("`{0}` is negative: an amount of credits is 0 or more")]
    Negative(String),
    #[error("`{0}` is finer than a microcredit: write at most {DECIMALS} digits behind the point")]
    TooFine(String),
    #[error("`{0}` is too much: the most is {most} credits", most = Money::MAX)]
    TooMuch(String),
}

impl Money {
    pub const ZERO: Money = Money(0);
    pub const MAX: Money = Money(u64::MAX);

    pub const fn microcredits(amount: u64) -> Money {
        Money(amount)
    }

    pub const fn as_microcredits(self) -> u64 {
        self.0
    }

    #[must_use]
    pub fn checked_add(self, other: Money) -> Option<Money> {
        self.0.checked_add(other.0).map(Money)
    }

    #[must_use]
    pub fn checked_sub(self, other: Money) -> Option<Money> {
        self.0.checked_sub(other.0).map(Money)
    }

    /// This part of it, rounded down.
    #[must_use]
    pub fn part(self, parts: u64, of: u64) -> Money {
        let share = u128::from(self.0) * u128::from(parts.min(of)) / u128::from(of.max(1));
        Money(u64::try_from(share).unwrap_or(u64::MAX))
    }
}

/// All amounts together, or the most that can be counted.
impl Sum for Money {
    fn sum<I: Iterator<Item = Money>>(amounts: I) -> Money {
        amounts.fold(Money::ZERO, |sum, amount| Money(sum.0.saturating_add(amount.0)))
    }
}

/// Credits as people write them: `30`, `2.5`.
impl FromStr for Money {
    type Err = MoneyError;

    fn from_str(text: &str) -> Result<Money, MoneyError> {
        let quoted = || text.chars().take(40).collect::<String>();
        let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        if let Some(rest) = text.strip_prefix('-').filter(|rest| rest.parse::<f64>().is_ok()) {
            let zero = rest.bytes().all(|byte| byte == b'0' || byte == b'.');
            return if zero { Ok(Money::ZERO) } else { Err(MoneyError::Negative(quoted())) };
        }
        let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
        if whole.is_empty() || fraction.is_empty() || !digits(whole) || !digits(fraction) {
            return Err(MoneyError::NotANumber(quoted()));
        }
        let fraction = fraction.trim_end_matches('0');
        if fraction.len() > DECIMALS {
            return Err(MoneyError::TooFine(quoted()));
        }
        let micro: u64 = format!("{fraction:0<DECIMALS$}").parse().unwrap_or(0);
        let whole = whole.trim_start_matches('0');
        let credits = if whole.is_empty() { Some(0) } else { whole.parse::<u64>().ok() };
        let amount = credits.and_then(|credits| credits.checked_mul(CREDIT)?.checked_add(micro));
        amount.map(Money).ok_or_else(|| MoneyError::TooMuch(quoted()))
    }
}

impl fmt::Display for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = format!("{}.{:0DECIMALS$}", self.0 / CREDIT, self.0 % CREDIT);
        f.pad(text.trim_end_matches('0').trim_end_matches('.'))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn credits_are_read_exactly_and_what_is_none_says_so() {
        let read = |text: &str| text.parse::<Money>().map(Money::as_microcredits);
        assert_eq!(read("30"), Ok(30_000_000));
        assert_eq!(read("0.000001"), Ok(1));
        assert_eq!(read("-0"), Ok(0));
        assert_eq!(read("2.5000000000"), Ok(2_500_000));
        assert_eq!(read("18446744073709.551615"), Ok(u64::MAX));
        for (text, why) in [
            ("-1", "is negative"),
            ("-1e300", "is negative"),
            ("NaN", "is not an amount"),
            ("1e300", "is not an amount"),
            ("inf", "is not an amount"),
            ("", "is not an amount"),
            (".5", "is not an amount"),
            ("1.", "is not an amount"),
            ("0.0000001", "finer than a microcredit"),
            ("18446744073709.551616", "the most is 18446744073709.551615"),
        ] {
            let error = text.parse::<Money>().unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
        let long = "9".repeat(10_000).parse::<Money>().unwrap_err().to_string();
        assert!(long.len() < 120, "{long}");
    }

    proptest! {
        #[test]
        fn what_is_shown_is_read_again(amount: u64) {
            let money = Money::microcredits(amount);
            prop_assert_eq!(money.to_string().parse(), Ok(money));
        }
    }
}
