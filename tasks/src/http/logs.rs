//! The log of a task: read from a line on, and followed.

use std::time::Duration;

use actix_web::web::ThinData;
use actix_web::{HttpRequest, HttpResponse};
use estimand_api::problem::Problem;
use estimand_api::task::TaskStream;
use estimand_api::task_record::{MAX_TASK_WAIT_MS, TaskLogPage};
use estimand_web::{Failure, Query, segment};
use tokio::time::{Instant, timeout_at};

use super::parameters::{parsed, whole};
use crate::TaskService;

/// The most lines of an answer, each of at most 64 KiB, and how many there are if nothing is said.
const MAX_LINES: u64 = 500;
const LINES: u64 = 200;

/// Lines of a task's log from a number on. The answer's `next` goes on exactly where it ends.
#[utoipa::path(
    get,
    path = "/api/tasks/{id}/logs",
    tag = "tasks",
    params(
        ("id" = String, Path),
        ("from" = Option<u64>, Query, description = "The number of the first line; 0 if absent"),
        ("stream" = Option<TaskStream>, Query, description = "Only this stream"),
        ("limit" = Option<u64>, Query, description = "At most so many lines; 200 if absent, and never more than 500"),
        ("waitMs" = Option<u64>, Query, description = "How many milliseconds to wait for a line, if there is none yet and the task is not over; 0 if absent, and never longer than 60,000"),
    ),
    responses(
        (status = 200, description = "The lines; none if nothing came in time", body = TaskLogPage),
        (status = 400, description = "The query is not valid", body = Problem),
        (status = 404, description = "There is no such task", body = Problem),
        (status = 503, description = "Not loaded yet, or the database does not answer", body = Problem),
    )
)]
pub async fn logs(req: HttpRequest, service: ThinData<TaskService>) -> Result<HttpResponse, Failure> {
    let query = Query::parse(req.query_string(), &["from", "stream", "limit", "waitMs"])?;
    let from = whole("from", query.get("from"), 0, u64::MAX)?;
    let stream: Option<TaskStream> = query.get("stream").map(|given| parsed("stream", given)).transpose()?;
    let limit = whole("limit", query.get("limit"), LINES, u64::MAX)?.clamp(1, MAX_LINES);
    let wait = whole("waitMs", query.get("waitMs"), 0, u64::MAX)?.min(MAX_TASK_WAIT_MS);
    let end = Instant::now() + Duration::from_millis(wait);
    let (id, mut from) = (segment(&req, "id"), from);
    let shared = service.shared();
    let mut bell = shared.bell.subscribe();
    loop {
        bell.mark_unchanged();
        let task = shared.task(id)?;
        let is_over = task.state().is_final();
        if from < task.log.next {
            let lines = service.lines(task.number, from, stream, limit).await?;
            let is_full = lines.len() as u64 >= limit;
            // Lines of the other stream, and those that were dropped, are passed over.
            let next = match lines.last() {
                Some(last) if is_full => last.line + 1,
                _ => task.log.next,
            };
            let over = is_over && next >= task.log.next;
            if !lines.is_empty() || over {
                return Ok(HttpResponse::Ok().json(TaskLogPage { lines, next, over }));
            }
            from = next;
        } else if is_over {
            return Ok(HttpResponse::Ok().json(TaskLogPage { lines: Vec::new(), next: from, over: true }));
        }
        if service.is_stopping() || timeout_at(end, service.rung(&mut bell)).await.is_err() {
            return Ok(HttpResponse::Ok().json(TaskLogPage { lines: Vec::new(), next: from, over: false }));
        }
    }
}
