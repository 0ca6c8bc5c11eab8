//! Studies end by their time, trials by silence, and the trials of deleted studies go.

use estimand_service::{Decision, Request};
use estimand_tuning::TrialNumber;

use super::ended;
use super::tell::TrialEnding;
use crate::change::{Change, Edit, Rejection};
use crate::study::{EndReason, StudyState};
use crate::writer::StudiesState;

/// Trials that go at once.
const PIECE: u64 = 1_000;

fn done(change: Option<Change>) -> Decision<StudiesState, ()> {
    match change {
        None => Decision::Nothing(()),
        Some(change) => Decision::change(change, |_: &StudiesState, _: &Change| ()),
    }
}

/// A study ends because its time is over.
pub struct EndByTime(pub u64);

impl Request<StudiesState> for EndByTime {
    type Reply = ();

    fn decide(self, state: &StudiesState) -> Result<Decision<StudiesState, ()>, Rejection> {
        let now = state.now_us();
        let study = state.table().get(self.0).filter(|study| study.progress.state != StudyState::Over);
        let due = study.filter(|study| study.definition.ends_at().is_some_and(|end| end <= now));
        Ok(done(due.map(|study| {
            let progress = study.progress.over(EndReason::Time, now);
            Change(vec![Edit::Study { study: self.0, progress }])
        })))
    }
}

/// A trial of which nothing was heard for too long fails.
pub struct FailSilent {
    pub study: u64,
    pub trial: TrialNumber,
}

impl Request<StudiesState> for FailSilent {
    type Reply = ();

    fn decide(self, state: &StudiesState) -> Result<Decision<StudiesState, ()>, Rejection> {
        let now = state.now_us();
        let Some(study) = state.table().get(self.study) else { return Ok(Decision::Nothing(())) };
        let trial = study.trials.get(self.trial).filter(|trial| trial.is_running());
        let due = trial.filter(|trial| study.definition.silent_at(trial).is_some_and(|at| at <= now));
        Ok(done(due.map(|trial| {
            let reason = "nothing was heard of it for the `silence` of its study";
            let progress = TrialEnding::Failed(reason.to_owned()).progress(study, trial);
            ended(study, self.trial, progress, now)
        })))
    }
}

/// The next trials of a deleted study go, the last ones first.
pub struct CutDeleted(pub u64);

impl Request<StudiesState> for CutDeleted {
    type Reply = ();

    fn decide(self, state: &StudiesState) -> Result<Decision<StudiesState, ()>, Rejection> {
        let number = self.0;
        let study = state.table().get(number).filter(|study| study.progress.is_deleted);
        Ok(done(study.map(|study| {
            let from = study.trials.next().saturating_sub(PIECE);
            let cut = Edit::Cut { study: number, from };
            Change(if from == 0 { vec![cut, Edit::Gone(number)] } else { vec![cut] })
        })))
    }
}
