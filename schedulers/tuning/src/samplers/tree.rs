//! TPE: the best tenth of the results and the rest are each a mixture of kernels over all parameters at once; of some
//! draws from the first, the one is proposed that is most likelier under the first than under the second.
//!
//! Pending trials count among the rest (a constant liar), so that trials that run at the same time differ.

use crate::draw::Draw;
use crate::normal;
use crate::space::{Point, Space};
use crate::trial::TrialNumber;

use super::{Evidence, is_active};

/// Draws from the mixture of the best.
const CANDIDATES: usize = 32;
/// The most results that count as best.
const MOST_BEST: usize = 25;
/// Results that weigh in full; older ones weigh less.
const RECENT: usize = 25;
/// The width of a kernel if there were one result, as a part of the range.
const WIDTH: f64 = 0.2;

pub(super) fn point(space: &Space, seed: u64, number: TrialNumber, evidence: &Evidence) -> Point {
    let count = evidence.points.len();
    let best = count.div_ceil(10).min(MOST_BEST);
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by(|one, two| evidence.losses[*one].total_cmp(&evidence.losses[*two]));
    let mut is_best = vec![false; count];
    for index in &order[..best] {
        is_best[*index] = true;
    }
    let of = |wanted: bool| -> Vec<&Point> {
        evidence
            .points
            .iter()
            .zip(&is_best)
            .filter(|(_, one)| **one == wanted)
            .map(|(point, _)| point)
            .collect()
    };
    let good = Mixture::new(space, &of(true));
    let mut others = of(false);
    others.extend(&evidence.pending);
    let rest = Mixture::new(space, &others);
    let mut draw = Draw::new(seed, number);
    let mut chosen = (f64::NEG_INFINITY, Vec::new());
    for _ in 0..CANDIDATES {
        let candidate = space.snap(&good.draw(&mut draw));
        let score = good.log_density(&candidate) - rest.log_density(&candidate);
        if score > chosen.0 {
            chosen = (score, candidate);
        }
    }
    chosen.1
}

/// Kernels around results, and one over the whole space.
struct Mixture<'a> {
    centres: Vec<&'a Point>,
    /// One more than there are centres: the last is that of the whole space.
    weights: Vec<f64>,
    total: f64,
    width: f64,
    /// The number of values of parameters whose values have no order.
    choices: Vec<Option<usize>>,
}

impl<'a> Mixture<'a> {
    fn new(space: &Space, centres: &[&'a Point]) -> Mixture<'a> {
        let count = centres.len();
        let mut weights: Vec<f64> = (0..count).map(|index| weight(index, count)).collect();
        weights.push(1.0);
        let spread = WIDTH * (count.max(1) as f64).powf(-1.0 / (space.dimensions() as f64 + 4.0));
        let unordered = |one: &crate::space::Parameter| {
            one.domain.is_unordered().then(|| one.domain.count().unwrap_or(1) as usize)
        };
        Mixture {
            centres: centres.to_vec(),
            total: weights.iter().sum(),
            weights,
            width: spread.max(1.0 / (1.0 + count as f64).min(100.0)),
            choices: space.parameters().iter().map(unordered).collect(),
        }
    }

    fn draw(&self, draw: &mut Draw) -> Point {
        let centre = self.centres.get(draw.weighted(&self.weights));
        let coordinate = |dimension: usize, draw: &mut Draw| {
            let middle = centre.map(|centre| centre[dimension]).filter(|middle| is_active(*middle));
            match (middle, self.choices[dimension]) {
                (None, _) => draw.unit(),
                (Some(middle), None) => {
                    let low = normal::cdf(-middle / self.width);
                    let high = normal::cdf((1.0 - middle) / self.width);
                    let z = normal::quantile(low + draw.unit() * (high - low));
                    (middle + z * self.width).clamp(0.0, 1.0)
                }
                (Some(middle), Some(count)) => {
                    let is_kept = draw.unit() < self.kept(count);
                    if is_kept { middle } else { draw.unit() }
                }
            }
        };
        (0..self.choices.len()).map(|dimension| coordinate(dimension, draw)).collect()
    }

    /// The probability with which a kernel stays at its own choice.
    fn kept(&self, count: usize) -> f64 {
        let kernels = self.centres.len() as f64;
        kernels / (kernels + count as f64)
    }

    fn log_density(&self, at: &Point) -> f64 {
        let mut logs: Vec<f64> = self.centres.iter().map(|centre| self.log_kernel(centre, at)).collect();
        logs.push(0.0);
        let highest = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 =
            logs.iter().zip(&self.weights).map(|(log, weight)| weight * (log - highest).exp()).sum();
        highest + (sum / self.total).ln()
    }

    fn log_kernel(&self, centre: &Point, at: &Point) -> f64 {
        let mut sum = 0.0;
        for (dimension, choices) in self.choices.iter().enumerate() {
            let middle = centre[dimension];
            let value = at[dimension];
            if !is_active(middle) || !is_active(value) {
                continue;
            }
            sum += match choices {
                None => {
                    let inside = normal::cdf((1.0 - middle) / self.width) - normal::cdf(-middle / self.width);
                    normal::log_density((value - middle) / self.width) - (self.width * inside).ln()
                }
                Some(count) => {
                    let kept = self.kept(*count);
                    let is_equal = (middle - value).abs() < 1e-9;
                    let other = 1.0 - kept;
                    (if is_equal { other + kept * *count as f64 } else { other }).ln()
                }
            };
        }
        sum
    }
}

/// The weight of a result by its place among `count`, the oldest first.
fn weight(index: usize, count: usize) -> f64 {
    let old = count.saturating_sub(RECENT);
    if index >= old {
        return 1.0;
    }
    let least = 1.0 / count as f64;
    least + (1.0 - least) * index as f64 / old as f64
}
