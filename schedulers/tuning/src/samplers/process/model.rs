//! A Gaussian process with a Matérn kernel (5/2) and a length for each parameter.
//!
//! The lengths, the scale and the noise are those of the highest posterior, found from one start. Parameters without an
//! order differ by 1 or not at all, and so does one that is there from one that is not.

use crate::descent::minimize;
use crate::linear::{Factor, dot};
use crate::space::{Point, Space};

const SQRT_5: f64 = 2.236_067_977_499_79;

/// Evaluations of the posterior in a fit.
const EVALUATIONS: usize = 40;
/// Logarithms of the inverse length, the variance of the signal and that of the noise: mean and deviation of their priors.
const INVERSE_LENGTH: (f64, f64) = (0.0, 1.5);
const SIGNAL: (f64, f64) = (0.0, 1.0);
const NOISE: (f64, f64) = (-6.0, 1.0);
/// Below this noise a matrix may not have a factor.
const LEAST_NOISE: f64 = 1e-6;

pub(super) struct Model {
    points: Vec<Point>,
    targets: Vec<f64>,
    unordered: Vec<bool>,
    /// Squares of inverse lengths.
    scales: Vec<f64>,
    signal: f64,
    noise: f64,
    factor: Factor,
    /// The inverse of the matrix times the targets.
    weights: Vec<f64>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Belief {
    pub mean: f64,
    pub deviation: f64,
}

/// The square of the difference of two coordinates.
fn square(one: f64, two: f64, is_unordered: bool) -> f64 {
    match (one.is_nan(), two.is_nan()) {
        (true, true) => 0.0,
        (true, false) | (false, true) => 1.0,
        _ if is_unordered => f64::from(u8::from((one - two).abs() > 1e-9)),
        _ => (one - two) * (one - two),
    }
}

fn matern(square: f64) -> f64 {
    let distance = SQRT_5 * square.sqrt();
    (1.0 + distance + distance * distance / 3.0) * (-distance).exp()
}

/// The logarithm of a normal density but for a constant, and its slope.
fn prior(value: f64, (mean, deviation): (f64, f64)) -> (f64, f64) {
    let z = (value - mean) / deviation;
    (-0.5 * z * z, -z / deviation)
}

/// Targets and squared differences of all pairs of points: what the posterior of the lengths is computed from.
struct Pairs<'a> {
    targets: &'a [f64],
    /// For each pair, row by row below the diagonal, one square a parameter.
    squares: Vec<f64>,
    dimensions: usize,
}

impl Pairs<'_> {
    /// The negative logarithm of the posterior of some logarithms, and its gradient.
    fn loss(&self, at: &[f64]) -> (f64, Vec<f64>) {
        let size = self.targets.len();
        let dimensions = self.dimensions;
        let scales: Vec<f64> = at[..dimensions].iter().map(|log| (2.0 * log).exp()).collect();
        let signal = at[dimensions].exp();
        let noise = at[dimensions + 1].exp() + LEAST_NOISE;
        let mut kernel = vec![0.0; size * size];
        let mut slopes = vec![0.0; size * (size - 1) / 2];
        let mut pair = 0;
        for row in 0..size {
            for column in 0..row {
                let squares = &self.squares[pair * dimensions..(pair + 1) * dimensions];
                let distance = SQRT_5 * dot(squares, &scales).sqrt();
                let decay = signal * (-distance).exp();
                kernel[row * size + column] = (1.0 + distance + distance * distance / 3.0) * decay;
                slopes[pair] = -5.0 / 6.0 * (1.0 + distance) * decay;
                pair += 1;
            }
            kernel[row * size + row] = signal + noise;
        }
        let below = kernel.clone();
        let Some(factor) = Factor::new(kernel, size) else { return (f64::INFINITY, vec![0.0; at.len()]) };
        let mut weights = self.targets.to_vec();
        factor.forward(&mut weights);
        let fit = dot(&weights, &weights);
        factor.backward(&mut weights);
        let inverse = factor.inverse();
        let mut gradient = vec![0.0; at.len()];
        let mut signal_slope = 0.0;
        let mut noise_slope = 0.0;
        let mut pair = 0;
        for row in 0..size {
            for column in 0..row {
                let pull = weights[row] * weights[column] - inverse[row * size + column];
                signal_slope += 2.0 * pull * below[row * size + column];
                let by = 2.0 * pull * slopes[pair];
                let squares = &self.squares[pair * dimensions..(pair + 1) * dimensions];
                for (slope, square) in gradient.iter_mut().zip(squares) {
                    *slope += by * square;
                }
                pair += 1;
            }
            let pull = weights[row] * weights[row] - inverse[row * size + row];
            signal_slope += pull * signal;
            noise_slope += pull * (noise - LEAST_NOISE);
        }
        let mut logarithm = -0.5 * fit - 0.5 * factor.log_determinant();
        for (place, slope) in gradient.iter_mut().enumerate() {
            let (part, pull, law) = match place {
                _ if place < dimensions => (2.0 * scales[place] * *slope, 0.5, INVERSE_LENGTH),
                _ if place == dimensions => (signal_slope, 0.5, SIGNAL),
                _ => (noise_slope, 0.5, NOISE),
            };
            let (log_prior, prior_slope) = prior(at[place], law);
            logarithm += log_prior;
            *slope = -(pull * part + prior_slope);
        }
        (-logarithm, gradient)
    }
}

