//! A trial ends if the best that it has reported is worse than the median of the others at the same step.

use crate::trial::{Curve, Direction};

use super::Verdict;

#[derive(Debug, Clone, PartialEq)]
pub struct Median {
    /// Trials that must have come as far before any is judged.
    pub least_trials: usize,
    /// Steps before which no trial is judged.
    pub first_step: u64,
}

impl Median {
    pub(super) fn verdict(&self, direction: Direction, own: &Curve, others: &[&Curve]) -> Verdict {
        let Some(step) = own.last().map(|last| last.step).filter(|step| *step >= self.first_step) else {
            return Verdict::GoesOn;
        };
        let has_come = |curve: &&&Curve| curve.last().is_some_and(|last| last.step >= step);
        let reached = others.iter().filter(has_come);
        let mut losses: Vec<f64> = reached.filter_map(|curve| curve.best_until(step, direction)).collect();
        if losses.is_empty() || losses.len() < self.least_trials {
            return Verdict::GoesOn;
        }
        losses.sort_by(f64::total_cmp);
        let half = losses.len() / 2;
        let median =
            if losses.len() % 2 == 1 { losses[half] } else { f64::midpoint(losses[half - 1], losses[half]) };
        match own.best_until(step, direction) {
            Some(best) if best > median => Verdict::Ends,
            _ => Verdict::GoesOn,
        }
    }
}
