//! A study, the states through which it goes, and the rules by which it ends.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use estimand_api::study::TrialCounts;
use estimand_tuning::{Report, Study as Proposer, TrialNumber};
use serde::{Deserialize, Serialize};

use crate::document::{Document, is_blind};
use crate::trial::{REPORT_BYTES, Trial, TrialProgress, TrialState, Trials};

/// The most trials of a study.
pub const MAX_TRIALS: u64 = 100_000;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum StudyState {
    #[default]
    Running,
    Paused,
    Over,
}

impl StudyState {
    pub const ALL: [StudyState; 3] = [StudyState::Running, StudyState::Paused, StudyState::Over];

    pub fn as_str(self) -> &'static str {
        match self {
            StudyState::Running => "RUNNING",
            StudyState::Paused => "PAUSED",
            StudyState::Over => "OVER",
        }
    }
}

/// The reason for which a study is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum EndReason {
    Trials,
    Target,
    Plateau,
    Time,
    Space,
    Stopped,
}

impl EndReason {
    pub fn as_str(self) -> &'static str {
        match self {
            EndReason::Trials => "trials",
            EndReason::Target => "target",
            EndReason::Plateau => "plateau",
            EndReason::Time => "time",
            EndReason::Space => "space",
            EndReason::Stopped => "stopped",
        }
    }
}

/// The progress of a study.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StudyProgress {
    pub state: StudyState,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<EndReason>,
    /// Its sampler has no more points.
    #[serde(default)]
    pub is_exhausted: bool,
    /// True for a study that is to be seen no more, and whose trials go.
    #[serde(default)]
    pub is_deleted: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<i64>,
}

impl StudyProgress {
    pub fn over(self, reason: EndReason, at: i64) -> StudyProgress {
        StudyProgress { state: StudyState::Over, reason: Some(reason), ended_at: Some(at), ..self }
    }
}

/// The parts of a study that never change.
#[derive(Debug, PartialEq)]
pub struct Definition {
    pub number: u64,
    pub document: Document,
    pub proposer: Proposer,
    pub made_at: i64,
    pub made_by: String,
}

impl Definition {
    pub fn user(&self) -> Option<&str> {
        self.document.user.as_deref()
    }

    /// Its proposals look at no results.
    pub fn is_blind(&self) -> bool {
        is_blind(self.proposer.sampler)
    }

    /// When its time is over, if it has one.
    pub fn ends_at(&self) -> Option<i64> {
        self.document.stop.time.map(|time| self.made_at.saturating_add(micros(time)))
    }

    /// When a running trial of which nothing more is heard fails.
    pub fn silent_at(&self, trial: &Trial) -> Option<i64> {
        self.document.silence.map(|silence| trial.heard_at.saturating_add(micros(silence)))
    }

    /// The number of results that a proposal is made with, if so many are known.
    pub fn seen(&self, number: TrialNumber, results: u64) -> u64 {
        if self.is_blind() || number < self.proposer.enqueued.len() as u64 { 0 } else { results }
    }
}

fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}

/// The best result, and its place among all.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Best {
    pub number: TrialNumber,
    pub value: f64,
    pub place: u64,
}

/// A study with its trials.
#[derive(Debug, Clone)]
pub struct Study {
    pub definition: Arc<Definition>,
    pub progress: StudyProgress,
    pub trials: Trials,
    pub running: BTreeSet<TrialNumber>,
    pub counts: TrialCounts,
    pub best: Option<Best>,
    /// The first trial of each question that had a key, and how many it was given.
    keys: HashMap<String, (TrialNumber, u64)>,
    pub bytes: u64,
}

impl Study {
    pub fn new(definition: Arc<Definition>, progress: StudyProgress) -> Study {
        Study {
            progress,
            trials: Trials::default(),
            running: BTreeSet::new(),
            counts: TrialCounts::default(),
            best: None,
            keys: HashMap::new(),
            bytes: definition.document.bytes,
            definition,
        }
    }

    /// The number of results that are stored.
    pub fn results(&self) -> u64 {
        self.counts.all() - self.counts.running
    }

    /// The number of trials that it may still propose, ever.
    fn left(&self) -> u64 {
        let most = self.definition.document.stop.trials.unwrap_or(MAX_TRIALS).min(MAX_TRIALS);
        if self.progress.is_exhausted { 0 } else { most.saturating_sub(self.trials.next()) }
    }

