//! A study: a space, an objective, and the rule by which the next trial is proposed.
//!
//! Proposal n is a function of the study's seed, n, the results that are stored and the trials that are pending. So a
//! study that is killed and goes on proposes as if nothing had happened.

use crate::draw::Draw;
use crate::pruners::Ladder;
use crate::samplers::{Evidence, Sampler};
use crate::space::{Parameters, Space};
use crate::trial::{Curve, Direction, History, Outcome, TrialNumber, TrialResult};

/// The part of new trials on a ladder that are drawn at random, whatever a model says of lower rungs.
const RANDOM_PART: f64 = 0.15;

/// Trials that must have reported at a rung before a model of it proposes.
const LEAST_AT_RUNG: usize = 10;

#[derive(Debug, Clone, PartialEq)]
pub struct Study {
    pub space: Space,
    pub direction: Direction,
    pub seed: u64,
    pub sampler: Sampler,
    /// Known points, which are the first proposals.
    pub enqueued: Vec<Parameters>,
}

/// A trial that climbs a ladder, with its reports.
#[derive(Debug, Clone, PartialEq)]
pub struct ClimbingTrial {
    pub number: TrialNumber,
    pub parameters: Parameters,
    pub curve: Curve,
}

impl Study {
    /// The parameters of a proposal; `None` once a grid has no more.
    pub fn propose(&self, number: TrialNumber, history: &History) -> Option<Parameters> {
        let enqueued = self.enqueued.len() as u64;
        if let Some(known) = usize::try_from(number).ok().and_then(|number| self.enqueued.get(number)) {
            return Some(known.clone());
        }
        let evidence = Evidence::new(&self.space, self.direction, history);
        let point = self.sampler.propose(&self.space, self.seed, number - enqueued, &evidence)?;
        Some(self.space.decode(&point))
    }

    /// The parameters of a new trial at the lowest rung of a ladder. A model sees the highest rung at which enough trials
    /// have reported; trials are given by ascending number, `ended` tells which of them run no more.
    pub fn propose_on(
        &self,
        ladder: &Ladder,
        number: TrialNumber,
        trials: &[ClimbingTrial],
        ended: impl Fn(TrialNumber) -> bool,
    ) -> Option<Parameters> {
        let is_random = Draw::new(self.seed.rotate_left(32), number).unit() < RANDOM_PART;
        let curves: Vec<(TrialNumber, &Curve)> =
            trials.iter().map(|trial| (trial.number, &trial.curve)).collect();
        let rung = ladder.highest_with(LEAST_AT_RUNG, &curves).unwrap_or(ladder.rungs()[0]);
        let mut history = History::default();
        for trial in trials {
            match trial.curve.at(rung) {
                Some(measure) => history.results.push(TrialResult {
                    number: trial.number,
                    parameters: trial.parameters.clone(),
                    outcome: Outcome::Complete(measure),
                }),
                None if ended(trial.number) => {}
                None => history.pending.push((trial.number, trial.parameters.clone())),
            }
        }
        if is_random {
            let random = Study { sampler: Sampler::Random, ..self.clone() };
            return random.propose(number, &history);
        }
        self.propose(number, &history)
    }
}
