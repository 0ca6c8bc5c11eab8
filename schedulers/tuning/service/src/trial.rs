//! A trial, and all trials of a study.

use std::sync::Arc;

use estimand_tuning::space::Parameters;
use estimand_tuning::{Curve, Measure, Outcome, Report, TrialNumber};
use serde::{Deserialize, Serialize};

/// The bytes of a trial beside those of its texts, and those of a report, about as they are in memory and in the store.
const FIXED_BYTES: u64 = 256;
pub const REPORT_BYTES: u64 = 64;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum TrialState {
    #[default]
    Running,
    Complete,
    Pruned,
    Failed,
}

impl TrialState {
    pub const ALL: [TrialState; 4] =
        [TrialState::Running, TrialState::Complete, TrialState::Pruned, TrialState::Failed];

    pub fn as_str(self) -> &'static str {
        match self {
            TrialState::Running => "RUNNING",
            TrialState::Complete => "COMPLETE",
            TrialState::Pruned => "PRUNED",
            TrialState::Failed => "FAILED",
        }
    }
}

/// The progress of a trial.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TrialProgress {
    pub state: TrialState,
    /// The place of its result among those of its study.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// The reason for which it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The pruner has said that it should stop.
    #[serde(default)]
    pub stop: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Trial {
    pub number: TrialNumber,
    pub parameters: Arc<Parameters>,
    /// The number of results that its proposal was made with.
    pub seen: u64,
    /// The proposal that it was; 0: it was loaded.
    pub token: u64,
    /// The key of the question that it answered.
    pub key: Option<String>,
    /// Microseconds since 1970; so all instants.
    pub asked_at: i64,
    /// The instant of the last report, or of the question.
    pub heard_at: i64,
    pub ended_at: Option<i64>,
    pub progress: TrialProgress,
    pub curve: Curve,
}

impl Trial {
    pub fn is_running(&self) -> bool {
        self.progress.state == TrialState::Running
    }

    /// Its result; none while it runs.
    pub fn outcome(&self) -> Option<Outcome> {
        let measure = self.progress.value.and_then(|value| Measure::new(value).ok());
        match self.progress.state {
            TrialState::Running => None,
            TrialState::Complete => measure.map(Outcome::Complete),
            TrialState::Pruned => Some(Outcome::Pruned(measure)),
            TrialState::Failed => Some(Outcome::Failed),
        }
    }

    pub fn bytes(&self) -> u64 {
        let names = self.parameters.keys().map(|name| name.len() as u64 + 24).sum::<u64>();
        let key = self.key.as_ref().map_or(0, |key| key.len() as u64);
        FIXED_BYTES + names + key + self.curve.reports().len() as u64 * REPORT_BYTES
    }

    pub fn report(&mut self, report: Report, at: i64) {
        // A report was checked when it was decided.
        if let Err(error) = self.curve.add(report) {
            tracing::error!(trial = self.number, %error, "a report that is stored does not fit");
        }
        self.heard_at = self.heard_at.max(at);
    }
}

/// Trials of which so many are copied at once.
const PIECE: usize = 128;

/// Trials by ascending number, without gaps. A clone shares them, so that readers look at them without holding a lock.
#[derive(Debug, Clone, Default)]
pub struct Trials {
    pieces: Vec<Arc<Vec<Arc<Trial>>>>,
    len: usize,
}

impl Trials {
    /// The number that the next one has.
    pub fn next(&self) -> TrialNumber {
        self.len as u64
    }

    pub fn get(&self, number: TrialNumber) -> Option<&Arc<Trial>> {
        let place = usize::try_from(number).ok()?;
        self.pieces.get(place / PIECE)?.get(place % PIECE)
    }

    pub fn last(&self) -> Option<&Arc<Trial>> {
        self.pieces.last()?.last()
    }

    pub fn push(&mut self, trial: Arc<Trial>) {
        if self.len.is_multiple_of(PIECE) {
            self.pieces.push(Arc::new(Vec::with_capacity(PIECE)));
        }
        if let Some(piece) = self.pieces.last_mut() {
            Arc::make_mut(piece).push(trial);
            self.len += 1;
        }
    }

    /// Changes one, if it is there. Clones that were made before keep it as it was.
    pub fn change<R>(&mut self, number: TrialNumber, change: impl FnOnce(&mut Trial) -> R) -> Option<R> {
        let place = usize::try_from(number).ok()?;
        let piece = Arc::make_mut(self.pieces.get_mut(place / PIECE)?);
        Some(change(Arc::make_mut(piece.get_mut(place % PIECE)?)))
    }

    /// Trials from a number on.
    pub fn since(&self, number: TrialNumber) -> impl Iterator<Item = &Arc<Trial>> {
        let place = usize::try_from(number).unwrap_or(usize::MAX).min(self.len);
        let pieces = self.pieces.iter().skip(place / PIECE).flat_map(|piece| piece.iter());
        pieces.skip(place % PIECE)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Arc<Trial>> {
        self.since(0)
    }

    /// Trials from a number on are no more.
    pub fn truncate(&mut self, number: TrialNumber) {
        let len = usize::try_from(number).unwrap_or(usize::MAX).min(self.len);
        self.pieces.truncate(len.div_ceil(PIECE));
        if let Some(last) = self.pieces.last_mut().filter(|_| !len.is_multiple_of(PIECE)) {
            Arc::make_mut(last).truncate(len % PIECE);
        }
        self.len = len;
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn trial(number: u64) -> Arc<Trial> {
        Arc::new(Trial {
            number,
            parameters: Arc::default(),
            seen: 0,
            token: 0,
            key: None,
            asked_at: 0,
            heard_at: 0,
            ended_at: None,
            progress: TrialProgress::default(),
            curve: Curve::default(),
        })
    }

    #[test]
    fn clones_stay_as_they_were() {
        let mut trials = Trials::default();
        (0..300).for_each(|number| trials.push(trial(number)));
        let before = trials.clone();
        trials.change(130, |trial| trial.seen = 7).unwrap();
        trials.push(trial(300));
        assert_eq!((before.get(130).unwrap().seen, before.next(), before.get(300)), (0, 300, None));
        assert_eq!((trials.get(130).unwrap().seen, trials.last().unwrap().number), (7, 300));
        assert_eq!(
            trials.since(255).map(|trial| trial.number).collect::<Vec<_>>(),
            (255..301).collect::<Vec<_>>()
        );
        assert_eq!(trials.since(400).count(), 0);
        assert!(trials.change(301, |_| ()).is_none());
    }

    #[test]
    fn the_end_is_cut_off() {
        for len in [0, 1, 127, 128, 129, 256, 299] {
            let mut trials = Trials::default();
            (0..300).for_each(|number| trials.push(trial(number)));
            trials.truncate(len);
            assert_eq!((trials.next(), trials.iter().count() as u64), (len, len));
            trials.push(trial(len));
            assert_eq!(trials.get(len).unwrap().number, len);
        }
    }
}
