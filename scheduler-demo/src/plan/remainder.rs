//! Whole shares of a whole number, by weight: the method of largest remainders, in exact arithmetic.
//!
//! Weights become integers by one common power of two, so quotas, remainders and ties are exact up to 2^-61 of the
//! greatest weight, and the shares add up to the total by construction.

use std::cmp::Reverse;

/// Divides `total` by `weights`, of which at least one is positive. Everyone gets the whole part of the quota; what
/// is left goes, one each, to the largest remainders. Of equal remainders those that have the item already (`held`
/// is above the whole part) come first, since each of them spares a move; then the earlier ones.
pub(crate) fn shares(total: u64, weights: &[f64], held: &[u64]) -> Vec<u64> {
    let scaled = scale(weights);
    let sum: u128 = scaled.iter().map(|weight| u128::from(*weight)).sum();
    let mut shares = Vec::with_capacity(weights.len());
    let mut left = total;
    let mut remainders = Vec::with_capacity(weights.len());
    for (i, weight) in scaled.iter().enumerate() {
        let product = u128::from(total) * u128::from(*weight);
        let whole = product / sum;
        let remainder = product - whole * sum;
        // The quota is at most the total, so it fits.
        let whole = whole as u64;
        if remainder > 0 {
            remainders.push((Reverse(remainder), held[i] <= whole, i));
        }
        shares.push(whole);
        left -= whole;
    }
    // The remainders add up to `left` times the sum and each is below the sum: there are more of them than are left.
    let left = left as usize;
    if left > 0 {
        let (first, last, _) = remainders.select_nth_unstable(left - 1);
        for (_, _, i) in first.iter().chain([&*last]) {
            shares[*i] += 1;
        }
    }
    shares
}

/// The weights as integers, the greatest between 2^61 and 2^63.
fn scale(weights: &[f64]) -> Vec<u64> {
    let greatest = weights.iter().copied().fold(0.0, f64::max);
    debug_assert!(greatest > 0.0 && greatest.is_finite(), "no weight is positive");
    let exponent = 61 - greatest.log2().floor() as i32;
    // In two steps, because the power for the very smallest weights is beyond what a number can hold.
    let (one, two) = (2f64.powi(exponent / 2), 2f64.powi(exponent - exponent / 2));
    weights.iter().map(|weight| (weight * one * two) as u64).collect()
}
