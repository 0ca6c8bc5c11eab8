//! Pruners: whether a trial goes on, from the reports of all trials of its study.

mod ladder;
mod median;
mod plateau;

pub use ladder::{Ladder, LadderError, Promotion, hyperband};
pub use median::Median;
pub use plateau::Plateau;

use crate::trial::{Curve, Direction};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    GoesOn,
    Ends,
}

/// A rule that answers a report.
#[derive(Debug, Clone, PartialEq)]
pub enum Pruner {
    Median(Median),
    /// Successive halving without waiting: at each rung a trial ends unless it is among the best there so far.
    Halving(Ladder),
    Plateau(Plateau),
}

impl Pruner {
    /// The answer to the last report of a trial, beside the curves of the study's other trials.
    pub fn verdict(&self, direction: Direction, own: &Curve, others: &[&Curve]) -> Verdict {
        match self {
            Pruner::Median(median) => median.verdict(direction, own, others),
            Pruner::Halving(ladder) => ladder.verdict(direction, own, others),
            Pruner::Plateau(plateau) => plateau.verdict(direction, own),
        }
    }
}