    /// The number of trials that it may propose now.
    pub fn room(&self) -> u64 {
        if self.progress.state == StudyState::Running && !self.progress.is_deleted { self.left() } else { 0 }
    }

    /// True if it never proposes again.
    pub fn is_done(&self) -> bool {
        self.progress.state == StudyState::Over || self.left() == 0
    }

    /// The token of the last trial; 0: there is none, or it was loaded.
    pub fn last_token(&self) -> u64 {
        self.trials.last().map_or(0, |trial| trial.token)
    }

    pub fn has_key(&self, key: &str) -> bool {
        self.keys.contains_key(key)
    }

    pub fn of_key(&self, key: &str) -> Option<Vec<Arc<Trial>>> {
        let (first, count) = *self.keys.get(key)?;
        Some((first..first + count).filter_map(|number| self.trials.get(number).cloned()).collect())
    }

    /// The reason for which it is over once a running trial has ended so.
    pub fn end_reason(&self, number: TrialNumber, end: &TrialProgress) -> Option<EndReason> {
        let direction = self.definition.document.direction;
        let stop = &self.definition.document.stop;
        let best = self.best_with(number, end);
        if let (Some(best), Some(target)) = (best, stop.target)
            && direction.loss(best.value) <= direction.loss(target)
        {
            return Some(EndReason::Target);
        }
        if let (Some(best), Some(plateau)) = (best, stop.plateau)
            && self.results() - best.place.min(self.results()) >= plateau
        {
            return Some(EndReason::Plateau);
        }
        if self.counts.running > 1 {
            return None;
        }
        if self.progress.is_exhausted {
            return Some(EndReason::Space);
        }
        (self.left() == 0).then_some(EndReason::Trials)
    }

    /// The best result, with one more.
    fn best_with(&self, number: TrialNumber, end: &TrialProgress) -> Option<Best> {
        let new = match (end.state, end.value, end.place) {
            (TrialState::Complete, Some(value), Some(place)) => Best { number, value, place },
            _ => return self.best,
        };
        let direction = self.definition.document.direction;
        // Equal ones by place, so that the order of loading makes no difference.
        let is_better = |old: &Best| {
            let loss = direction.loss(new.value);
            let best = direction.loss(old.value);
            loss < best || (loss == best && new.place < old.place)
        };
        Some(self.best.filter(|old| !is_better(old)).unwrap_or(new))
    }

    pub fn add(&mut self, trial: Arc<Trial>) {
        self.bytes += trial.bytes();
        if let Some(key) = &trial.key {
            self.keys.entry(key.clone()).or_insert((trial.number, 0)).1 += 1;
        }
        if trial.is_running() {
            self.running.insert(trial.number);
            self.counts.running += 1;
        } else {
            self.count_result(&trial.progress, trial.number);
        }
        self.trials.push(trial);
    }

    pub fn report(&mut self, number: TrialNumber, report: Report, at: i64) {
        self.trials.change(number, |trial| trial.report(report, at));
        self.bytes += REPORT_BYTES;
    }

    /// Its pruner says that a trial should stop.
    pub fn stop(&mut self, number: TrialNumber) {
        self.trials.change(number, |trial| trial.progress.stop = true);
    }

    pub fn end(&mut self, number: TrialNumber, progress: &TrialProgress, at: i64) {
        self.trials.change(number, |trial| {
            trial.progress = progress.clone();
            trial.ended_at = Some(at);
        });
        if self.running.remove(&number) {
            self.counts.running -= 1;
        }
        self.count_result(progress, number);
    }

    fn count_result(&mut self, progress: &TrialProgress, number: TrialNumber) {
        self.best = self.best_with(number, progress);
        match progress.state {
            TrialState::Running => {}
            TrialState::Complete => self.counts.complete += 1,
            TrialState::Pruned => self.counts.pruned += 1,
            TrialState::Failed => self.counts.failed += 1,
        }
    }

    /// Trials from a number on are no more; it is deleted, so nothing else is counted.
    pub fn cut(&mut self, number: TrialNumber) {
        let freed: u64 = self.trials.since(number).map(|trial| trial.bytes()).sum();
        self.bytes -= freed.min(self.bytes);
        self.trials.truncate(number);
        self.running.split_off(&number);
        self.counts = TrialCounts::default();
    }
}