impl Model {
    /// Fits a model to targets of mean 0 and deviation 1; `None` where numbers do not allow it.
    pub fn fit(space: &Space, points: Vec<Point>, targets: Vec<f64>) -> Option<Model> {
        let dimensions = space.dimensions();
        let unordered: Vec<bool> = space.parameters().iter().map(|one| one.domain.is_unordered()).collect();
        let mut squares = Vec::with_capacity(points.len() * points.len() / 2 * dimensions);
        for (row, one) in points.iter().enumerate() {
            for two in &points[..row] {
                squares.extend((0..dimensions).map(|at| square(one[at], two[at], unordered[at])));
            }
        }
        let pairs = Pairs { targets: &targets, squares, dimensions };
        let mut start = vec![INVERSE_LENGTH.0; dimensions];
        start.extend([SIGNAL.0, NOISE.0]);
        let found = minimize(start, EVALUATIONS, |at| pairs.loss(at));
        let model = Model {
            scales: found[..dimensions].iter().map(|log| (2.0 * log).exp()).collect(),
            signal: found[dimensions].exp(),
            noise: found[dimensions + 1].exp() + LEAST_NOISE,
            points,
            targets,
            unordered,
            factor: Factor::new(Vec::new(), 0)?,
            weights: Vec::new(),
        };
        model.solved()
    }

    /// This model, as if it had seen what it expects at some points.
    pub fn believing(mut self, pending: &[Point]) -> Option<Model> {
        if pending.is_empty() {
            return Some(self);
        }
        let means: Vec<f64> = pending.iter().map(|point| self.mean(point)).collect();
        self.targets.extend(means);
        self.points.extend_from_slice(pending);
        self.solved()
    }

    fn solved(mut self) -> Option<Model> {
        let size = self.points.len();
        let mut kernel = vec![0.0; size * size];
        for row in 0..size {
            for column in 0..row {
                kernel[row * size + column] = self.covariance(&self.points[row], &self.points[column]);
            }
            kernel[row * size + row] = self.signal + self.noise;
        }
        self.factor = Factor::new(kernel, size)?;
        self.weights.clone_from(&self.targets);
        self.factor.forward(&mut self.weights);
        self.factor.backward(&mut self.weights);
        Some(self)
    }

    fn covariance(&self, one: &[f64], two: &[f64]) -> f64 {
        let mut sum = 0.0;
        for (at, scale) in self.scales.iter().enumerate() {
            sum += scale * square(one[at], two[at], self.unordered[at]);
        }
        self.signal * matern(sum)
    }

    pub fn mean(&self, at: &[f64]) -> f64 {
        self.points.iter().zip(&self.weights).map(|(point, weight)| weight * self.covariance(point, at)).sum()
    }

    pub fn belief(&self, at: &[f64]) -> Belief {
        let mut row: Vec<f64> = self.points.iter().map(|point| self.covariance(point, at)).collect();
        let mean = dot(&row, &self.weights);
        self.factor.forward(&mut row);
        let variance = self.signal - dot(&row, &row);
        Belief { mean, deviation: variance.max(1e-12).sqrt() }
    }

    pub fn points(&self) -> &[Point] {
        &self.points
    }
}
