//! Promises of capacity: asked for, read, followed, changed and given back.

use std::time::Duration;

use actix_web::web::ThinData;
use actix_web::{HttpRequest, HttpResponse};
use estimand_api::problem::{FieldError, Problem};
use estimand_api::promise::{
    MAX_PROMISES_BYTES, PromiseBatch, PromisePage, PromiseRecord, PromiseReleases, PromiseResize,
    PromiseState, PromiseTasks, PromisesMade, PromisesReleased,
};
use estimand_api::task_record::MAX_TASK_WAIT_MS;
use estimand_web::parameters::{self, whole};
use estimand_web::{Body, Failure, Principal, Query, segment};
use tokio::time::{Instant, timeout_at};

use super::pages::REVISION;
use crate::TaskService;
use crate::change::Rejection;
use crate::core::promise::Promise;
use crate::core::promises::Promises;
use crate::requests::{MakePromises, ReleasePromise, ReleasePromises, ResizePromise};
use crate::scope::Scope;
use crate::table::TaskTable;
use crate::task::millis;

/// The most promises on a page, and how many there are if nothing is said. Those of one revision are on one page.
const MAX_PAGE: u64 = 1_000;
const PAGE: u64 = 100;
/// The largest body of a change.
const MAX_RESIZE_BYTES: usize = 4 * 1024;

/// Has capacity promised: all that is asked for, or nothing.
#[utoipa::path(
    post,
    path = "/api/capacity/promises",
    tag = "tasks",
    params(("Idempotency-Key" = Option<String>, Header, description = "A key of the caller's own: sent again with the same promises, it gives those that it made before")),
    request_body(content = PromiseBatch, description = "The promises"),
    responses(
        (status = 200, description = "They were made with this key before; they are as they are now", body = PromisesMade),
        (status = 201, description = "Promised, and stored", body = PromisesMade),
        (status = 400, description = "The body is not valid, or a window is in the past; every error is listed", body = Problem),
        (status = 409, description = "There is no room, and `room` says where there would be; or the ledger has moved on from `ifRevision`; or an id or the key is taken", body = Problem),
        (status = 413, description = "The request is too large", body = Problem),
        (status = 503, description = "Not now; the detail says whether it may have taken effect", body = Problem),
    )
)]
pub async fn promise(
    req: HttpRequest,
    caller: Principal,
    body: Body<MAX_PROMISES_BYTES>,
    service: ThinData<TaskService>,
) -> Result<HttpResponse, Failure> {
    let key = parameters::idempotency_key(&req, Scope::of(&caller).longest_key())?;
    let batch = body.parse(PromiseBatch::parse).await?;
    let made = service.change(MakePromises { batch, key, by: caller.to_string() }).await?;
    let (promises, is_new, revision) = made;
    let mut response = if is_new { HttpResponse::Created() } else { HttpResponse::Ok() };
    let promises = promises.iter().map(|promise| shown(&service, promise)).collect();
    response.insert_header((REVISION.clone(), revision));
    Ok(response.json(PromisesMade { revision, promises }))
}

