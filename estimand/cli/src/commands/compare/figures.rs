//! The arithmetic of a comparison: shares, distances, order, and the past in three figures. Pure.
//!
//! The comparison is about the split of work that each column leads to. A node without a number gets no work, so its
//! share is zero. A column whose numbers add up to nothing, or of which one is negative, splits nothing and has
//! no shares at all; then there is no distance either. Orders are compared over the nodes that have a number in
//! both columns.

use estimand_api::pointer::Pointer;
use serde::Serialize;
use serde_json::Value as Json;

/// The reason for which a column has no shares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum NoShares {
    /// There is no number.
    NoNumbers,
    /// All of them are zero.
    ZeroSum,
    /// One of them is negative.
    Negative,
}

/// How alike two columns order the nodes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Order {
    /// Kendall's tau-b, which corrects for ties: 1 alike, -1 the other way. None if there is no order to
    /// compare: fewer than two nodes, or all alike in one of the columns.
    pub tau: Option<f64>,
    /// Each two nodes compare in the same way; none with fewer than two.
    pub same: Option<bool>,
    /// How many nodes have a number in both.
    pub in_both: usize,
}

/// The past, in three figures.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Past {
    pub mean: f64,
    /// The standard deviation of the sample; none of a single value.
    pub deviation: Option<f64>,
    pub count: u64,
}

/// The number that a value says: itself, or what the field leads to.
pub fn number(value: &Json, field: &Pointer) -> Option<f64> {
    let number = if value.is_number() { value.as_f64() } else { value.pointer(field.as_str())?.as_f64() };
    number.filter(|number| number.is_finite())
}

/// Each node's share of the sum.
pub fn shares(numbers: &[Option<f64>]) -> Result<Vec<f64>, NoShares> {
    let there = || numbers.iter().flatten().copied();
    let largest = there().reduce(f64::max).ok_or(NoShares::NoNumbers)?;
    if there().any(|number| number < 0.0) {
        return Err(NoShares::Negative);
    }
    if largest == 0.0 {
        return Err(NoShares::ZeroSum);
    }
    // In proportion to the largest, because the sum of very large numbers is none.
    let sum: f64 = there().map(|number| number / largest).sum();
    Ok(numbers.iter().map(|number| number.unwrap_or(0.0) / largest / sum).collect())
}

/// By how much the second split gives each node more than the first.
pub fn differences(one: &[f64], other: &[f64]) -> Vec<f64> {
    one.iter().zip(other).map(|(one, other)| other - one).collect()
}

/// The total variation distance: how much of all work goes elsewhere.
pub fn total_variation(differences: &[f64]) -> f64 {
    differences.iter().map(|difference| difference.abs()).sum::<f64>() / 2.0
}

/// Compares each two nodes with each other.
pub fn order(one: &[Option<f64>], other: &[Option<f64>]) -> Order {
    let both: Vec<(f64, f64)> =
        one.iter().zip(other).filter_map(|(one, other)| Some(((*one)?, (*other)?))).collect();
    // How many pairs of nodes compare alike, the other way, and differ in each of the columns.
    let (mut alike, mut reversed, mut in_one, mut in_other, mut same) = (0_u64, 0_u64, 0_u64, 0_u64, true);
    for (place, a) in both.iter().enumerate() {
        for b in &both[place + 1..] {
            let (by_one, by_other) = (a.0.total_cmp(&b.0), a.1.total_cmp(&b.1));
            same &= by_one == by_other;
            in_one += u64::from(by_one.is_ne());
            in_other += u64::from(by_other.is_ne());
            if by_one.is_ne() && by_other.is_ne() {
                *(if by_one == by_other { &mut alike } else { &mut reversed }) += 1;
            }
        }
    }
    let pairs = (in_one as f64).sqrt() * (in_other as f64).sqrt();
    let tau = (pairs > 0.0).then(|| (alike as f64 - reversed as f64) / pairs);
    Order { tau, same: (both.len() > 1).then_some(same), in_both: both.len() }
}

