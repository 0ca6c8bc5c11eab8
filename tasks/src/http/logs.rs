//! The log of a task: a part of it by number, time, text or attempt; its end; followed; or as one text.

use std::time::Duration;

use actix_web::web::{Bytes, ThinData};
use actix_web::{HttpRequest, HttpResponse};
use estimand_api::instant::{Moment, moment};
use estimand_api::problem::{FieldError, Problem};
use estimand_api::task::TaskStream;
use estimand_api::task_record::{MAX_TASK_WAIT_MS, TaskLogEntry, TaskLogPage};
use estimand_web::parameters::{parsed, whole};
use estimand_web::{Failure, Principal, Query, segment, wants_text};
use futures_util::stream::try_unfold;
use tokio::time::{Instant, timeout_at};

use crate::TaskService;
use crate::core::queue::TaskNumber;
use crate::log::{self, LogPart, LogQuery};
use crate::scope::Scope;
use crate::task::Task;

/// The most lines of an answer, each of at most 64 KiB, and how many there are if nothing is said.
const MAX_LINES: u64 = 500;
const LINES: u64 = 200;
const PARAMETERS: [&str; 10] =
    ["from", "stream", "attempt", "since", "until", "contains", "tail", "limit", "format", "waitMs"];

/// Lines of a task's log from a number on, or the last ones. The answer's `next` goes on exactly where it ends.
///
/// As text (`format=raw`, or `Accept: text/plain`) it is all that both streams wrote as far as it was kept, without
/// numbers and times.
#[utoipa::path(
    get,
    path = "/api/tasks/{id}/logs",
    tag = "tasks",
    params(
        ("id" = String, Path),
        ("from" = Option<u64>, Query, description = "The number of the first line; 0 if absent"),
        ("stream" = Option<TaskStream>, Query, description = "Only this stream"),
        ("attempt" = Option<u32>, Query, description = "Only what this attempt wrote"),
        ("since" = Option<Moment>, Query, description = "Only what was written at this instant (RFC 3339) or later, or no longer ago than e.g. `10m`, by the clock of the node"),
        ("until" = Option<Moment>, Query, description = "Only what was written before this instant, or longer ago than that"),
        ("contains" = Option<String>, Query, description = "Only lines with this text in them. At most 10,000 lines are looked through for an answer, so it may have none and a `next` to go on with"),
        ("tail" = Option<u64>, Query, description = "The last so many, at most 500, instead of the first ones"),
        ("limit" = Option<u64>, Query, description = "At most so many lines; 200 if absent, and never more than 500"),
        ("format" = Option<String>, Query, description = "`json`, or `raw` for the text alone, all of it"),
        ("waitMs" = Option<u64>, Query, description = "How many milliseconds to wait for a line, if there is none yet and the task is not over; 0 if absent, and never longer than 60,000"),
    ),
    responses(
        (status = 200, description = "The lines; none if nothing came in time", content((TaskLogPage = "application/json"), (String = "text/plain"))),
        (status = 400, description = "The query is not valid", body = Problem),
        (status = 404, description = "There is no such task", body = Problem),
        (status = 409, description = "It is an array; each of its tasks has a log", body = Problem),
        (status = 503, description = "Not loaded yet, or the database does not answer", body = Problem),
    )
)]
pub async fn logs(
    req: HttpRequest,
    caller: Principal,
    service: ThinData<TaskService>,
) -> Result<HttpResponse, Failure> {
    let query = Query::parse(req.query_string(), &PARAMETERS)?;
    let now = service.shared().clock.now_micros();
    let asked = asked(&query, now)?;
    let (id, scope) = (segment(&req, "id"), Scope::of(&caller));
    if is_raw(query.get("format"), &req)? {
        let task = service.shared().task(&scope, id)?;
        return Ok(raw(service.0.clone(), task.number, asked));
    }
    let tail = query.get("tail").map(|given| whole("tail", Some(given), 0, MAX_LINES)).transpose()?;
    if tail.is_some() && query.get("limit").is_some() {
        let error = FieldError::new("limit", "is there beside `tail`, which says how many lines");
        return Err(Problem::invalid_field(error).into());
    }
    let limit = whole("limit", query.get("limit"), LINES, u64::MAX)?.clamp(1, MAX_LINES);
    let wait = whole("waitMs", query.get("waitMs"), 0, u64::MAX)?.min(MAX_TASK_WAIT_MS);
    match tail {
        Some(tail) => {
            let task = service.shared().task(&scope, id)?;
            let lines = log::last_lines(&service, &task, &asked, tail).await?;
            Ok(HttpResponse::Ok().json(page(&task, LogPart { lines, next: task.log.next })))
        }
        None => follow(&service, (&scope, id), asked, limit, Duration::from_millis(wait)).await,
    }
}

