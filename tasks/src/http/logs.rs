//! The log of a task: a part of it by number, time, text or attempt; its end; followed; or as the bytes that were written.

use std::time::Duration;

use actix_web::web::{Bytes, ThinData};
use actix_web::{HttpRequest, HttpResponse, HttpResponseBuilder};
use estimand_api::instant::{Moment, moment};
use estimand_api::problem::{FieldError, Problem};
use estimand_api::task_log::{LogStream, TaskLogEntry, TaskLogPage};
use estimand_api::task_record::MAX_TASK_WAIT_MS;
use estimand_web::parameters::{parsed, whole};
use estimand_web::{Failure, Principal, Query, segment, wants_text};
use futures_util::stream::try_unfold;
use tokio::time::{Instant, timeout_at};

use crate::TaskService;
use crate::core::queue::TaskNumber;
use crate::log::{self, LogPart, LogQuery};
use crate::open_lines::OpenLog;
use crate::scope::Scope;
use crate::task::Task;

/// The most lines of an answer, each of at most 64 KiB, and how many there are if nothing is said.
const MAX_LINES: u64 = 500;
const LINES: u64 = 200;
const PARAMETERS: [&str; 11] =
    ["from", "stream", "attempt", "since", "until", "contains", "tail", "limit", "format", "waitMs", "open"];

/// Lines of a task's log from a number on, or the last ones. The answer's `next` goes on exactly where it ends.
///
/// Raw (`format=raw`, `stream=RAW`, or `Accept: text/plain`) it is byte for byte what was written, without numbers and times. Where
/// lines were dropped a line of its own says so: `(estimand: 7 lines were dropped here)`.
#[utoipa::path(
    get,
    path = "/api/tasks/{id}/logs",
    tag = "tasks",
    params(
        ("id" = String, Path),
        ("from" = Option<u64>, Query, description = "The number of the first line; 0 if absent"),
        ("stream" = Option<LogStream>, Query, description = "Only this stream; `RAW`: both as one, byte for byte"),
        ("attempt" = Option<u32>, Query, description = "Only what this attempt wrote"),
        ("since" = Option<Moment>, Query, description = "Only what was written at this instant (RFC 3339) or later, or no longer ago than e.g. `10m`, by the clock of the node"),
        ("until" = Option<Moment>, Query, description = "Only what was written before this instant, or longer ago than that"),
        ("contains" = Option<String>, Query, description = "Only lines with this text in them. At most 10,000 lines are looked through for an answer, so it may have none and a `next` to go on with"),
        ("tail" = Option<u64>, Query, description = "The last so many, at most 500, instead of the first ones"),
        ("limit" = Option<u64>, Query, description = "At most so many lines; 200 if absent, and never more than 500. Raw: all if absent"),
        ("format" = Option<String>, Query, description = "`json`, or `raw` for the bytes alone"),
        ("open" = Option<u64>, Query, description = "The `openRevision` of the last answer, or 0: the wait also ends when other lines are unfinished"),
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
    let tail = query.get("tail").map(|given| whole("tail", Some(given), 0, MAX_LINES)).transpose()?;
    let given = query.get("limit").map(|given| whole("limit", Some(given), LINES, u64::MAX)).transpose()?;
    if tail.is_some() && given.is_some() {
        let error = FieldError::new("limit", "is there beside `tail`, which says how many lines");
        return Err(Problem::invalid_field(error).into());
    }
    let wait = whole("waitMs", query.get("waitMs"), 0, u64::MAX)?.min(MAX_TASK_WAIT_MS);
    let open = query.get("open").map(|given| whole("open", Some(given), 0, u64::MAX)).transpose()?;
    let is_raw = is_raw(&query, &req)?;
    if let Some(tail) = tail {
        let task = service.shared().task(&scope, id)?;
        let lines = log::last_lines(&service, &task, &asked, tail).await?;
        let part = LogPart { lines, next: task.log.next };
        if is_raw {
            return Ok(plain().body(RawText::default().bytes(&part.lines)));
        }
        return Ok(HttpResponse::Ok().json(page(&service, &task, &asked, part)));
    }
    if is_raw {
        let task = service.shared().task(&scope, id)?;
        return Ok(raw(service.0.clone(), task.number, asked, given.unwrap_or(u64::MAX).max(1)));
    }
    let limit = given.unwrap_or(LINES).clamp(1, MAX_LINES);
    let wait = Wait { limit, open, end: Instant::now() + Duration::from_millis(wait) };
    follow(&service, (&scope, id), asked, wait).await
}

/// The part of a log that is asked for.
fn asked(query: &Query<'_, 11>, now: i64) -> Result<LogQuery, Problem> {
    let at = |field: &str| query.get(field).map(|text| moment(field, text, now)).transpose();
    Ok(LogQuery {
        from: whole("from", query.get("from"), 0, u64::MAX)?,
        stream: stream(query)?.and_then(LogStream::single),
        attempt: query.get("attempt").map(|given| parsed("attempt", given)).transpose()?,
        since: at("since")?,
        until: at("until")?,
        contains: query.get("contains").filter(|text| !text.is_empty()).map(str::to_owned),
    })
}

