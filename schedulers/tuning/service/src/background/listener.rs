//! Hears of the ends of tasks: the runner makes a round when a task of a trial has ended.

use std::sync::Arc;
use std::time::Duration;

use estimand_api::task_state::TaskState;
use estimand_client::{PeerError, TaskEventQuery, within};
use estimand_runtime::{Next, Work};
use tokio::time::{Instant, sleep};

use super::trial_reports::ANSWER_WITHIN;
use crate::document::STUDY_LABEL;
use crate::shared::Shared;
use crate::study::Study;

/// The longest wait for an end at a time.
const WAIT: Duration = Duration::from_secs(20);
/// The least and the longest pause after a round of the runner. A round lists the tasks of all trials, so the pause is as long as
/// the round was.
const PAUSES: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));

pub struct Listener {
    pub shared: Arc<Shared>,
    /// The revision up to which ends were heard; none: it is not known yet.
    pub heard_to: Option<u64>,
}

impl Work for Listener {
    type Error = PeerError;

    async fn round(&mut self) -> Result<Next, PeerError> {
        let Some(client) = self.shared.tasks.get() else { return Ok(Next::Period) };
        let has_task = |study: &Study| study.definition.document.task.is_some() && study.counts.running > 0;
        if !self.shared.table.look(|table| table.all().any(has_task)) {
            return Ok(Next::Period);
        }
        let ends = TaskState::ALL.into_iter().filter(|state| state.is_final()).map(TaskState::as_str);
        let query = TaskEventQuery {
            after: self.heard_to,
            states: ends.collect::<Vec<_>>().join(","),
            labels: STUDY_LABEL.to_owned(),
            ..TaskEventQuery::default()
        };
        // Without a revision the answer is there at once.
        match within(ANSWER_WITHIN, client.task_events(&query, 1, WAIT)).await {
            Ok(page) => self.heard_to = Some(page.revision),
            // Some of what follows is not kept any more.
            Err(PeerError::Client(error)) if error.status() == Some(410) && self.heard_to.is_some() => {
                self.heard_to = None;
            }
            Err(error) => return Err(error),
        }
        let asked = Instant::now();
        self.shared.running.tried(self.shared.running.ask()).await;
        sleep(asked.elapsed().clamp(PAUSES.0, PAUSES.1)).await;
        Ok(Next::At(Instant::now()))
    }
}
