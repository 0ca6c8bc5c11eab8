//! The reports of trials that run as tasks: one reader of progress for all studies.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Duration;

use estimand_api::task_progress::{TaskProgress, TaskProgressReport};
use estimand_client::{Client, PeerError, TaskEventQuery, within};
use estimand_tuning::{Measure, Report};

use crate::document::STUDY_LABEL;

/// The task service may take so long for an answer.
pub const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// The most tasks, or reports, on a page.
pub const PAGE: u32 = 1_000;

/// Reports of tasks that are not stored as their trials' yet, by the id of their task.
#[derive(Default)]
pub struct TrialReports {
    /// The last revision that was read. Lost with the process, all that is kept is read again.
    after: Option<u64>,
    pub by_task: HashMap<String, VecDeque<TaskProgressReport>>,
}

impl TrialReports {
    /// Reads what tasks have said since; the ids of those that said something.
    pub async fn read(&mut self, client: &Client) -> Result<HashSet<String>, PeerError> {
        let mut new = HashSet::new();
        loop {
            let query = TaskEventQuery {
                after: self.after,
                labels: STUDY_LABEL.to_owned(),
                ..TaskEventQuery::default()
            };
            let page = match within(ANSWER_WITHIN, client.task_progress(&query, PAGE, Duration::ZERO)).await {
                // Some is not kept any more: what is left is all there is.
                Err(PeerError::Client(error)) if error.status() == Some(410) && self.after.is_some() => {
                    self.after = None;
                    continue;
                }
                page => page?,
            };
            for report in page.reports {
                new.insert(report.id.clone());
                self.by_task.entry(report.id.clone()).or_default().push_back(report);
            }
            self.after = Some(page.next);
            if page.next >= page.revision {
                return Ok(new);
            }
        }
    }
}

/// A report of the objective; none: the progress has no step, or says nothing of it.
pub fn report_of(progress: &TaskProgress, objective: &str) -> Option<Report> {
    Some(Report { step: progress.step.as_ref()?.as_u64()?, measure: measure_of(progress, objective)? })
}

pub fn measure_of(progress: &TaskProgress, objective: &str) -> Option<Measure> {
    Measure::new(progress.values.get(objective)?.as_f64()?).ok()
}
