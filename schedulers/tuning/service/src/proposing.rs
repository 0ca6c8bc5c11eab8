//! The proposals of a study: which are missing on its shelf, and how they are made. Nothing here holds a lock.

use std::sync::Arc;

use estimand_tuning::pruners::Verdict;
use estimand_tuning::{Curve, History, TrialNumber, TrialResult};

use crate::shelves::{Chain, Proposal, new_token, usable};
use crate::study::{Definition, Study};
use crate::trial::{Trial, Trials};

/// Proposals that are made ahead: of a sampler that looks at results one, because each result makes it worth less.
const AHEAD: u64 = 1;
const BLIND_AHEAD: u64 = 32;
/// Blind proposals that are made at once.
const BATCH: u64 = 256;

/// Proposals that are to be made.
pub struct Plan {
    definition: Arc<Definition>,
    trials: Trials,
    results: u64,
    /// Proposals of the shelf that stay.
    kept: Vec<Arc<Proposal>>,
    count: u64,
}

impl Plan {
    /// The proposals that a study lacks; none: there are enough, or it proposes nothing.
    pub fn new(study: &Study, chain: &Chain, wanted: u64) -> Option<Plan> {
        let definition = &study.definition;
        let results = study.results();
        let is_current =
            |proposal: &&Arc<Proposal>| proposal.seen == definition.seen(proposal.number, results);
        let usable = usable(chain, study.trials.next(), study.last_token());
        let kept: Vec<Arc<Proposal>> = usable.iter().take_while(is_current).cloned().collect();
        let ahead = if definition.is_blind() { BLIND_AHEAD } else { AHEAD };
        let missing = (wanted + ahead).min(study.room()).saturating_sub(kept.len() as u64);
        let is_exhausted = kept.last().is_some_and(|last| last.parameters.is_none());
        if missing == 0 || is_exhausted {
            return None;
        }
        let count = if definition.is_blind() { missing.min(BATCH) } else { 1 };
        Some(Plan { definition: Arc::clone(definition), trials: study.trials.clone(), results, kept, count })
    }

    /// The chain with the proposals that were missing. May take seconds.
    pub fn make(self) -> Chain {
        let Plan { definition, trials, results, kept: mut chain, count } = self;
        let pending = chain.iter().filter_map(|one| Some((one.number, one.parameters.clone()?)));
        let mut history = History::default();
        if !definition.is_blind() {
            history = self::history(&trials, results);
            history.pending.extend(pending.map(|(number, parameters)| (number, (*parameters).clone())));
        }
        for _ in 0..count {
            let (number, after) = match chain.last() {
                Some(last) => (last.number + 1, last.token),
                None => (trials.next(), trials.last().map_or(0, |last| last.token)),
            };
            let parameters = definition.proposer.propose(number, &history).map(Arc::new);
            if let Some(parameters) = parameters.as_ref().filter(|_| !definition.is_blind()) {
                history.pending.push((number, (**parameters).clone()));
            }
            let seen = definition.seen(number, results);
            let is_last = parameters.is_none();
            chain.push(Arc::new(Proposal { number, seen, token: new_token(), after, parameters }));
            if is_last {
                break;
            }
        }
        chain.into()
    }
}

/// The first `seen` results in the order in which they were stored, and the other trials as pending.
pub fn history(trials: &Trials, seen: u64) -> History {
    let mut results: Vec<(u64, &Trial)> = Vec::new();
    let mut history = History::default();
    for trial in trials.iter() {
        match trial.progress.place.filter(|place| *place < seen) {
            Some(place) => results.push((place, trial)),
            None => history.pending.push((trial.number, (*trial.parameters).clone())),
        }
    }
    results.sort_by_key(|(place, _)| *place);
    history.results = results.into_iter().filter_map(|(_, trial)| result(trial)).collect();
    history
}

fn result(trial: &Trial) -> Option<TrialResult> {
    let outcome = trial.outcome()?;
    Some(TrialResult { number: trial.number, parameters: (*trial.parameters).clone(), outcome })
}

/// True if the pruner of a study ends a trial after its last report.
pub fn is_pruned(definition: &Definition, trials: &Trials, number: TrialNumber) -> bool {
    let Some(pruner) = &definition.document.pruner else { return false };
    let (Some(rule), Some(own)) = (pruner.rule(number), trials.get(number)) else { return false };
    let is_other = |trial: &&Arc<Trial>| {
        trial.number != number && trial.curve.last().is_some() && pruner.compares(number, trial.number)
    };
    let others: Vec<&Curve> = if pruner.is_alone() {
        Vec::new()
    } else {
        trials.iter().filter(is_other).map(|trial| &trial.curve).collect()
    };
    rule.verdict(definition.document.direction, &own.curve, &others) == Verdict::Ends
}
