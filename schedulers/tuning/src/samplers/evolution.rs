//! CMA-ES: a normal distribution that moves towards better results and takes the shape of the valley that it is in.
//!
//! The distribution is folded from the results in their stored order, a generation at a time, whoever proposed them; so
//! it needs no state of its own. Points that are far from where it would have drawn are taken as if they were nearer
//! (Hansen 2011). A distribution that has shrunk to a point starts again elsewhere with larger generations.

use crate::draw::Draw;
use crate::linear::{Factor, dot};
use crate::space::{Point, Space};
use crate::trial::TrialNumber;

use super::{Evidence, is_active};

/// The deviation at first, as a part of the range.
const WIDTH: f64 = 1.0 / 6.0;
/// The deviation at which all is found that there is.
const NARROW: f64 = 1e-4;
/// Draws until one lies inside.
const REDRAWS: usize = 20;

struct Distribution {
    mean: Point,
    width: f64,
    covariance: Vec<f64>,
    factor: Factor,
    path: Vec<f64>,
    width_path: Vec<f64>,
    generation: usize,
}

pub(super) fn point(space: &Space, seed: u64, number: TrialNumber, evidence: &Evidence) -> Option<Point> {
    let dimensions = space.dimensions();
    let mut population = 4 + (3.0 * (dimensions as f64).ln()) as usize;
    let mut distribution = Distribution::new(vec![0.5; dimensions])?;
    let mut from = 0;
    let mut restarts = 0;
    while from + population <= evidence.points.len() {
        let mut generation: Vec<(f64, Point)> = (from..from + population)
            .map(|index| (evidence.losses[index], active(&evidence.points[index])))
            .collect();
        generation.sort_by(|one, two| one.0.total_cmp(&two.0));
        from += population;
        distribution = distribution.after(&generation)?;
        if distribution.width < NARROW {
            restarts += 1;
            population *= 2;
            let mut draw = Draw::new(seed, u64::MAX - restarts);
            distribution = Distribution::new((0..dimensions).map(|_| draw.unit()).collect())?;
        }
    }
    Some(distribution.draw(&mut Draw::new(seed, number)))
}

/// Parameters that are not there stand in their middle.
fn active(point: &[f64]) -> Point {
    point.iter().map(|one| if is_active(*one) { *one } else { 0.5 }).collect()
}

impl Distribution {
    fn new(mean: Point) -> Option<Distribution> {
        let size = mean.len();
        let mut covariance = vec![0.0; size * size];
        (0..size).for_each(|at| covariance[at * size + at] = 1.0);
        Some(Distribution {
            factor: Factor::new(covariance.clone(), size)?,
            mean,
            width: WIDTH,
            covariance,
            path: vec![0.0; size],
            width_path: vec![0.0; size],
            generation: 0,
        })
    }

    fn draw(&self, draw: &mut Draw) -> Point {
        let mut point = self.mean.clone();
        for _ in 0..REDRAWS {
            let normals: Vec<f64> = self.mean.iter().map(|_| draw.normal()).collect();
            let steps = self.factor.times(&normals);
            point = self.mean.iter().zip(steps).map(|(mean, step)| mean + self.width * step).collect();
            if point.iter().all(|one| (0.0..=1.0).contains(one)) {
                break;
            }
        }
        point
    }

    /// The distribution after a generation, its best first. Names of constants are those of Hansen's tutorial.
    fn after(mut self, generation: &[(f64, Point)]) -> Option<Distribution> {
        let size = self.mean.len();
        let n = size as f64;
        let parents = generation.len() / 2;
        let raw: Vec<f64> =
            (1..=parents).map(|rank| (parents as f64 + 0.5).ln() - (rank as f64).ln()).collect();
        let total: f64 = raw.iter().sum();
        let weights: Vec<f64> = raw.iter().map(|weight| weight / total).collect();
        let mu_eff = 1.0 / dot(&weights, &weights);
        let c_sigma = (mu_eff + 2.0) / (n + mu_eff + 5.0);
        let damping = 1.0 + 2.0 * (((mu_eff - 1.0) / (n + 1.0)).sqrt() - 1.0).max(0.0) + c_sigma;
        let c_c = (4.0 + mu_eff / n) / (n + 4.0 + 2.0 * mu_eff / n);
        let c_1 = 2.0 / ((n + 1.3) * (n + 1.3) + mu_eff);
        let c_mu = (1.0 - c_1).min(2.0 * (mu_eff - 2.0 + 1.0 / mu_eff) / ((n + 2.0) * (n + 2.0) + mu_eff));
        let chi = n.sqrt() * (1.0 - 1.0 / (4.0 * n) + 1.0 / (21.0 * n * n));

        let steps: Vec<Vec<f64>> = generation[..parents].iter().map(|(_, point)| self.step(point)).collect();
        let mut mean_step = vec![0.0; size];
        for (step, weight) in steps.iter().zip(&weights) {
            mean_step.iter_mut().zip(step).for_each(|(sum, one)| *sum += weight * one);
        }
        for (mean, step) in self.mean.iter_mut().zip(&mean_step) {
            *mean = (*mean + self.width * step).clamp(0.0, 1.0);
        }
        self.generation += 1;
        let mut white = mean_step.clone();
        self.factor.forward(&mut white);
        let by = (c_sigma * (2.0 - c_sigma) * mu_eff).sqrt();
        self.width_path
            .iter_mut()
            .zip(white)
            .for_each(|(path, one)| *path = (1.0 - c_sigma) * *path + by * one);
        let length = dot(&self.width_path, &self.width_path).sqrt();
        let settled = (1.0 - (1.0 - c_sigma).powi(2 * self.generation as i32)).sqrt();
        let is_straight = length / settled < (1.4 + 2.0 / (n + 1.0)) * chi;
        let by = if is_straight { (c_c * (2.0 - c_c) * mu_eff).sqrt() } else { 0.0 };
        self.path.iter_mut().zip(&mean_step).for_each(|(path, one)| *path = (1.0 - c_c) * *path + by * one);
        for row in 0..size {
            for column in 0..=row {
                let spread: f64 =
                    steps.iter().zip(&weights).map(|(step, weight)| weight * step[row] * step[column]).sum();
                let old = self.covariance[row * size + column];
                let new = (1.0 - c_1 - c_mu) * old + c_1 * self.path[row] * self.path[column] + c_mu * spread;
                self.covariance[row * size + column] = new;
            }
        }
        self.width = (self.width * ((c_sigma / damping) * (length / chi - 1.0)).exp()).min(1.0);
        self.factor = Factor::new(self.covariance.clone(), size)?;
        Some(self)
    }

    /// The step to a point in deviations, shortened to what the distribution might have drawn.
    fn step(&self, point: &[f64]) -> Vec<f64> {
        let step: Vec<f64> =
            point.iter().zip(&self.mean).map(|(one, mean)| (one - mean) / self.width).collect();
        let mut white = step.clone();
        self.factor.forward(&mut white);
        let length = dot(&white, &white).sqrt();
        let longest = (self.mean.len() as f64).sqrt() + 2.0;
        let by = (longest / length.max(f64::MIN_POSITIVE)).min(1.0);
        step.iter().map(|one| one * by).collect()
    }
}
