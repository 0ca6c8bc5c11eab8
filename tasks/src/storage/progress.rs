//! Translates between rows of the store and progress.

use std::sync::Arc;

use estimand_store::{TaskCursorRow, TaskProgressGroup, TaskProgressRow};

use super::FeedExtent;
use super::rows::{column, known, text, value};
use crate::change::{Change, outcomes};
use crate::core::queue::TaskNumber;
use crate::progress::{Report, removal};

/// The cursors that have the extent of the feed of progress.
const NEWEST: &str = "progress";
const BASE: &str = "progress-base";

/// The rows of reports. Those of tasks that are deleted with the same changes are not stored.
pub fn group(changes: &[Change], reports: &[Report], removed_to: Option<u64>) -> TaskProgressGroup {
    if reports.is_empty() {
        return TaskProgressGroup::default();
    }
    let outcomes = outcomes(changes);
    let is_kept = |task: &TaskNumber| outcomes.get(task).is_some_and(Option::is_some);
    let edits = changes.iter().flat_map(|change| &change.edits);
    let shortened = edits.filter_map(|edit| Some((column(edit.after.number.0), column(removal(edit)?))));
    TaskProgressGroup {
        rows: reports.iter().filter(|report| is_kept(&report.task)).map(row).collect(),
        removed_to: removed_to.map(column),
        shortened: shortened.collect(),
    }
}

fn row(report: &Report) -> TaskProgressRow {
    TaskProgressRow {
        revision: column(report.revision),
        task: column(report.task.0),
        place: column(report.place),
        report: text(&*report.progress),
    }
}

/// The cursors that say how far the feed reaches after reports.
pub fn cursors(reports: &[Report], removed_to: Option<u64>) -> Vec<TaskCursorRow> {
    let cursor = |(name, revision): (&str, Option<u64>)| {
        Some(TaskCursorRow { name: name.to_owned(), revision: column(revision?) })
    };
    let newest = reports.last().map(|report| report.revision);
    [(BASE, removed_to), (NEWEST, newest)].into_iter().filter_map(cursor).collect()
}

/// The base and the newest revision of the feed of progress.
pub fn extent(feed: &FeedExtent) -> (u64, u64) {
    let at = |name: &str| feed.cursors.get(name).copied().unwrap_or(0);
    (at(BASE), at(NEWEST))
}

/// The report in a row; none if it cannot be read, which is logged.
pub fn report(row: &TaskProgressRow) -> Option<Report> {
    let revision = row.revision;
    let wrong = |cause: &String| tracing::error!(revision, cause, "stored progress cannot be read");
    let progress = value(&row.report).inspect_err(wrong).ok()?;
    Some(Report {
        revision: known(row.revision),
        task: TaskNumber(known(row.task)),
        place: known(row.place),
        progress: Arc::new(progress),
    })
}
