//! Progress: how far tasks say they are, in lines of their standard output. A line of progress is a line of the log, too.
//!
//! The last report of a task stands in the task. All are in one order over all tasks, a feed like that of events; bounded for each
//! task, for all, and for each change, so that a task that writes as fast as it can costs no more than its log.

use std::sync::Arc;

use estimand_api::task_log::{TaskLogLine, TaskStream};
use estimand_api::task_progress::{MAX_PROGRESS_BYTES, PROGRESS_PREFIX, ProgressLine, TaskProgress};
use estimand_service::rows::instant;

use crate::change::Change;
use crate::core::queue::TaskNumber;
use crate::feed::Revised;
use crate::task::{Edit, ProgressEnd};

/// The most reports of one task in one change. Of more, every other one is left out, and the last never.
const MAX_A_CHANGE: usize = 64;
/// The most reports that are kept of one task; so many of the oldest are removed at once.
const KEPT: u64 = 10_000;
const STEP: u64 = 1_000;

/// A report as it is stored.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    pub revision: u64,
    pub task: TaskNumber,
    /// Its place among the reports of its task.
    pub place: u64,
    pub progress: Arc<TaskProgress>,
}

impl Revised for Report {
    fn revision(&self) -> u64 {
        self.revision
    }
}

/// Hears a new line of a task's log.
pub fn hear(edit: &mut Edit, number: u64, line: &TaskLogLine) {
    let end = &mut edit.after.log.progress;
    end.missing = end.missing.saturating_add(line.dropped);
    if line.stream != TaskStream::Stdout {
        return;
    }
    let is_rest = std::mem::replace(&mut end.continues, line.partial) && line.dropped == 0;
    if is_rest {
        return;
    }
    match read(line) {
        Some(Ok(said)) => report(edit, said, line.at),
        Some(Err(why)) if end.problem.is_none() => {
            end.problem = Some(format!("line {number} {why}; it is no progress"));
        }
        Some(Err(_)) | None => {}
    }
}

fn read(line: &TaskLogLine) -> Option<Result<ProgressLine, String>> {
    match line.partial && line.text.starts_with(PROGRESS_PREFIX) {
        true => Some(Err(format!("is longer than {MAX_PROGRESS_BYTES} bytes"))),
        false => ProgressLine::parse(&line.text),
    }
}

fn report(edit: &mut Edit, said: ProgressLine, at: i64) {
    let attempt = edit.after.progress.attempt;
    let end = &mut edit.after.log.progress;
    let ProgressLine { step, of, values } = said;
    let missing = std::mem::take(&mut end.missing);
    edit.reports.push(Arc::new(TaskProgress { attempt, at: instant(at), step, of, values, missing }));
    end.reports += 1;
    if edit.reports.len() > MAX_A_CHANGE {
        thin(&mut edit.reports, end);
    }
    end.last = edit.reports.last().cloned();
}

/// Leaves out every other report, but not the last.
fn thin(reports: &mut Vec<Arc<TaskProgress>>, end: &mut ProgressEnd) {
    let mut left_out = 0;
    let last = reports.len() - 1;
    let mut kept = Vec::with_capacity(reports.len());
    for (place, mut report) in reports.drain(..).enumerate() {
        if (last - place) % 2 == 1 {
            left_out += report.missing + 1;
            end.reports -= 1;
            continue;
        }
        Arc::make_mut(&mut report).missing += std::mem::take(&mut left_out);
        kept.push(report);
    }
    *reports = kept;
}

/// The reports of changes, of which the first follows a revision.
pub fn reports_of(changes: &[Change], revision: u64) -> Vec<Report> {
    let edits = changes.iter().flat_map(|change| &change.edits);
    let of_edit = edits.flat_map(|edit| {
        let first = edit.after.log.progress.reports - edit.reports.len() as u64;
        (first..).zip(&edit.reports).map(|(place, progress)| (edit.after.number, place, progress))
    });
    let numbered = (revision + 1..).zip(of_edit);
    let report = |(revision, (task, place, progress)): (u64, (TaskNumber, u64, &Arc<TaskProgress>))| Report {
        revision,
        task,
        place,
        progress: Arc::clone(progress),
    };
    numbered.map(report).collect()
}

/// The place before which a task's reports are removed with an edit; none if that is not worth a statement.
pub fn removal(edit: &Edit) -> Option<u64> {
    let cut = |reports: u64| (reports + STEP).saturating_sub(KEPT) / STEP * STEP;
    let reports = edit.after.log.progress.reports;
    let to = cut(reports);
    (to > cut(reports - edit.reports.len() as u64)).then_some(to)
}

#[cfg(test)]
#[path = "progress_tests.rs"]
mod tests;
