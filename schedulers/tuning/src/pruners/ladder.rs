//! Successive halving: rungs, at each of which only the best go on.
//!
//! A ladder is climbed in two ways. With *verdicts* a trial runs on and is ended at a rung. With *promotions* a trial
//! stops at each rung, and whoever has a free place asks which one climbs next: from the best part of those at a rung
//! without waiting for others (ASHA), or only once a rung is full (synchronous).

use crate::trial::{Curve, Direction, TrialNumber};

use super::Verdict;

/// The most rungs of a ladder: with `eta` 2 that is a budget of 4 billion.
const MAX_RUNGS: usize = 32;

#[derive(Debug, Clone, PartialEq)]
pub struct Ladder {
    eta: u64,
    rungs: Vec<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LadderError {
    #[error("eta must be at least 2, and it is {0}")]
    Eta(u64),
    #[error("rungs are steps that grow, at least one and at most {MAX_RUNGS}")]
    Rungs,
}

/// A trial that climbs to a rung.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Promotion {
    pub trial: TrialNumber,
    /// The step up to which it runs next.
    pub step: u64,
}

impl Ladder {
    pub fn new(eta: u64, rungs: Vec<u64>) -> Result<Ladder, LadderError> {
        if eta < 2 {
            return Err(LadderError::Eta(eta));
        }
        let grows = rungs.windows(2).all(|two| two[0] < two[1]);
        if rungs.is_empty() || rungs.len() > MAX_RUNGS || !grows || rungs[0] == 0 {
            return Err(LadderError::Rungs);
        }
        Ok(Ladder { eta, rungs })
    }

    /// Rungs from `least` to `most`, each `eta` times the one below, counted from the top: 52, 18, 6, 2.
    pub fn between(eta: u64, least: u64, most: u64) -> Result<Ladder, LadderError> {
        if eta < 2 {
            return Err(LadderError::Eta(eta));
        }
        let mut rungs = vec![most];
        let mut part = most as f64 / eta as f64;
        while part.round() >= least.max(1) as f64 && rungs.len() < MAX_RUNGS {
            rungs.push(part.round() as u64);
            part /= eta as f64;
        }
        rungs.reverse();
        rungs.dedup();
        Ladder::new(eta, rungs)
    }

    pub fn rungs(&self) -> &[u64] {
        &self.rungs
    }

    /// The number of those that go on from among `count`.
    fn part(&self, count: usize) -> usize {
        count / usize::try_from(self.eta).unwrap_or(usize::MAX)
    }

    /// A trial at a rung goes on if it is in the best part of those that have reported there, itself included, or if so
    /// few have that no part is whole.
    pub(super) fn verdict(&self, direction: Direction, own: &Curve, others: &[&Curve]) -> Verdict {
        let Some(last) = own.last() else { return Verdict::GoesOn };
        let before = own.reports().iter().rev().nth(1).map_or(0, |report| report.step);
        // The highest rung that the last report has reached or passed, and the one before had not.
        let reached = self.rungs.iter().rev().find(|rung| last.step >= **rung && before < **rung);
        let Some(rung) = reached.filter(|rung| Some(*rung) != self.rungs.last()) else {
            return Verdict::GoesOn;
        };
        let Some(measure) = own.at(*rung) else { return Verdict::GoesOn };
        let loss = direction.loss(measure.get());
        let there = others.iter().filter_map(|curve| curve.at(*rung));
        let losses: Vec<f64> = there.map(|measure| direction.loss(measure.get())).collect();
        let better = losses.iter().filter(|other| **other < loss).count();
        if better < self.part(losses.len() + 1).max(1) { Verdict::GoesOn } else { Verdict::Ends }
    }

    /// The trial that climbs next without waiting: from the highest rung down, the best that is not above yet and among
    /// the best part of its rung. `None`: a new trial starts at the lowest rung.
    ///
    /// `climbing` has trials that were promoted and have not reported at their rung yet, with that rung's step.
    pub fn promotion(
        &self,
        direction: Direction,
        curves: &[(TrialNumber, &Curve)],
        climbing: &[Promotion],
    ) -> Option<Promotion> {
        (0..self.rungs.len() - 1).rev().find_map(|rung| {
            let there = self.ranked(direction, curves, rung);
            self.first_below(rung, &there[..self.part(there.len())], curves, climbing)
        })
    }

    /// The trial that climbs next once `starters` have reported at the lowest rung, and of each rung its part.
    pub fn promotion_when_full(
        &self,
        direction: Direction,
        starters: usize,
        curves: &[(TrialNumber, &Curve)],
        climbing: &[Promotion],
    ) -> Option<Promotion> {
        let mut expected = starters;
        for rung in 0..self.rungs.len() - 1 {
            let there = self.ranked(direction, curves, rung);
            if there.len() < expected {
                return None;
            }
            expected = self.part(expected).max(1);
            if let Some(next) = self.first_below(rung, &there[..expected.min(there.len())], curves, climbing)
            {
                return Some(next);
            }
        }
        None
    }

    /// The highest rung at which at least so many trials have reported: where a model learns most.
    pub fn highest_with(&self, least: usize, curves: &[(TrialNumber, &Curve)]) -> Option<u64> {
        let count = |rung: u64| curves.iter().filter(|(_, curve)| curve.at(rung).is_some()).count();
        self.rungs.iter().rev().copied().find(|rung| count(*rung) >= least)
    }

    /// The trials that have reported at a rung, the best first; equal ones by number.
    fn ranked(
        &self,
        direction: Direction,
        curves: &[(TrialNumber, &Curve)],
        rung: usize,
    ) -> Vec<TrialNumber> {
        let at = |(number, curve): &(TrialNumber, &Curve)| {
            curve.at(self.rungs[rung]).map(|measure| (direction.loss(measure.get()), *number))
        };
        let mut there: Vec<(f64, TrialNumber)> = curves.iter().filter_map(at).collect();
        there.sort_by(|one, two| one.0.total_cmp(&two.0).then(one.1.cmp(&two.1)));
        there.into_iter().map(|(_, number)| number).collect()
    }

    fn first_below(
        &self,
        rung: usize,
        best: &[TrialNumber],
        curves: &[(TrialNumber, &Curve)],
        climbing: &[Promotion],
    ) -> Option<Promotion> {
        let step = self.rungs[rung + 1];
        let has_climbed = |trial: &TrialNumber| {
            climbing.iter().any(|one| one.trial == *trial && one.step >= step)
                || curves.iter().any(|(number, curve)| number == trial && curve.at(step).is_some())
        };
        best.iter().find(|trial| !has_climbed(trial)).map(|trial| Promotion { trial: *trial, step })
    }
}

/// The brackets of Hyperband: ladders that begin at each rung of the longest, and the number of trials that start in each.
/// A ladder with fewer rungs starts fewer trials, each with more, so that brackets cost alike.
pub fn hyperband(eta: u64, least: u64, most: u64) -> Result<Vec<(Ladder, u64)>, LadderError> {
    let longest = Ladder::between(eta, least, most)?;
    let count = longest.rungs.len();
    let bracket = |first: usize| {
        let climbs = count - 1 - first;
        let starters = count as f64 / (climbs + 1) as f64 * (eta as f64).powi(climbs as i32);
        Ok((Ladder::new(eta, longest.rungs[first..].to_vec())?, starters.ceil() as u64))
    };
    (0..count).map(bracket).collect()
}
