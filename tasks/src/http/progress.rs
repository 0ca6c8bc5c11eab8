//! The progress of tasks, in pages.

use std::sync::Arc;

use actix_web::web::ThinData;
use actix_web::{HttpRequest, HttpResponse};
use estimand_api::problem::Problem;
use estimand_api::selector::Selector;
use estimand_api::task_progress::{TaskProgressPage, TaskProgressReport};
use estimand_web::{Failure, Principal, Query};

use super::events::gone;
use super::pages::{Page, PageQuery, REVISION};
use super::selection::Selection;
use crate::TaskService;
use crate::feed::Since;
use crate::progress::Report;
use crate::scope::Scope;
use crate::storage::{progress as progress_rows, rows};

/// The progress of all tasks, the oldest report first, in pages.
///
/// A task says how far it is in a line of its standard output: `estimand-progress {"step": 3, "of": 90, "values": {"loss": 0.2}}`.
/// Each report has a `revision`, more than the report before, and `next` goes on exactly where a page ends. The newest reports are kept: up
/// to 10,000 of each task and 200,000 in all. Those of a deleted task are gone with it. A task that reports very often loses some of its
/// reports, never the last one; `missing` says so.
#[utoipa::path(
    get,
    path = "/api/tasks/progress",
    tag = "tasks",
    params(
        ("after" = Option<u64>, Query, description = "Only reports after this revision; if absent, all that are kept"),
        ("labels" = Option<Selector>, Query, description = "Only those of tasks with these labels"),
        ("user" = Option<String>, Query, description = "Only those of this user's tasks"),
        ("id" = Option<String>, Query, description = "Only those of this task, or with `*` at its end of those whose ids begin so"),
        ("limit" = Option<u64>, Query, description = "At most so many; 200 if absent, and never more than 1,000"),
        ("waitMs" = Option<u64>, Query, description = "How many milliseconds to wait for a report, if there is none yet; 0 if absent, and never longer than 60,000"),
    ),
    responses(
        (status = 200, description = "A page of reports", body = TaskProgressPage),
        (status = 400, description = "The query is not valid", body = Problem),
        (status = 410, description = "Reports after that revision are not kept any more, or there never was such a revision", body = Problem),
        (status = 503, description = "Not loaded yet, or the database does not answer", body = Problem),
    )
)]
pub async fn progress(
    req: HttpRequest,
    caller: Principal,
    service: ThinData<TaskService>,
) -> Result<HttpResponse, Failure> {
    let query = Query::with_lists(
        req.query_string(),
        &["after", "labels", "user", "id", "limit", "waitMs"],
        &["labels"],
    )?;
    let labels = query.get("labels");
    let selection = Selection::parse(Scope::of(&caller), None, labels, query.get("user"), query.get("id"))?;
    let asked = PageQuery::parse(&query)?;
    let read = async |after, most| service.reports(selection.reader(), after, most).await;
    let chosen = |report: &Report| service.shown(&selection, report);
    let page = service.page(&service.shared().progress, &asked, selection.task_id(), read, chosen).await?;
    let Page { entries, next, revision } = page;
    let page = TaskProgressPage { reports: entries, next, revision };
    Ok(HttpResponse::Ok().insert_header((REVISION.clone(), revision)).json(page))
}

impl TaskService {
    /// Up to `most` reports after a revision, read for a user if there is one, and the revision up to which they reach.
    async fn reports(
        &self,
        user: Option<&str>,
        after: u64,
        most: usize,
    ) -> Result<(Vec<Arc<Report>>, u64), Problem> {
        let feed = &self.shared().progress;
        let newest = feed.newest();
        match feed.since(after, most) {
            Since::Events(reports) => {
                let next = reports.last().map_or(after, |report| report.revision);
                Ok((reports, next))
            }
            Since::Gone { base, newest } => Err(gone("reports", after, base, newest)),
            Since::Stored => {
                let (after_column, limit) = (rows::column(after), rows::column(most as u64));
                let read = self.read(user, move |connection| {
                    let read = connection.task_progress(after_column, limit)?;
                    let last = read.last().map(|row| rows::known(row.revision));
                    let reports: Vec<Report> = read.iter().filter_map(progress_rows::report).collect();
                    Ok((last.filter(|_| read.len() == most), reports))
                });
                let (more_after, reports) = read.await?;
                // Reports may have gone while they were read.
                if feed.base() > after {
                    return Err(gone("reports", after, feed.base(), feed.newest()));
                }
                let last = reports.last().map_or(after, |report| report.revision);
                // Removed reports leave gaps, also at the end.
                let next = more_after.unwrap_or(last.max(newest));
                Ok((reports.into_iter().map(Arc::new).collect(), next))
            }
        }
    }

    /// A report as a reader sees it; none if its task was deleted or is not asked for.
    fn shown(&self, selection: &Selection, report: &Report) -> Option<TaskProgressReport> {
        let task = self.shared().table.look(|table| table.get(report.task).cloned())?;
        let (user, labels) = (task.user(), &task.document.labels);
        selection.has_task(&task.id, user, labels).then(|| TaskProgressReport {
            revision: report.revision,
            id: task.id.clone(),
            number: task.number.0,
            progress: (*report.progress).clone(),
        })
    }
}
