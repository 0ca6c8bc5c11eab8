//! A trial reports a value on its way; and its pruner has said that it should stop.

use std::sync::Arc;

use estimand_service::{Decision, Request};
use estimand_tuning::{Curve, Report, TrialNumber};
use estimand_web::Scope;

use super::{check_bytes, find, trial};
use crate::change::{Change, Edit, Rejection};
use crate::study::Definition;
use crate::trial::{REPORT_BYTES, Trials};
use crate::writer::StudiesState;

/// Reports of a trial that are kept.
const MAX_REPORTS: usize = 10_000;

pub struct ReportValue {
    pub id: String,
    pub scope: Scope,
    pub trial: TrialNumber,
    pub report: Report,
}

impl Request<StudiesState> for ReportValue {
    /// The study with its trials after the report, for its pruner to judge.
    type Reply = (Arc<Definition>, Trials);

    fn decide(self, state: &StudiesState) -> Result<Decision<StudiesState, Self::Reply>, Rejection> {
        let table = state.table();
        let study = find(table, &self.scope, &self.id)?;
        let number = self.trial;
        let own = trial(study, self.trial)?;
        let definition = Arc::clone(&study.definition);
        if own.curve.last() == Some(self.report) {
            return Ok(Decision::Nothing((definition, study.trials.clone())));
        }
        if !own.is_running() {
            return Err(Rejection::NotRunning { trial: number, state: own.progress.state.as_str() });
        }
        // A report fits or not by the last one alone.
        let mut curve = Curve::default();
        for report in own.curve.last().into_iter().chain([self.report]) {
            let wrong = |error: estimand_tuning::ReportError| Rejection::Report {
                trial: number,
                reason: error.to_string(),
            };
            curve.add(report).map_err(wrong)?;
        }
        if own.curve.reports().len() >= MAX_REPORTS {
            return Err(Rejection::TooManyReports { trial: number, most: MAX_REPORTS });
        }
        check_bytes(table, &self.scope, study.definition.user(), REPORT_BYTES)?;
        let study = study.definition.number;
        let edit = Edit::Reported { study, trial: number, report: self.report, at: state.now_us() };
        Ok(Decision::change(Change(vec![edit]), move |state: &StudiesState, _: &Change| {
            let trials = state.table().get(study).map(|study| study.trials.clone());
            (definition, trials.unwrap_or_default())
        }))
    }
}

/// The pruner of a study ends a trial early.
pub struct StopVerdict {
    pub study: u64,
    pub trial: TrialNumber,
}

impl Request<StudiesState> for StopVerdict {
    type Reply = ();

    fn decide(self, state: &StudiesState) -> Result<Decision<StudiesState, ()>, Rejection> {
        let StopVerdict { study, trial } = self;
        let known = state.table().get(study).and_then(|study| study.trials.get(trial));
        if known.is_none_or(|trial| trial.progress.stop || !trial.is_running()) {
            return Ok(Decision::Nothing(()));
        }
        Ok(Decision::change(Change(vec![Edit::Stop { study, trial }]), |_: &StudiesState, _: &Change| ()))
    }
}
