//! A study is paused, resumed, stopped or deleted.

use estimand_api::study::StudyRecord;
use estimand_service::{Decision, Request};
use estimand_web::Scope;

use super::find;
use crate::change::{Change, Edit, Rejection};
use crate::study::{EndReason, Study, StudyProgress, StudyState};
use crate::views;
use crate::writer::StudiesState;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    Pause,
    Resume,
    Stop,
    Delete,
}

pub struct Steer {
    pub id: String,
    pub scope: Scope,
    pub step: Step,
}

impl Step {
    fn apply(self, study: &Study, at: i64) -> Result<StudyProgress, Rejection> {
        let progress = study.progress;
        let is_over = progress.state == StudyState::Over;
        match self {
            Step::Pause | Step::Resume if is_over => {
                Err(Rejection::Over(study.definition.document.id.clone()))
            }
            Step::Pause => Ok(StudyProgress { state: StudyState::Paused, ..progress }),
            Step::Resume => Ok(StudyProgress { state: StudyState::Running, ..progress }),
            Step::Stop if is_over => Ok(progress),
            Step::Stop => Ok(progress.over(EndReason::Stopped, at)),
            Step::Delete => Ok(StudyProgress { is_deleted: true, ..progress }),
        }
    }
}

impl Request<StudiesState> for Steer {
    /// The study afterwards.
    type Reply = Box<StudyRecord>;

    fn decide(self, state: &StudiesState) -> Result<Decision<StudiesState, Self::Reply>, Rejection> {
        let study = find(state.table(), &self.scope, &self.id)?;
        let progress = self.step.apply(study, state.now_us())?;
        let record = Box::new(views::study_at(study, progress));
        if progress == study.progress {
            return Ok(Decision::Nothing(record));
        }
        let change = Change(vec![Edit::Study { study: study.definition.number, progress }]);
        Ok(Decision::change(change, move |_: &StudiesState, _: &Change| record))
    }
}
