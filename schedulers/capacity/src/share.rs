//! A share as an exact fraction, and the weight that it is divided by.
//!
//! Bounds: an amount is below 2^64, so a sum of fewer than 2^32 of them is below 2^96; a weight is at most 1,000,000, so
//! the whole times the weight is below 2^116. Two shares are compared by their products across, which are below 2^212 and
//! counted in 256 bits: no share is ever rounded.

use std::cmp::Ordering;
use std::fmt;

/// The weight of a user or a framework: with twice the weight it is served until it has twice as much.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Weight(u32);

impl Weight {
    pub const MAX: u32 = 1_000_000;

    /// A whole number from 1 to [`Weight::MAX`].
    pub fn new(weight: u32) -> Option<Weight> {
        (1..=Weight::MAX).contains(&weight).then_some(Weight(weight))
    }

    pub fn get(self) -> u32 {
        self.0
    }
}

impl Default for Weight {
    fn default() -> Weight {
        Weight(1)
    }
}

/// The part of a whole that is used, divided by a weight.
#[derive(Debug, Clone, Copy)]
pub struct Share {
    used: u128,
    /// The whole times the weight; never 0.
    whole: u128,
}

impl Share {
    /// The share of whoever has nothing.
    pub const NONE: Share = Share { used: 0, whole: 1 };

    /// No share where there is nothing to have a part of.
    pub fn new(used: u128, whole: u128, weight: Weight) -> Option<Share> {
        (whole > 0).then(|| Share { used, whole: whole.saturating_mul(u128::from(weight.0)) })
    }
}

impl Ord for Share {
    fn cmp(&self, other: &Share) -> Ordering {
        product(self.used, other.whole).cmp(&product(other.used, self.whole))
    }
}

impl PartialOrd for Share {
    fn partial_cmp(&self, other: &Share) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Equal as fractions: 1/2 and 2/4 are one share.
impl PartialEq for Share {
    fn eq(&self, other: &Share) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Share {}

/// The fraction in its lowest terms, such as `2/3`, or `0`.
impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let divisor = common_divisor(self.used, self.whole);
        match (self.used / divisor, self.whole / divisor) {
            (used, 1) => write!(f, "{used}"),
            (used, whole) => write!(f, "{used}/{whole}"),
        }
    }
}

/// The greatest common divisor; of 0 and a number it is the number.
fn common_divisor(one: u128, other: u128) -> u128 {
    if other == 0 { one.max(1) } else { common_divisor(other, one % other) }
}

/// The product, as its upper and its lower 128 bits.
fn product(one: u128, other: u128) -> (u128, u128) {
    const HALF: u32 = 64;
    let low = |number: u128| number & u128::from(u64::MAX);
    let high = |number: u128| number >> HALF;
    let lows = low(one) * low(other);
    // Each of the two is at most (2^64 - 1)^2, to which two numbers below 2^64 may be added.
    let inner = low(one) * high(other) + high(lows);
    let outer = high(one) * low(other) + low(inner);
    let upper = high(one) * high(other) + high(inner) + high(outer);
    (upper, (low(outer) << HALF) | low(lows))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn share(used: u128, whole: u128) -> Share {
        Share::new(used, whole, Weight::default()).unwrap_or(Share::NONE)
    }

    #[test]
    fn shares_are_fractions() {
        assert_eq!(share(1, 2), share(2, 4));
        assert!(share(1, 3) < share(1, 2));
        assert_eq!(share(0, 7), Share::NONE);
        assert_eq!(Share::new(1, 0, Weight::default()), None);
        assert_eq!(share(6, 9).to_string(), "2/3");
        assert_eq!((share(0, 9).to_string(), share(9, 9).to_string()), ("0".to_owned(), "1".to_owned()));
    }

    #[test]
    fn weights_divide_shares_and_have_bounds() {
        let of = |weight| Share::new(1, 2, Weight::new(weight).unwrap_or_default());
        assert_eq!(of(2), Some(share(1, 4)));
        assert_eq!((Weight::new(0), Weight::new(Weight::MAX + 1)), (None, None));
        assert_eq!(Weight::new(Weight::MAX).map(Weight::get), Some(1_000_000));
    }

    #[test]
    fn shares_of_the_largest_sums_are_not_rounded() {
        let whole = u128::from(u64::MAX) << 32;
        let most = Weight::new(Weight::MAX).unwrap_or_default();
        let nearly = Share::new(whole - 1, whole, most).unwrap_or(Share::NONE);
        assert!(nearly < Share::new(whole, whole, most).unwrap_or(Share::NONE));
        // A whole that is less by one makes the part more, by less than a float would tell.
        assert!(nearly < Share::new(whole - 1, whole - 1, most).unwrap_or(Share::NONE));
        assert!(Share::new(whole, whole, most) < Share::new(whole + 1, whole, most));
    }

    proptest! {
        #[test]
        fn products_of_halves_are_products(one in any::<u64>(), other in any::<u64>()) {
            prop_assert_eq!(product(one.into(), other.into()), (0, u128::from(one) * u128::from(other)));
        }

        #[test]
        fn products_are_those_of_the_numbers_put_together(one in any::<u128>(), other in any::<u128>()) {
            // (2^64 a + b) c, where c is below 2^64, is 2^64 ac + bc.
            let small = other & u128::from(u64::MAX);
            let (upper, lower) = product(one, small);
            let high = one >> 64;
            let low = one & u128::from(u64::MAX);
            let carried = high * small + ((low * small) >> 64);
            prop_assert_eq!((upper, lower), (carried >> 64, one.wrapping_mul(small)));
            // And each product has the lower half that wrapping has, whichever number comes first.
            prop_assert_eq!(product(one, other).1, one.wrapping_mul(other));
            prop_assert_eq!(product(one, other), product(other, one));
        }

        #[test]
        fn small_shares_are_compared_as_fractions(
            used in 0..2000_u128, whole in 1..2000_u128, other in 0..2000_u128, all in 1..2000_u128, weight in 1..50_u32,
        ) {
            let weighted = Share::new(used, whole, Weight::new(weight).unwrap_or_default());
            let expected = (used * all).cmp(&(other * whole * u128::from(weight)));
            prop_assert_eq!(weighted.map(|one| one.cmp(&share(other, all))), Some(expected));
        }
    }
}