/// The part of a log that is asked for.
fn asked(query: &Query<'_, 10>, now: i64) -> Result<LogQuery, Problem> {
    let at = |field: &str| query.get(field).map(|text| moment(field, text, now)).transpose();
    Ok(LogQuery {
        from: whole("from", query.get("from"), 0, u64::MAX)?,
        stream: query.get("stream").map(|given| parsed("stream", given)).transpose()?,
        attempt: query.get("attempt").map(|given| parsed("attempt", given)).transpose()?,
        since: at("since")?,
        until: at("until")?,
        contains: query.get("contains").filter(|text| !text.is_empty()).map(str::to_owned),
    })
}

fn is_raw(format: Option<&str>, req: &HttpRequest) -> Result<bool, Problem> {
    match format {
        None => Ok(wants_text(req)),
        Some("json") => Ok(false),
        Some("raw") => Ok(true),
        Some(other) => {
            let error = FieldError::new("format", "is not known").given(other);
            Err(Problem::invalid_field(error.expected("json or raw")))
        }
    }
}

fn page(task: &Task, LogPart { lines, next }: LogPart) -> TaskLogPage {
    TaskLogPage { lines, next, over: task.state().is_final() && next >= task.log.next }
}

/// The next lines, as soon as there are some.
async fn follow(
    service: &TaskService,
    (scope, id): (&Scope, &str),
    mut asked: LogQuery,
    limit: u64,
    wait: Duration,
) -> Result<HttpResponse, Failure> {
    let (shared, end) = (service.shared(), Instant::now() + wait);
    let mut bell = shared.bell.subscribe();
    loop {
        bell.mark_unchanged();
        let task = shared.task(scope, id)?;
        let part = log::next_lines(service, &task, &asked, limit).await?;
        let page = page(&task, part);
        // With more to look through, the caller decides whether to go on.
        let is_answer = !page.lines.is_empty() || page.over || page.next < task.log.next;
        if is_answer || service.is_stopping() || timeout_at(end, service.rung(&mut bell)).await.is_err() {
            return Ok(HttpResponse::Ok().json(page));
        }
        asked.from = page.next;
    }
}

/// The texts of all lines that there are now, in pieces.
fn raw(service: TaskService, number: TaskNumber, asked: LogQuery) -> HttpResponse {
    let pieces = try_unfold(Some((service, asked)), move |left| async move {
        let Some((service, mut asked)) = left else { return Ok::<_, Failure>(None) };
        // A task that was deleted meanwhile has no more.
        let found = service.shared().table(|table| table.get(number).cloned());
        let Some(task) = found else { return Ok(None) };
        let LogPart { lines, next } = log::next_lines(&service, &task, &asked, MAX_LINES).await?;
        let goes_on = next > asked.from && next < task.log.next;
        asked.from = next;
        Ok(Some((text_of(&lines), goes_on.then_some((service, asked)))))
    });
    HttpResponse::Ok().content_type("text/plain; charset=utf-8").streaming(Box::pin(pieces))
}

fn text_of(lines: &[TaskLogEntry]) -> Bytes {
    let mut text = String::new();
    for line in lines.iter().filter(|line| line.dropped == 0 || !line.text.is_empty()) {
        text.push_str(&line.text);
        if !line.partial {
            text.push('\n');
        }
    }
    Bytes::from(text)
}
