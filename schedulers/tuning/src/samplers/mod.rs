//! Samplers: the next point of a study, from what is known of earlier ones.
//!
//! A sampler is a function: equal evidence, seed and number give an equal point.

mod evolution;
mod grid;
mod process;
mod random;
mod sobol;
mod tree;

pub(crate) use process::expectation;

use crate::draw::Draw;
use crate::space::{INACTIVE, Point, Space};
use crate::trial::{Direction, History, Outcome, TrialNumber};

/// Results at or before which a model proposes nothing: they come from a sequence that covers the space.
pub(crate) const STARTUP: usize = 10;

/// Results from which on the default leaves the Gaussian process.
const PROCESS_UNTIL: usize = 1_000;

/// Random points that are drawn in the place of one that was tried already.
const REDRAWS: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sampler {
    /// Each combination once, floats at so many values each.
    Grid {
        levels: u64,
    },
    Random,
    /// A Sobol sequence with Owen's scrambling.
    Sobol,
    /// A tree of Parzen estimators (TPE), multivariate, with a constant liar.
    Tree,
    /// Bayesian optimization with a Gaussian process.
    Process,
    /// CMA-ES.
    Evolution,
    /// A Gaussian process and TPE in turn while that is quick, then CMA-ES in a space of numbers alone, and TPE in any other.
    Auto,
}

/// The results and open trials of a study as coordinates; a loss each.
#[derive(Debug, Clone, Default)]
pub struct Evidence {
    pub points: Vec<Point>,
    pub losses: Vec<f64>,
    pub pending: Vec<Point>,
}

impl Evidence {
    /// The evidence of a history. Failed trials count as the worst result, those that were ended early as their last
    /// report or, if it was better, as the median of all. Points outside the space, from before a change of it, are left out.
    pub fn new(space: &Space, direction: Direction, history: &History) -> Evidence {
        let complete = |outcome: &Outcome| match outcome {
            Outcome::Complete(measure) => Some(direction.loss(measure.get())),
            Outcome::Pruned(_) | Outcome::Failed => None,
        };
        let mut known: Vec<f64> = history.results.iter().filter_map(|one| complete(&one.outcome)).collect();
        known.sort_by(f64::total_cmp);
        let worst = known.last().copied().unwrap_or(0.0);
        let median = known.get(known.len() / 2).copied().unwrap_or(0.0);
        let mut evidence = Evidence::default();
        for result in &history.results {
            let Ok(point) = space.encode(&result.parameters) else { continue };
            evidence.points.push(point);
            evidence.losses.push(match result.outcome {
                Outcome::Complete(measure) => direction.loss(measure.get()),
                Outcome::Pruned(Some(measure)) => direction.loss(measure.get()).max(median),
                Outcome::Pruned(None) | Outcome::Failed => worst,
            });
        }
        evidence.pending =
            history.pending.iter().filter_map(|(_, values)| space.encode(values).ok()).collect();
        evidence
    }

    /// The point, or a random one instead if it was tried already. A space that may be tried whole has no other then.
    fn untried(&self, space: &Space, point: Point, seed: u64, number: TrialNumber) -> Point {
        let is_known =
            |point: &Point| self.points.iter().chain(&self.pending).any(|known| is_same_point(known, point));
        let mut draw = Draw::new(!seed, number);
        let mut next = point.clone();
        for _ in 0..REDRAWS {
            if !is_known(&next) {
                return next;
            }
            next = space.snap(&(0..space.dimensions()).map(|_| draw.unit()).collect::<Point>());
        }
        point
    }
}

impl Sampler {
    /// The point of a proposal; `None` once a grid has no more.
    pub fn propose(
        self,
        space: &Space,
        seed: u64,
        number: TrialNumber,
        evidence: &Evidence,
    ) -> Option<Point> {
        let is_early = evidence.points.len() < STARTUP;
        let point = match self {
            Sampler::Grid { levels } => return Some(space.snap(&grid::point(space, levels, number)?)),
            Sampler::Random => return Some(space.snap(&random::point(space, seed, number))),
            Sampler::Auto => {
                return default_for(space, number, evidence).propose(space, seed, number, evidence);
            }
            Sampler::Sobol => sobol::point(space.dimensions(), seed, number),
            Sampler::Process if is_early => sobol::point(space.dimensions(), seed, number),
            Sampler::Process => process::point(space, seed, number, evidence),
            Sampler::Tree if is_early => random::point(space, seed, number),
            Sampler::Tree => tree::point(space, seed, number, evidence),
            Sampler::Evolution => evolution::point(space, seed, number, evidence)?,
        };
        let point = space.snap(&point);
        Some(if self == Sampler::Sobol { point } else { evidence.untried(space, point, seed, number) })
    }
}

/// The sampler that the default chooses. The process has even numbers, with which it sees results; TPE sees ranks.
fn default_for(space: &Space, number: TrialNumber, evidence: &Evidence) -> Sampler {
    let is_numeric = space.parameters().iter().all(|one| !one.domain.is_unordered());
    match evidence.points.len() {
        0..PROCESS_UNTIL if !number.is_multiple_of(2) => Sampler::Tree,
        0..PROCESS_UNTIL => Sampler::Process,
        _ if is_numeric && !space.is_conditional() => Sampler::Evolution,
        _ => Sampler::Tree,
    }
}

/// Equal where both have a value and it is equal, or neither has one.
pub(crate) fn is_same_point(one: &[f64], two: &[f64]) -> bool {
    one.iter().zip(two).all(|(a, b)| (a - b).abs() < 1e-9 || (a.is_nan() && b.is_nan()))
}

pub(crate) fn is_active(coordinate: f64) -> bool {
    !coordinate.is_nan()
}

const _: () = assert!(INACTIVE.is_nan());
