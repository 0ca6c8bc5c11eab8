//! The one result of a trial is told.

use std::sync::Arc;

use estimand_service::{Decision, Request};
use estimand_tuning::{Measure, TrialNumber};
use estimand_web::Scope;

use super::{ended, find, trial};
use crate::change::{Change, Rejection};
use crate::study::Study;
use crate::trial::{Trial, TrialProgress, TrialState};
use crate::writer::StudiesState;

/// The end of a trial, as it is told.
#[derive(Debug, Clone, PartialEq)]
pub enum TrialEnding {
    Complete(Measure),
    /// Ended early, with its last report.
    Pruned,
    Failed(String),
}

pub struct Tell {
    pub id: String,
    pub scope: Scope,
    pub trial: TrialNumber,
    pub ending: TrialEnding,
}

impl TrialEnding {
    /// The progress of a trial that ends so now.
    pub fn progress(&self, study: &Study, trial: &Trial) -> TrialProgress {
        let (state, value, reason) = match self {
            TrialEnding::Complete(measure) => (TrialState::Complete, Some(measure.get()), None),
            TrialEnding::Pruned => {
                let last = trial.curve.last().map(|report| report.measure.get());
                (TrialState::Pruned, last, None)
            }
            TrialEnding::Failed(reason) => (TrialState::Failed, None, Some(reason.clone())),
        };
        TrialProgress { state, value, reason, place: Some(study.results()), stop: trial.progress.stop }
    }

    /// The trial has ended so already. Failures are alike, whatever the reason.
    fn is_known(&self, progress: &TrialProgress) -> bool {
        match self {
            TrialEnding::Complete(measure) => {
                progress.state == TrialState::Complete && progress.value == Some(measure.get())
            }
            TrialEnding::Pruned => progress.state == TrialState::Pruned,
            TrialEnding::Failed(_) => progress.state == TrialState::Failed,
        }
    }
}

impl Request<StudiesState> for Tell {
    /// The trial as it is afterwards.
    type Reply = Arc<Trial>;

    fn decide(self, state: &StudiesState) -> Result<Decision<StudiesState, Self::Reply>, Rejection> {
        let study = find(state.table(), &self.scope, &self.id)?;
        let own = trial(study, self.trial)?;
        if !own.is_running() {
            if self.ending.is_known(&own.progress) {
                return Ok(Decision::Nothing(Arc::new(own.clone())));
            }
            let value = own.progress.value.map(|value| format!(" with {value}")).unwrap_or_default();
            let state = own.progress.state.as_str();
            return Err(Rejection::Told { trial: self.trial, state, value });
        }
        let progress = self.ending.progress(study, own);
        let at = state.now_us();
        let after = Arc::new(Trial { progress: progress.clone(), ended_at: Some(at), ..own.clone() });
        let change = ended(study, self.trial, progress, at);
        Ok(Decision::change(change, move |_: &StudiesState, _: &Change| after))
    }
}
