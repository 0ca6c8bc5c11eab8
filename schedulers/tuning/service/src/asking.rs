//! A question for trials: it waits for proposals, and has them stored as trials.

use std::sync::Arc;
use std::time::Duration;

use estimand_api::problem::Problem;
use estimand_service::Writer;
use estimand_web::Scope;
use tokio::time::{Instant, timeout_at};

use crate::change::Rejection;
use crate::requests::{Take, TakeOutcome};
use crate::shared::Shared;
use crate::shelves::{Chain, Proposal, usable};
use crate::study::{Definition, Study, StudyState};
use crate::trial::Trial;
use crate::writer::StudiesState;

/// A question waits so long if there is no proposal at all.
const LONGEST_WAIT: Duration = Duration::from_secs(20);

pub struct Question {
    pub id: String,
    pub scope: Scope,
    pub count: u64,
    /// The key by which the same question is known when it is asked again.
    pub key: Option<String>,
}

/// The trials of a question, whether there will never be more, and the state of the study.
pub type TrialAnswer = (Vec<Arc<Trial>>, bool, StudyState);

/// A study as a question finds it.
struct StudyView {
    definition: Arc<Definition>,
    /// True if the same question was answered before, or the study proposes nothing now: there is nothing to wait for.
    is_settled: bool,
    room: u64,
    next: u64,
    last_token: u64,
    results: u64,
}

impl StudyView {
    fn new(study: &Study, question: &Question) -> StudyView {
        let is_known = question.key.as_deref().is_some_and(|key| study.has_key(key));
        StudyView {
            definition: Arc::clone(&study.definition),
            is_settled: is_known || study.room() == 0,
            room: study.room(),
            next: study.trials.next(),
            last_token: study.last_token(),
            results: study.results(),
        }
    }

    /// The chain has enough proposals that know of all results; or, once patience is over, any.
    fn is_served(&self, chain: &Chain, count: u64, is_patient: bool) -> bool {
        let usable = usable(chain, self.next, self.last_token);
        if !is_patient || usable.last().is_some_and(|last| last.parameters.is_none()) {
            return !usable.is_empty();
        }
        let wanted = count.min(self.room);
        let knows_all = |one: &&Arc<Proposal>| one.seen == self.definition.seen(one.number, self.results);
        usable.iter().take_while(knows_all).count() as u64 >= wanted
    }
}

pub async fn ask(
    shared: &Shared,
    writer: &Writer<StudiesState>,
    question: Question,
) -> Result<TrialAnswer, Problem> {
    let begun = Instant::now();
    let look = || shared.find(&question.scope, &question.id, |study| StudyView::new(study, &question));
    let first = look()?;
    if first.is_settled
        && let Some(answer) = take(shared, writer, &question, Chain::from([])).await?
    {
        return Ok(answer);
    }
    let patience = first.definition.document.patience;
    let patient_until = begun + patience;
    let give_up = begun + patience.max(LONGEST_WAIT);
    let full = || Problem::unavailable("too many studies are asked at once; nothing was done", 1);
    let shelf = shared.shelves.open(first.definition.number).ok_or_else(full)?;
    let mut chains = shelf.chain.subscribe();
    let _wanted = shelf.want(question.count);
    loop {
        let chain = chains.borrow_and_update().clone();
        let standing = look()?;
        let is_patient = Instant::now() < patient_until;
        if standing.is_settled || standing.is_served(&chain, question.count, is_patient) {
            if let Some(asked) = take(shared, writer, &question, chain).await? {
                return Ok(asked);
            }
            // The trials that were given in between are published by now.
            continue;
        }
        let until = if is_patient { patient_until } else { give_up };
        if timeout_at(until, chains.changed()).await.is_err() && !is_patient {
            shared.figures.unanswered.increment();
            return Err(Problem::unavailable(
                "the next proposal is still being computed; nothing was done",
                1,
            ));
        }
    }
}

/// Has proposals stored as trials; none: others were faster.
async fn take(
    shared: &Shared,
    writer: &Writer<StudiesState>,
    question: &Question,
    chain: Chain,
) -> Result<Option<TrialAnswer>, Problem> {
    let Question { id, scope, count, key } = question;
    let take = Take { id: id.clone(), scope: scope.clone(), count: *count, key: key.clone(), chain };
    let trials = match writer.submit(take).await? {
        TakeOutcome::Trials(trials) => trials,
        TakeOutcome::Nothing => Vec::new(),
        TakeOutcome::Stale => return Ok(None),
    };
    let found = shared.find(scope, id, |study| (study.is_done(), study.progress.state));
    let unknown = || Problem::from(Rejection::Unknown(id.clone()));
    let (is_done, state) = found.map_err(|_| unknown())?;
    Ok(Some((trials, is_done, state)))
}
