//! Each combination once, the first parameter fastest.
//!
//! Combinations that differ only in parameters whose condition does not hold are one: their parameter stands at its first
//! value, and the others are passed over.

use crate::space::{Domain, Point, Space};
use crate::trial::TrialNumber;

/// The number of values of a parameter in a grid.
fn values(domain: &Domain, levels: u64) -> u64 {
    let levels = levels.max(1);
    match domain {
        Domain::Integer { .. } | Domain::Float { .. } => domain.count().unwrap_or(levels).min(levels),
        Domain::Ordered(_) | Domain::Choice(_) => domain.count().unwrap_or(1),
    }
}

fn coordinate(domain: &Domain, digit: u64, count: u64) -> f64 {
    match domain {
        // Both bounds belong to a grid of a continuum.
        Domain::Float { step: None, .. } if count > 1 => digit as f64 / (count - 1) as f64,
        _ => (digit as f64 + 0.5) / count as f64,
    }
}

pub(super) fn point(space: &Space, levels: u64, number: TrialNumber) -> Option<Point> {
    let counts: Vec<u64> = space.parameters().iter().map(|one| values(&one.domain, levels)).collect();
    let total = counts.iter().try_fold(1_u64, |total, count| total.checked_mul(*count)).unwrap_or(u64::MAX);
    if !space.is_conditional() {
        return (number < total).then(|| at(space, &counts, number).0);
    }
    let mut place = 0;
    let mut seen = 0;
    while place < total {
        let (point, is_first) = at(space, &counts, place);
        if is_first && seen == number {
            return Some(point);
        }
        seen += u64::from(is_first);
        place += 1;
    }
    None
}

/// The combination at a place, and whether it is the first among those that are one.
fn at(space: &Space, counts: &[u64], mut place: u64) -> (Point, bool) {
    let mut digits = Vec::with_capacity(counts.len());
    for count in counts {
        digits.push(place % count);
        place /= count;
    }
    let of = |((parameter, digit), count): ((&crate::space::Parameter, &u64), &u64)| {
        coordinate(&parameter.domain, *digit, *count)
    };
    let point: Point = space.parameters().iter().zip(&digits).zip(counts).map(of).collect();
    let snapped = space.snap(&point);
    let is_first =
        snapped.iter().zip(&digits).all(|(coordinate, digit)| super::is_active(*coordinate) || *digit == 0);
    (point, is_first)
}