/// Promises in the order in which they changed last, and with `after` what has changed since.
///
/// A promise stands there once, as it is now. One that is over is kept for a while.
#[utoipa::path(
    get,
    path = "/api/capacity/promises",
    tag = "tasks",
    params(
        ("after" = Option<u64>, Query, description = "Only those that changed after this revision; if absent, all"),
        ("state" = Option<String>, Query, description = "Only those in these states, with commas between them, such as `PROMISED,ACTIVE`"),
        ("limit" = Option<u64>, Query, description = "About so many: those that changed together are on one page; 100 if absent, and never more than 1,000"),
        ("waitMs" = Option<u64>, Query, description = "How many milliseconds to wait for a change of promises or of the nodes under them, if there is none yet; 0 if absent, and never longer than 60,000"),
        ("gaps" = Option<bool>, Query, description = "Go on although promises that changed after that revision may not be kept any more, as whoever reads all of them does"),
    ),
    responses(
        (status = 200, description = "A page of promises; `next` goes on", body = PromisePage),
        (status = 400, description = "The query is not valid", body = Problem),
        (status = 410, description = "Promises that changed after that revision are not kept any more, or there never was such a revision", body = Problem),
        (status = 503, description = "Not loaded yet", body = Problem),
    )
)]
pub async fn promises(req: HttpRequest, service: ThinData<TaskService>) -> Result<HttpResponse, Failure> {
    const KNOWN: [&str; 5] = ["after", "state", "limit", "waitMs", "gaps"];
    let query = Query::with_lists(req.query_string(), &KNOWN, &["state"])?;
    let states = query.get("state").map(states).transpose()?;
    let limit = whole("limit", query.get("limit"), PAGE, u64::MAX)?.clamp(1, MAX_PAGE);
    let wait = whole("waitMs", query.get("waitMs"), 0, u64::MAX)?.min(MAX_TASK_WAIT_MS);
    let after = whole("after", query.get("after"), 0, u64::MAX)?;
    let may_have_gaps = query.flag("gaps")?;
    let (shared, end) = (service.shared(), Instant::now() + Duration::from_millis(wait));
    let mut bell = shared.ledger_bell.subscribe();
    loop {
        bell.mark_unchanged();
        let now = shared.clock.now_micros();
        let page = shared
            .table
            .loaded(|table| page(table, now, after, may_have_gaps, states.as_deref(), limit))??;
        // Nodes change the ledger, too, although no promise does.
        let is_enough = page.next > after || service.is_stopping();
        if is_enough || timeout_at(end, service.rung(&mut bell)).await.is_err() {
            return Ok(HttpResponse::Ok().insert_header((REVISION.clone(), page.revision)).json(page));
        }
    }
}

fn page(
    table: &TaskTable,
    now: i64,
    after: u64,
    may_have_gaps: bool,
    states: Option<&[PromiseState]>,
    limit: u64,
) -> Result<PromisePage, Problem> {
    let Promises { base, revision, .. } = table.promises;
    if after > revision || (after > 0 && after < base && !may_have_gaps) {
        return Err(Problem::gone(format!(
            "what changed after revision {after} is not known any more; it is {revision} now: read all promises anew"
        )));
    }
    let mut page = PromisePage { next: revision, revision, promises: Vec::new() };
    for promise in table.promises.after(after) {
        let last = page.promises.last().map(|last: &PromiseRecord| last.revision);
        if page.promises.len() as u64 >= limit && last != Some(promise.revision) {
            page.next = last.unwrap_or(revision);
            break;
        }
        if states.is_none_or(|states| states.contains(&promise.state)) {
            page.promises.push(record(table, promise, now));
        }
    }
    Ok(page)
}

fn states(given: &str) -> Result<Vec<PromiseState>, Problem> {
    let state = |word: &str| {
        PromiseState::ALL.into_iter().find(|state| state.as_str().eq_ignore_ascii_case(word)).ok_or_else(
            || {
                let expected = PromiseState::ALL.map(PromiseState::as_str).join(", ");
                let message = format!("has `{word}`, which is not a state");
                Problem::invalid_field(FieldError::new("state", message).expected(expected))
            },
        )
    };
    given.split(',').map(str::trim).filter(|word| !word.is_empty()).map(state).collect()
}

/// One promise.
#[utoipa::path(
    get,
    path = "/api/capacity/promises/{id}",
    tag = "tasks",
    params(("id" = String, Path)),
    responses(
        (status = 200, description = "The promise", body = PromiseRecord),
        (status = 404, description = "There is no such promise", body = Problem),
        (status = 503, description = "Not loaded yet", body = Problem),
    )
)]
pub async fn promise_of(req: HttpRequest, service: ThinData<TaskService>) -> Result<HttpResponse, Failure> {
    let id = segment(&req, "id");
    let shared = service.shared();
    let now = shared.clock.now_micros();
    let found =
        shared.table.loaded(|table| table.promises.find(id).map(|promise| record(table, promise, now)))?;
    let unknown = || Problem::not_found(Rejection::NoPromise(id.to_owned()).to_string());
    Ok(HttpResponse::Ok().json(found.ok_or_else(unknown)?))
}

