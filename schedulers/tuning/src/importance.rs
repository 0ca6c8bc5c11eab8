//! The importance of each parameter: the part of all differences between results that it takes part in.
//!
//! A Gaussian process is fitted to the results. Over points all over the space, a parameter's effect is half the mean square
//! by which the expected result changes when it alone is drawn anew (Jansen's estimator of the total effect).

use crate::draw::Draw;
use crate::samplers::{Evidence, expectation};
use crate::space::{Point, Space};

/// Points that are drawn.
const DRAWS: usize = 512;

/// The fewest results that say anything.
pub const LEAST_RESULTS: usize = 8;

/// Parts of 1 by the order of the parameters; empty where there are too few results or they do not differ.
pub fn importance(space: &Space, seed: u64, evidence: &Evidence) -> Vec<f64> {
    if evidence.points.len() < LEAST_RESULTS {
        return Vec::new();
    }
    let Some(expected) = expectation(space, seed, evidence) else { return Vec::new() };
    let mut draw = Draw::new(seed, 0);
    let mut effects = vec![0.0; space.dimensions()];
    for _ in 0..DRAWS {
        let point: Point = (0..space.dimensions()).map(|_| draw.unit()).collect();
        let before = expected(&space.snap(&point));
        for (at, effect) in effects.iter_mut().enumerate() {
            let mut other = point.clone();
            other[at] = draw.unit();
            let change = expected(&space.snap(&other)) - before;
            *effect += 0.5 * change * change;
        }
    }
    let total: f64 = effects.iter().sum();
    if total <= f64::MIN_POSITIVE {
        return Vec::new();
    }
    effects.iter().map(|effect| effect / total).collect()
}
