//! Shares against exact arithmetic.

use proptest::prelude::*;

use super::super::remainder::shares;

#[test]
fn a_thousand_million_items_add_up() {
    let weights: Vec<f64> = (0..1000).map(|i| 1.0 / f64::from(i + 3)).collect();
    let shares = shares(1_000_000_000, &weights, &vec![0; weights.len()]);
    assert_eq!(shares.iter().sum::<u64>(), 1_000_000_000);
    let sum: f64 = weights.iter().sum();
    for (share, weight) in shares.iter().zip(&weights) {
        assert!((*share as f64 - 1e9 * weight / sum).abs() < 1.0 + 1e-3);
    }
}

#[test]
fn the_largest_remainders_get_what_is_left() {
    // Quotas 3.5, 2.8, 0.7.
    assert_eq!(shares(7, &[5.0, 4.0, 1.0], &[0, 0, 0]), [3, 3, 1]);
}

#[test]
fn equal_remainders_prefer_nodes_that_have_the_item_then_the_first() {
    assert_eq!(shares(2, &[1.0, 1.0, 1.0, 1.0], &[0, 0, 0, 0]), [1, 1, 0, 0]);
    assert_eq!(shares(2, &[1.0, 1.0, 1.0, 1.0], &[0, 1, 0, 1]), [0, 1, 0, 1]);
}

#[test]
fn the_largest_and_smallest_numbers_are_divided_exactly() {
    assert_eq!(shares(u64::MAX, &[1e15, 1e15], &[0, 0]), [u64::MAX / 2 + 1, u64::MAX / 2]);
    assert_eq!(shares(10, &[5e-324, 0.0, 5e-324], &[0, 0, 0]), [5, 0, 5]);
    assert_eq!(shares(10, &[5e-324, 1e15], &[0, 0]), [0, 10]);
}

proptest! {
    /// Every share is its quota, rounded down or up; the sum is right; no one who was rounded down has a larger
    /// remainder than one who was rounded up.
    #[test]
    fn shares_are_those_of_the_largest_remainders(
        total in 0u64..1_000_000_000_000,
        weights in prop::collection::vec(0u64..1000, 1..40),
        held in prop::collection::vec(0u64..100, 40),
    ) {
        let sum: u64 = weights.iter().sum();
        prop_assume!(sum > 0);
        let as_numbers: Vec<f64> = weights.iter().map(|weight| *weight as f64).collect();
        let shares = shares(total, &as_numbers, &held[..weights.len()]);
        prop_assert_eq!(shares.iter().sum::<u64>(), total);
        let (mut least_up, mut most_down) = (u128::MAX, 0);
        for (share, weight) in shares.iter().zip(&weights) {
            let product = u128::from(total) * u128::from(*weight);
            let (whole, rest) = (product / u128::from(sum), product % u128::from(sum));
            match u128::from(*share) {
                share if share == whole => most_down = most_down.max(rest),
                share if share == whole + 1 => least_up = least_up.min(rest),
                share => prop_assert!(false, "{share} of a quota of {whole} and {rest}/{sum}"),
            }
        }
        prop_assert!(most_down <= least_up);
    }
}