/// Gives a promise another end; or one that has not begun another window and width, all or nothing. Its tasks stay.
#[utoipa::path(
    post,
    path = "/api/capacity/promises/{id}/resize",
    tag = "tasks",
    params(("id" = String, Path)),
    request_body(content = PromiseResize, description = "The end; `from` and `width` if they change, too"),
    responses(
        (status = 200, description = "The promise", body = PromiseRecord),
        (status = 400, description = "The body is not valid, or the end is not to come", body = Problem),
        (status = 404, description = "There is no such promise", body = Problem),
        (status = 409, description = "There is no room for that, and `room` says where there would be; it is over, or has begun, or the ledger has moved on from `ifRevision`", body = Problem),
        (status = 413, description = "The request is too large", body = Problem),
        (status = 503, description = "Not now; the detail says whether it may have taken effect", body = Problem),
    )
)]
pub async fn resize(
    req: HttpRequest,
    body: Body<MAX_RESIZE_BYTES>,
    service: ThinData<TaskService>,
) -> Result<HttpResponse, Failure> {
    let id = segment(&req, "id").to_owned();
    let to = body.parse(PromiseResize::parse).await?;
    let promise = service.change(ResizePromise { id, to }).await?;
    Ok(HttpResponse::Ok().json(shown(&service, &promise)))
}

/// Gives a promise back. Its tasks end.
#[utoipa::path(
    delete,
    path = "/api/capacity/promises/{id}",
    tag = "tasks",
    params(("id" = String, Path)),
    responses(
        (status = 200, description = "The promise; nothing changes if it is over already", body = PromiseRecord),
        (status = 404, description = "There is no such promise", body = Problem),
        (status = 503, description = "Not now; the detail says whether it may have taken effect", body = Problem),
    )
)]
pub async fn release(
    req: HttpRequest,
    caller: Principal,
    service: ThinData<TaskService>,
) -> Result<HttpResponse, Failure> {
    let id = segment(&req, "id").to_owned();
    let promise = service.change(ReleasePromise { id, by: caller.to_string() }).await?;
    Ok(HttpResponse::Ok().json(shown(&service, &promise)))
}

/// Gives promises back, all in one step. Their tasks end.
///
/// Those that are over or not known are passed over, so the same may be sent again.
#[utoipa::path(
    post,
    path = "/api/capacity/releases",
    tag = "tasks",
    request_body(content = PromiseReleases, description = "The promises"),
    responses(
        (status = 200, description = "None of them has capacity any more", body = PromisesReleased),
        (status = 400, description = "The body is not valid", body = Problem),
        (status = 413, description = "The request is too large", body = Problem),
        (status = 503, description = "Not now; the detail says whether it may have taken effect", body = Problem),
    )
)]
pub async fn release_all(
    caller: Principal,
    body: Body<MAX_PROMISES_BYTES>,
    service: ThinData<TaskService>,
) -> Result<HttpResponse, Failure> {
    let PromiseReleases { ids } = body.parse(PromiseReleases::parse).await?;
    let released = service.change(ReleasePromises { ids, by: caller.to_string() }).await?;
    Ok(HttpResponse::Ok().insert_header((REVISION.clone(), released.revision)).json(released))
}

/// A promise that is read or changed, with the tasks as they are now.
fn shown(service: &TaskService, promise: &Promise) -> PromiseRecord {
    let shared = service.shared();
    let now = shared.clock.now_micros();
    shared.table.look(|table| record(table, promise, now))
}

fn record(table: &TaskTable, promise: &Promise, now: i64) -> PromiseRecord {
    let (tally, open) = table.usage_of(promise, millis(now));
    let silent = table.open_on(promise).filter(|task| task.ends_with_its_lease()).count();
    let tasks = PromiseTasks {
        open,
        silent: u32::try_from(silent).unwrap_or(u32::MAX),
        over: tally.over,
        had_milliseconds: tally.had.0,
        missed_milliseconds: tally.missed.0,
        ended: (tally.over > 0).then(|| tally.ended.next_tick()),
    };
    PromiseRecord { tasks: Some(tasks), ..promise.record() }
}