fn stream(query: &Query<'_, 11>) -> Result<Option<LogStream>, Problem> {
    query.get("stream").map(|given| parsed("stream", given)).transpose()
}

fn is_raw(query: &Query<'_, 11>, req: &HttpRequest) -> Result<bool, Problem> {
    match query.get("format") {
        None => Ok(stream(query)? == Some(LogStream::Raw) || wants_text(req)),
        Some("json") => Ok(false),
        Some("raw") => Ok(true),
        Some(other) => {
            let error = FieldError::new("format", "is not known").given(other);
            Err(Problem::invalid_field(error.expected("json or raw")))
        }
    }
}

fn page(
    service: &TaskService,
    task: &Task,
    asked: &LogQuery,
    LogPart { lines, next }: LogPart,
) -> TaskLogPage {
    let is_all = next >= task.log.next;
    // Unfinished lines are behind all others.
    let open = if is_all { service.shared().open_lines.of(task.number) } else { OpenLog::default() };
    TaskLogPage {
        lines,
        next,
        over: task.state().is_final() && is_all,
        open_revision: Some(open.revision),
        open: asked.open_entries(open),
    }
}

/// The bounds of an answer that follows a log.
struct Wait {
    limit: u64,
    /// The unfinished lines that are known.
    open: Option<u64>,
    end: Instant,
}

/// The next lines, as soon as there are some.
async fn follow(
    service: &TaskService,
    (scope, id): (&Scope, &str),
    mut asked: LogQuery,
    Wait { limit, open, end }: Wait,
) -> Result<HttpResponse, Failure> {
    let shared = service.shared();
    loop {
        let (named, mut bell) = shared.follow(scope, id)?;
        let task = named.task()?;
        let part = log::next_lines(service, &task, &asked, limit).await?;
        let page = page(service, &task, &asked, part);
        // A line that ended while the others were read is in neither place of this page.
        let has_grown = || {
            shared.table.look(|table| table.get(task.number).is_some_and(|now| now.log.next > task.log.next))
        };
        if page.lines.is_empty() && !page.over && Instant::now() < end && has_grown() {
            asked.from = page.next;
            continue;
        }
        // With more to look through, the caller decides whether to go on.
        let is_answer = !page.lines.is_empty()
            || page.over
            || page.next < task.log.next
            || open.is_some_and(|known| Some(known) != page.open_revision);
        if is_answer
            || service.is_stopping()
            || timeout_at(end, service.rung(&mut bell.receiver)).await.is_err()
        {
            return Ok(HttpResponse::Ok().json(page));
        }
        asked.from = page.next;
    }
}

fn plain() -> HttpResponseBuilder {
    let mut response = HttpResponse::Ok();
    response.content_type("text/plain; charset=utf-8");
    response
}

/// The bytes of the lines that there are now, at most `limit` lines, in pieces.
fn raw(service: TaskService, number: TaskNumber, asked: LogQuery, limit: u64) -> HttpResponse {
    let begun = Some((service, asked, limit, RawText::default()));
    let pieces = try_unfold(begun, move |left| async move {
        let Some((service, mut asked, limit, mut text)) = left else { return Ok::<_, Failure>(None) };
        // A task that was deleted meanwhile has no more.
        let found = service.shared().table.look(|table| table.get(number).cloned());
        let Some(task) = found else { return Ok(None) };
        let LogPart { lines, next } = log::next_lines(&service, &task, &asked, limit.min(MAX_LINES)).await?;
        let limit = limit - lines.len() as u64;
        let goes_on = next > asked.from && next < task.log.next && limit > 0;
        asked.from = next;
        let bytes = text.bytes(&lines);
        Ok(Some((bytes, goes_on.then_some((service, asked, limit, text)))))
    });
    plain().streaming(Box::pin(pieces))
}

/// The raw text of a log, as far as it was given.
#[derive(Default)]
struct RawText {
    /// It does not end with a line's end.
    is_within_line: bool,
}

impl RawText {
    fn bytes(&mut self, lines: &[TaskLogEntry]) -> Bytes {
        let mut bytes = Vec::new();
        for line in lines {
            if line.dropped > 0 {
                let end = if self.is_within_line { "\n" } else { "" };
                let mark = format!("{end}(estimand: {} lines were dropped here)\n", line.dropped);
                bytes.extend_from_slice(mark.as_bytes());
                self.is_within_line = false;
            }
            let written = line.written();
            if let Some(last) = written.last() {
                self.is_within_line = *last != b'\n';
            }
            bytes.extend_from_slice(&written);
        }
        Bytes::from(bytes)
    }
}
