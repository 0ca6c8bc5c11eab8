//! The price of one unit for one tick, in parts of a microcredit so fine that the price of an hour is divided exactly.
//!
//! Sums of such prices are rounded once, when they become [`Money`].

use std::fmt;

use crate::money::Money;

/// The parts of a microcredit: thousandths and 1,024ths of a second's part of an hour are whole numbers of them.
pub const PARTS: u64 = 3_600 * 128_000;

/// The price of a unit for a tick.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Rate(u64);

impl Rate {
    pub const ZERO: Rate = Rate(0);

    pub const fn parts(parts: u64) -> Rate {
        Rate(parts)
    }

    /// The most is some 40,000 credits.
    pub const fn microcredits(amount: u64) -> Rate {
        Rate(amount.saturating_mul(PARTS))
    }

    pub const fn as_parts(self) -> u64 {
        self.0
    }

    /// An amount divided among so many units and ticks, rounded down.
    #[must_use]
    pub fn of(amount: Money, units: u64) -> Rate {
        let share = u128::from(amount.as_microcredits()) * u128::from(PARTS) / u128::from(units.max(1));
        Rate(u64::try_from(share).unwrap_or(u64::MAX))
    }

    /// The price of so many units for a tick, in parts.
    pub(crate) fn times(self, units: u64) -> u128 {
        u128::from(self.0) * u128::from(units)
    }

    pub fn to_money(self) -> Money {
        money(u128::from(self.0))
    }
}

/// The amount of a sum in parts, rounded up: what has a price is not free of charge.
pub(crate) fn money(sum: u128) -> Money {
    Money::microcredits(u64::try_from(sum.div_ceil(u128::from(PARTS))).unwrap_or(u64::MAX))
}

/// In credits, rounded up to a microcredit.
impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_money().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The exact sum is a fraction of which `money` is the ceiling.
        #[test]
        fn a_sum_is_rounded_once_and_up(rates in proptest::collection::vec((0..u64::MAX, 0..1_u64 << 24), 0..8)) {
            let sum: u128 = rates.iter().map(|(parts, units)| Rate::parts(*parts).times(*units)).sum();
            let money = u128::from(money(sum).as_microcredits());
            prop_assert!(money * u128::from(PARTS) >= sum);
            prop_assert!(money == 0 || (money - 1) * u128::from(PARTS) < sum);
        }
    }

    #[test]
    fn a_part_of_a_microcredit_is_not_free() {
        assert_eq!((Rate::ZERO.to_money(), Rate::parts(1).to_money()), (Money::ZERO, Money::microcredits(1)));
        assert_eq!(Rate::microcredits(7).to_money(), Money::microcredits(7));
        assert_eq!(Rate::of(Money::microcredits(7), 3).to_string(), "0.000003");
        assert_eq!(Rate::of(Money::MAX, 1), Rate::microcredits(u64::MAX));
    }
}