/// Mean and spread of what was, in one pass that loses no digits to a large mean.
pub fn past(numbers: impl IntoIterator<Item = f64>) -> Option<Past> {
    let (mut mean, mut squares, mut count) = (0.0, 0.0, 0_u64);
    for number in numbers {
        count += 1;
        let off = number - mean;
        mean += off / count as f64;
        squares += off * (number - mean);
    }
    let deviation = (count > 1).then(|| (squares / (count - 1) as f64).sqrt());
    (count > 0).then_some(Past { mean, deviation, count })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::*;

    fn close(one: f64, other: f64) -> bool {
        (one - other).abs() < 1e-12
    }

    #[test]
    fn a_number_is_itself_or_where_the_field_leads() {
        let field = Pointer::parse("/value").unwrap();
        let check =
            |value: Json, expected: Option<f64>| assert_eq!(number(&value, &field), expected, "{value}");
        check(json!(0.5), Some(0.5));
        check(json!({ "value": 3, "spread": 1 }), Some(3.0));
        check(json!({ "value": "3" }), None);
        check(json!({ "spread": 1 }), None);
        check(json!("0.5"), None);
        check(Json::Null, None);
        check(json!([1]), None);
    }

    #[test]
    fn shares_are_of_the_sum_and_a_node_without_a_number_has_none() {
        assert_eq!(shares(&[Some(1.0), None, Some(3.0)]).unwrap(), [0.25, 0.0, 0.75]);
        assert_eq!(shares(&[Some(7.0)]).unwrap(), [1.0], "one node gets all of it");
        assert_eq!(shares(&[Some(0.0), Some(2.0)]).unwrap(), [0.0, 1.0]);
        assert_eq!(shares(&[Some(f64::MAX), Some(f64::MAX)]).unwrap(), [0.5, 0.5]);
        assert_eq!(shares(&[Some(5e-324), Some(5e-324)]).unwrap(), [0.5, 0.5]);
        assert_eq!(shares(&[None, None]), Err(NoShares::NoNumbers));
        assert_eq!(shares(&[]), Err(NoShares::NoNumbers));
        assert_eq!(shares(&[Some(0.0), None, Some(0.0)]), Err(NoShares::ZeroSum));
        assert_eq!(shares(&[Some(3.0), Some(-1.0)]), Err(NoShares::Negative));
    }

    #[test]
    fn the_distance_is_what_goes_elsewhere() {
        let apart = |one: &[Option<f64>], other: &[Option<f64>]| {
            total_variation(&differences(&shares(one).unwrap(), &shares(other).unwrap()))
        };
        let [one, two, three] = [1.0, 2.0, 3.0].map(Some);
        assert_eq!(apart(&[one, three], &[two, two]), 0.25);
        assert_eq!(apart(&[one, two], &[Some(10.0), Some(20.0)]), 0.0, "only proportions matter");
        assert_eq!(apart(&[one, None], &[None, one]), 1.0, "nothing in common");
        assert_eq!(apart(&[one], &[three]), 0.0, "one node");
        assert_eq!(differences(&[0.25, 0.75], &[0.5, 0.5]), [0.25, -0.25]);
    }

    #[test]
    fn order_is_compared_over_the_nodes_that_both_have() {
        let check = |one: &[f64], other: &[f64], tau: Option<f64>, same: Option<bool>| {
            let some =
                |numbers: &[f64]| numbers.iter().map(|n| (!n.is_nan()).then_some(*n)).collect::<Vec<_>>();
            let order = order(&some(one), &some(other));
            let right = match (order.tau, tau) {
                (Some(is), Some(should)) => close(is, should),
                (is, should) => is == should,
            };
            assert!(right && order.same == same, "{one:?} and {other:?}: {order:?}");
        };
        let none = f64::NAN;
        check(&[1.0, 2.0, 3.0], &[10.0, 11.0, 99.0], Some(1.0), Some(true));
        check(&[1.0, 2.0, 3.0], &[3.0, 2.0, 1.0], Some(-1.0), Some(false));
        check(&[1.0, 2.0, 3.0, 4.0], &[1.0, 2.0, 4.0, 3.0], Some(2.0 / 3.0), Some(false));
        check(&[1.0, none, 3.0], &[1.0, 9.0, 3.0], Some(1.0), Some(true));
        // A tie in one of them: 2 alike of 3 and 2 pairs that differ.
        check(&[1.0, 2.0, 3.0], &[1.0, 1.0, 2.0], Some(2.0 / 6.0_f64.sqrt()), Some(false));
        check(&[1.0, 1.0], &[2.0, 3.0], None, Some(false));
        check(&[1.0, 1.0], &[2.0, 2.0], None, Some(true));
        check(&[1.0], &[2.0], None, None);
        check(&[none, 1.0], &[1.0, none], None, None);
    }

    #[test]
    fn the_past_is_summed_up_without_losing_digits() {
        assert_eq!(past([]), None);
        assert_eq!(past([4.0]), Some(Past { mean: 4.0, deviation: None, count: 1 }));
        let of = past([2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]).unwrap();
        assert!(close(of.mean, 5.0) && close(of.deviation.unwrap(), (32.0_f64 / 7.0).sqrt()), "{of:?}");
        let far = past([1e9 + 4.0, 1e9 + 7.0, 1e9 + 13.0, 1e9 + 16.0]).unwrap();
        assert!(close(far.deviation.unwrap(), 30.0_f64.sqrt()), "{far:?}");
    }
}
