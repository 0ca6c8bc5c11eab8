//! Bayesian optimization: the point at which a Gaussian process expects the greatest improvement.
//!
//! Half of the proposals see standardized results, half their normal scores: the first know how much better the best is,
//! the second are not misled by a few results that are far off. Pending trials count as if they had yielded what the model
//! expects, so that nothing is expected of them twice. Integers and choices are snapped before the kernel sees
//! them, so that the model knows of no place between two of them.

mod acquire;
mod model;

use crate::draw::Draw;
use crate::normal;
use crate::space::{Point, Space};
use crate::trial::TrialNumber;

use super::{Evidence, random};
use model::Model;

/// The most results that a model is fitted to: its time grows with their cube.
const MOST_RESULTS: usize = 300;

pub(super) fn point(space: &Space, seed: u64, number: TrialNumber, evidence: &Evidence) -> Point {
    let mut draw = Draw::new(seed, number);
    let scale = if number.is_multiple_of(2) { standardized } else { normal_scores };
    let model = fit(space, evidence, scale, &mut draw).and_then(|model| model.believing(&evidence.pending));
    match model {
        Some(model) => acquire::best(space, &model, &mut draw),
        None => random::point(space, seed, number),
    }
}

/// The expected result at each point, in deviations.
pub(crate) fn expectation(space: &Space, seed: u64, evidence: &Evidence) -> Option<impl Fn(&[f64]) -> f64> {
    let model = fit(space, evidence, standardized, &mut Draw::new(seed, u64::MAX))?;
    Some(move |at: &[f64]| model.mean(at))
}

fn fit(space: &Space, evidence: &Evidence, scale: fn(&[f64]) -> Vec<f64>, draw: &mut Draw) -> Option<Model> {
    let kept = kept(&evidence.losses, draw);
    let points: Vec<Point> = kept.iter().map(|index| evidence.points[*index].clone()).collect();
    let losses: Vec<f64> = kept.iter().map(|index| evidence.losses[*index]).collect();
    Model::fit(space, points, scale(&losses))
}

/// The results that a model sees, in the order of the history: all, or the best half of the bound and as many random ones.
fn kept(losses: &[f64], draw: &mut Draw) -> Vec<usize> {
    let mut order: Vec<usize> = (0..losses.len()).collect();
    if losses.len() > MOST_RESULTS {
        order.sort_by(|one, two| losses[*one].total_cmp(&losses[*two]));
        draw.shuffle(&mut order[MOST_RESULTS / 2..]);
        order.truncate(MOST_RESULTS);
        order.sort_unstable();
    }
    order
}

fn standardized(losses: &[f64]) -> Vec<f64> {
    let count = losses.len() as f64;
    let mean = losses.iter().sum::<f64>() / count;
    let variance = losses.iter().map(|loss| (loss - mean) * (loss - mean)).sum::<f64>() / count;
    let deviation = variance.sqrt().max(f64::MIN_POSITIVE);
    losses.iter().map(|loss| (loss - mean) / deviation).collect()
}

/// The values that a normal distribution would have at the ranks. Equal losses have the mean of their ranks.
fn normal_scores(losses: &[f64]) -> Vec<f64> {
    let mut sorted = losses.to_vec();
    sorted.sort_by(f64::total_cmp);
    let score = |loss: &f64| {
        let below = sorted.partition_point(|other| other < loss) as f64;
        let upto = sorted.partition_point(|other| other <= loss) as f64;
        normal::quantile(f64::midpoint(below, upto) / losses.len() as f64)
    };
    losses.iter().map(score).collect()
}
