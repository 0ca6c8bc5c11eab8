//! Trials that are asked for: proposals that were made ahead become trials, or those that the same question was given before.

use std::sync::Arc;

use estimand_service::{Decision, Request};
use estimand_tuning::Curve;
use estimand_web::Scope;

use super::{check_bytes, find};
use crate::change::{Change, Edit, Rejection};
use crate::shelves::{Chain, Proposal, usable};
use crate::study::{EndReason, Study, StudyProgress};
use crate::trial::{Trial, TrialProgress};
use crate::writer::StudiesState;

pub struct Take {
    pub id: String,
    pub scope: Scope,
    pub count: u64,
    /// The key by which the same question is known when it is asked again.
    pub key: Option<String>,
    /// The proposals that were there when it was asked.
    pub chain: Chain,
}

pub enum TakeOutcome {
    Trials(Vec<Arc<Trial>>),
    /// The study proposes nothing now.
    Nothing,
    /// The proposals that were there are others' trials now, or were made before something happened.
    Stale,
}

impl Request<StudiesState> for Take {
    type Reply = TakeOutcome;

    fn decide(self, state: &StudiesState) -> Result<Decision<StudiesState, TakeOutcome>, Rejection> {
        let table = state.table();
        let study = find(table, &self.scope, &self.id)?;
        if let Some(trials) = self.key.as_deref().and_then(|key| study.of_key(key)) {
            return Ok(Decision::Nothing(TakeOutcome::Trials(trials)));
        }
        let count = self.count.min(study.room());
        if count == 0 {
            return Ok(Decision::Nothing(TakeOutcome::Nothing));
        }
        let ready = usable(&self.chain, study.trials.next(), study.last_token());
        let Some(first) = ready.first() else { return Ok(Decision::Nothing(TakeOutcome::Stale)) };
        if first.parameters.is_none() {
            return Ok(Decision::change(exhausted(study, state.now_us()), |_: &StudiesState, _: &Change| {
                TakeOutcome::Nothing
            }));
        }
        let now = state.now_us();
        let taken = ready.iter().take(usize::try_from(count).unwrap_or(usize::MAX));
        let trials: Vec<Arc<Trial>> =
            taken.map_while(|proposal| new_trial(proposal, self.key.as_ref(), now)).collect();
        let bytes = trials.iter().map(|trial| trial.bytes()).sum();
        check_bytes(table, &self.scope, study.definition.user(), bytes)?;
        let change = Change(vec![Edit::Asked { study: study.definition.number, trials: trials.clone() }]);
        Ok(Decision::change(change, move |_: &StudiesState, _: &Change| TakeOutcome::Trials(trials)))
    }
}

fn new_trial(proposal: &Arc<Proposal>, key: Option<&String>, now: i64) -> Option<Arc<Trial>> {
    let parameters = Arc::clone(proposal.parameters.as_ref()?);
    Some(Arc::new(Trial {
        number: proposal.number,
        parameters,
        seen: proposal.seen,
        token: proposal.token,
        key: key.cloned(),
        asked_at: now,
        heard_at: now,
        ended_at: None,
        progress: TrialProgress::default(),
        curve: Curve::default(),
    }))
}

/// The space has no more points: the study is over once no trial runs.
fn exhausted(study: &Study, at: i64) -> Change {
    let exhausted = StudyProgress { is_exhausted: true, ..study.progress };
    let is_over = study.counts.running == 0;
    let progress = if is_over { exhausted.over(EndReason::Space, at) } else { exhausted };
    Change(vec![Edit::Study { study: study.definition.number, progress }])
}
