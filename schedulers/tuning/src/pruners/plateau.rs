//! A trial ends if its last reports brought nothing.

use crate::trial::{Curve, Direction};

use super::Verdict;

#[derive(Debug, Clone, PartialEq)]
pub struct Plateau {
    /// Reports that must bring a new best, together.
    pub patience: usize,
    /// The least by which a new best must be better.
    pub least: f64,
    /// Steps before which no trial is judged.
    pub first_step: u64,
}

impl Plateau {
    pub(super) fn verdict(&self, direction: Direction, own: &Curve) -> Verdict {
        let reports = own.reports();
        if own.last().is_none_or(|last| last.step < self.first_step) || reports.len() <= self.patience {
            return Verdict::GoesOn;
        }
        let (earlier, recent) = reports.split_at(reports.len() - self.patience);
        let best = |part: &[crate::trial::Report]| {
            part.iter().map(|report| direction.loss(report.measure.get())).fold(f64::INFINITY, f64::min)
        };
        if best(earlier) - best(recent) > self.least { Verdict::GoesOn } else { Verdict::Ends }
    }
}
