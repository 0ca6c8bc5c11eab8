//! The figures of the tuning service on `/metrics`.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use estimand_api::study::TrialCounts;
use estimand_runtime::metrics::{Counter, Exposition, Kind};

use crate::change::Edit;
use crate::study::StudyState;
use crate::table::Table;
use crate::trial::TrialState;

#[derive(Debug, Default)]
pub struct Figures {
    asked: Counter,
    told: Counter,
    reports: Counter,
    stops: Counter,
    proposals: Counter,
    /// Microseconds that proposals took.
    proposing: AtomicU64,
    /// Questions for which no proposal was made in time.
    pub unanswered: Counter,
}

impl Figures {
    /// Counts an edit that is stored.
    pub fn count(&self, edit: &Edit) {
        match edit {
            Edit::Asked { trials, .. } => self.asked.add(trials.len() as u64),
            Edit::Ended { .. } => self.told.increment(),
            Edit::Reported { .. } => self.reports.increment(),
            Edit::Stop { .. } => self.stops.increment(),
            Edit::Made(_) | Edit::Study { .. } | Edit::Cut { .. } | Edit::Gone(_) => {}
        }
    }

    /// Counts a batch of proposals.
    pub fn proposed(&self, took: Duration) {
        self.proposals.increment();
        self.proposing.fetch_add(u64::try_from(took.as_micros()).unwrap_or(0), Ordering::Relaxed);
    }

    pub fn write(&self, out: &mut Exposition<'_>, table: &Table) {
        let mut studies: BTreeMap<StudyState, u64> =
            StudyState::ALL.into_iter().map(|state| (state, 0)).collect();
        let mut trials = TrialCounts::default();
        for study in table.all() {
            *studies.entry(study.progress.state).or_default() += 1;
            trials.running += study.counts.running;
            trials.complete += study.counts.complete;
            trials.pruned += study.counts.pruned;
            trials.failed += study.counts.failed;
        }
        let name = "estimand_studies";
        out.family(name, Kind::Gauge, "Studies that are kept, by state.");
        for (state, count) in studies {
            out.sample(name, &[("state", state.as_str())], count as f64);
        }
        let name = "estimand_study_trials";
        out.family(name, Kind::Gauge, "Trials that are kept, by state.");
        let counts = [trials.running, trials.complete, trials.pruned, trials.failed];
        for (state, count) in TrialState::ALL.into_iter().zip(counts) {
            out.sample(name, &[("state", state.as_str())], count as f64);
        }
        let counters = [
            ("estimand_study_trials_asked_total", "Trials that were given.", &self.asked),
            ("estimand_study_results_total", "Results that were stored.", &self.told),
            ("estimand_study_reports_total", "Reports of trials that were stored.", &self.reports),
            ("estimand_study_stops_total", "Trials that a pruner said should stop.", &self.stops),
            ("estimand_study_proposals_total", "Batches of proposals that were made.", &self.proposals),
            (
                "estimand_study_questions_unanswered_total",
                "Questions for which no proposal was made in time.",
                &self.unanswered,
            ),
        ];
        for (name, help, counter) in counters {
            out.single(name, Kind::Counter, help, counter.get() as f64);
        }
        let took = Duration::from_micros(self.proposing.load(Ordering::Relaxed)).as_secs_f64();
        let name = "estimand_study_proposing_seconds_total";
        out.single(name, Kind::Counter, "The time that proposals took.", took);
    }
}
