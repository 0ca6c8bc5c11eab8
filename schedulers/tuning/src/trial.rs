//! Trials and their results, in the order in which the results were stored.

use crate::space::Parameters;

/// The number of a trial within its study: its proposal's number.
pub type TrialNumber = u64;

/// The better end of an objective.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    Minimize,
    Maximize,
}

impl Direction {
    /// The value as a loss: less is better.
    pub fn loss(self, value: f64) -> f64 {
        match self {
            Direction::Minimize => value,
            Direction::Maximize => -value,
        }
    }
}

/// A measured value. It is finite: a trial that yields anything else has failed.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Measure(f64);

#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error("a result must be a finite number, and this one is {0}")]
pub struct NotFinite(pub f64);

impl Measure {
    pub fn new(value: f64) -> Result<Measure, NotFinite> {
        value.is_finite().then_some(Measure(value)).ok_or(NotFinite(value))
    }

    pub fn get(self) -> f64 {
        self.0
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Outcome {
    Complete(Measure),
    /// Ended early, with its last report.
    Pruned(Option<Measure>),
    Failed,
}

/// A measure that a trial reported on its way, such as the accuracy after an epoch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Report {
    pub step: u64,
    pub measure: Measure,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ReportError {
    #[error("step {step} is reported already, with another measure")]
    Twice { step: u64 },
    #[error("step {step} is before step {last}, which is reported already")]
    OutOfOrder { step: u64, last: u64 },
}

/// The reports of one trial, by ascending step.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Curve {
    reports: Vec<Report>,
}

impl Curve {
    /// Adds a report. The last report again changes nothing, so that a repeated request is answered alike.
    pub fn add(&mut self, report: Report) -> Result<(), ReportError> {
        match self.reports.last() {
            Some(last) if *last == report => return Ok(()),
            Some(last) if last.step == report.step => return Err(ReportError::Twice { step: report.step }),
            Some(last) if last.step > report.step => {
                return Err(ReportError::OutOfOrder { step: report.step, last: last.step });
            }
            _ => self.reports.push(report),
        }
        Ok(())
    }

    pub fn reports(&self) -> &[Report] {
        &self.reports
    }

    pub fn last(&self) -> Option<Report> {
        self.reports.last().copied()
    }

    /// The measure at a step, or the first one after it: not all trials report at each step.
    pub fn at(&self, step: u64) -> Option<Measure> {
        let index = self.reports.partition_point(|report| report.step < step);
        self.reports.get(index).map(|report| report.measure)
    }

    /// The least loss up to a step.
    pub fn best_until(&self, step: u64, direction: Direction) -> Option<f64> {
        let until = self.reports.iter().take_while(|report| report.step <= step);
        until.map(|report| direction.loss(report.measure.get())).min_by(f64::total_cmp)
    }
}

/// A trial that has ended.
#[derive(Debug, Clone, PartialEq)]
pub struct TrialResult {
    pub number: TrialNumber,
    pub parameters: Parameters,
    pub outcome: Outcome,
}

/// All that a proposal depends on besides seed and number.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct History {
    /// In the order in which they were stored.
    pub results: Vec<TrialResult>,
    /// Trials that were proposed and have no result yet.
    pub pending: Vec<(TrialNumber, Parameters)>,
}
