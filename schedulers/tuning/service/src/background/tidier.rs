//! Ends studies whose time is over and trials that are silent, and removes the trials of deleted studies in pieces.

use std::sync::Arc;
use std::time::Duration;

use estimand_runtime::{Next, Work};
use estimand_service::{SubmitError, Writer};
use estimand_tuning::TrialNumber;
use tokio::time::Instant;

use crate::change::Rejection;
use crate::requests::{CutDeleted, EndByTime, FailSilent};
use crate::shared::Shared;
use crate::study::{Study, StudyState};
use crate::table::Table;
use crate::writer::StudiesState;

pub struct Tidier {
    pub shared: Arc<Shared>,
    pub writer: Writer<StudiesState>,
}

/// Everything that is due, and the next instant at which something is.
#[derive(Default)]
struct DueEnds {
    over: Vec<u64>,
    silent: Vec<(u64, TrialNumber)>,
    deleted: Vec<u64>,
    next: Option<i64>,
}

impl DueEnds {
    fn new(table: &Table, now: i64) -> DueEnds {
        let mut due = DueEnds {
            deleted: table.deleted().map(|study| study.definition.number).collect(),
            ..DueEnds::default()
        };
        table.all().for_each(|study| due.look(study, now));
        due
    }

    fn look(&mut self, study: &Study, now: i64) {
        let definition = &study.definition;
        let number = study.definition.number;
        if study.progress.state != StudyState::Over
            && let Some(end) = definition.ends_at()
            && self.is_due(end, now)
        {
            self.over.push(number);
        }
        if definition.document.silence.is_none() {
            return;
        }
        for trial in study.running.iter().filter_map(|trial| study.trials.get(*trial)) {
            if definition.silent_at(trial).is_some_and(|at| self.is_due(at, now)) {
                self.silent.push((number, trial.number));
            }
        }
    }

    fn is_due(&mut self, at: i64, now: i64) -> bool {
        if at > now {
            self.next = Some(self.next.map_or(at, |next| next.min(at)));
        }
        at <= now
    }
}

impl Work for Tidier {
    type Error = SubmitError<Rejection>;

    async fn round(&mut self) -> Result<Next, Self::Error> {
        let now = self.shared.clock.now_micros();
        let due = self.shared.table.look(|table| DueEnds::new(table, now));
        for study in due.over {
            self.writer.submit(EndByTime(study)).await?;
        }
        for (study, trial) in due.silent {
            self.writer.submit(FailSilent { study, trial }).await?;
        }
        for study in due.deleted {
            // The cut asks for the next round.
            self.writer.submit(CutDeleted(study)).await?;
        }
        let wait = |next: i64| Duration::from_micros(u64::try_from(next - now).unwrap_or(0));
        Ok(due.next.map_or(Next::Period, |next| Next::At(Instant::now() + wait(next))))
    }
}
