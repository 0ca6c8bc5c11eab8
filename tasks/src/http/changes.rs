//! Changes: submitting, cancelling and deleting. Each is answered when it is durable.

use std::sync::Arc;

use actix_web::http::header::{HeaderName, LOCATION};
use actix_web::web::ThinData;
use actix_web::{HttpRequest, HttpResponse};
use estimand_api::headers::HINT_HEADER;
use estimand_api::names::UserName;
use estimand_api::problem::Problem;
use estimand_api::task_document::{MAX_DOCUMENT_BYTES, TaskDocument};
use estimand_api::task_record::TaskRecord;
use estimand_api::task_stop::{MAX_STOP_BYTES, StopRequest};
use estimand_web::parameters;
use estimand_web::{Body, Failure, Principal, Query, segment};

use super::views;
use crate::TaskService;
use crate::core::state::State;
use crate::requests::{Delete, Fate, Stop, Submission};
use crate::scope::{BEHALF, Scope};
use crate::table::Named;

/// Advice that goes with a success, for people; the command line shows it.
static HINT: HeaderName = HeaderName::from_static(HINT_HEADER);

/// Submits a task, or with a `count` an array of tasks.
///
/// It is the caller's; an operator may say whose it is, or submit it on behalf of a user as if that one did.
#[utoipa::path(
    post,
    path = "/api/tasks",
    tag = "tasks",
    params(
        ("behalf" = Option<UserName>, Query, description = "The user for whom an operator or a scheduler submits: the task is theirs, takes from their shares, has at most their highest priority, comes after tasks of theirs, and its key is one of theirs"),
        ("Idempotency-Key" = Option<String>, Header, description = "A key of the caller's own: sent again with the same document, it gives the task or array that it made before"),
    ),
    request_body(content = TaskDocument, description = "The task's document"),
    responses(
        (status = 200, description = "It was submitted with this key before", body = TaskRecord),
        (status = 201, description = "Submitted, and stored; the header `Location` says where it is. `Estimand-Hint` says why no node can take it, if so", body = TaskRecord),
        (status = 400, description = "The document is not valid, every error is listed; or its priority is above its user's highest", body = Problem),
        (status = 403, description = "The document has the name of another user, or a user submits on behalf of one", body = Problem),
        (status = 409, description = "The id is taken, the key was given with another document, what it comes after is not there, its image is not published and only published ones run here, it has files and there is no file service, there are too many tasks, or (`share-full`) its user has too many, or too large ones", body = Problem),
        (status = 413, description = "The body is too large", body = Problem),
        (status = 503, description = "Not now; the detail says whether it may have taken effect", body = Problem),
    )
)]
pub async fn submit(
    req: HttpRequest,
    caller: Principal,
    body: Body<MAX_DOCUMENT_BYTES>,
    service: ThinData<TaskService>,
) -> Result<HttpResponse, Failure> {
    let query = Query::parse(req.query_string(), &[BEHALF])?;
    let scope = Scope::on_behalf(&caller, service.users(), query.get(BEHALF))?;
    let key = parameters::idempotency_key(&req, scope.longest_key())?.map(|key| scope.key(key));
    let arriving = service.shared().arriving.take(scope.user(), body.0.len())?;
    let mut document = body.parse(TaskDocument::parse).await?;
    scope.claim(&mut document)?;
    if document.has_files() {
        service.shared().file_peer()?;
    }
    let (by, published_only) = (caller.to_string(), service.published_only());
    let seen_by = scope.clone();
    let submission = Submission { document, arriving, key, by, published_only, scope };
    let (named, is_new) = service.change(submission).await?;
    let mut response = match is_new {
        true => HttpResponse::Created(),
        false => HttpResponse::Ok(),
    };
    response.insert_header((LOCATION, format!("/api/tasks/{}", named.id())));
    // The tasks of an array are alike.
    let (record, first) = match &named {
        Named::Task(task) => (views::whole_record(task, service.shared(), &seen_by), Some(Arc::clone(task))),
        Named::Array(array) => {
            let first = service.shared().table.loaded(|table| table.of_array(array).next().cloned())?;
            (views::of_array(service.shared(), array)?, first)
        }
    };
    if let Some(hint) = first.and_then(|task| views::never_fits(&task, service.shared())) {
        response.insert_header((HINT.clone(), hint));
    }
    Ok(response.json(record))
}

/// Cancels a task, or all tasks of an array: one that waits is over at once, one that runs is ended.
///
/// Without a body it gets SIGTERM, and SIGKILL 10 s later. A second request makes its end come sooner, and never later.
#[utoipa::path(
    post,
    path = "/api/tasks/{id}/cancel",
    tag = "tasks",
    params(("id" = String, Path)),
    request_body(content = Option<StopRequest>, description = "How it ends; may be left out"),
    responses(
        (status = 200, description = "The task; nothing changes if it is over already", body = TaskRecord),
        (status = 400, description = "The body is not valid", body = Problem),
        (status = 404, description = "There is no such task", body = Problem),
        (status = 413, description = "The request is too large", body = Problem),
        (status = 503, description = "Not now; the detail says whether it may have taken effect", body = Problem),
    )
)]
pub async fn cancel(
    req: HttpRequest,
    caller: Principal,
    body: Body<MAX_STOP_BYTES>,
    service: ThinData<TaskService>,
) -> Result<HttpResponse, Failure> {
    let record = stop(&req, &caller, body, &service, Fate::Cancelled).await?;
    tracing::info!(task = record.id, by = %caller, "cancelled");
    Ok(HttpResponse::Ok().json(record))
}

/// Sends a task, or all tasks of an array, back to the queue: one that runs is ended with a checkpoint, and waits for a node again,
/// which uses none of its retries. One that waits goes on waiting.
///
/// Without a body it gets SIGUSR1 and has the `checkpointGrace` of its document. However it ends after that, it is run again; one that
/// had succeeded before has succeeded.
#[utoipa::path(
    post,
    path = "/api/tasks/{id}/yield",
    tag = "tasks",
    params(("id" = String, Path)),
    request_body(content = Option<StopRequest>, description = "How it ends; may be left out. `checkpoint` is true by default, unless `grace` is 0"),
    responses(
        (status = 200, description = "The task; `Estimand-Hint` says so if it waits already, or all tasks of the array that are not over do", body = TaskRecord),
        (status = 400, description = "The body is not valid", body = Problem),
        (status = 404, description = "There is no such task", body = Problem),
        (status = 409, description = "It is over, or ends for good: it was cancelled, or its promise has ended", body = Problem),
        (status = 413, description = "The request is too large", body = Problem),
        (status = 503, description = "Not now; the detail says whether it may have taken effect", body = Problem),
    )
)]
pub async fn yield_task(
    req: HttpRequest,
    caller: Principal,
    body: Body<MAX_STOP_BYTES>,
    service: ThinData<TaskService>,
) -> Result<HttpResponse, Failure> {
    let record = stop(&req, &caller, body, &service, Fate::Queued).await?;
    tracing::info!(task = record.id, by = %caller, "sent back to the queue");
    let mut response = HttpResponse::Ok();
    if record.state == State::Queued.as_str() {
        response.insert_header((HINT.clone(), "it waits already, so there was nothing to do"));
    }
    Ok(response.json(record))
}

async fn stop(
    req: &HttpRequest,
    caller: &Principal,
    body: Body<MAX_STOP_BYTES>,
    service: &TaskService,
    fate: Fate,
) -> Result<TaskRecord, Failure> {
    let id = segment(req, "id").to_owned();
    let request = body.parse(StopRequest::parse).await?;
    let scope = Scope::of(caller);
    let named = service.change(Stop { id, by: caller.to_string(), scope, fate, request }).await?;
    Ok(match &named {
        Named::Task(task) => views::record(task),
        Named::Array(array) => views::of_array(service.shared(), array)?,
    })
}

/// Deletes a task that is over, or an array all of which is, with the log.
#[utoipa::path(
    delete,
    path = "/api/tasks/{id}",
    tag = "tasks",
    params(("id" = String, Path)),
    responses(
        (status = 204, description = "Deleted"),
        (status = 404, description = "There is no such task", body = Problem),
        (status = 409, description = "It is not over", body = Problem),
        (status = 503, description = "Not now; the detail says whether it may have taken effect", body = Problem),
    )
)]
pub async fn delete(
    req: HttpRequest,
    caller: Principal,
    service: ThinData<TaskService>,
) -> Result<HttpResponse, Failure> {
    let id = segment(&req, "id").to_owned();
    tracing::info!(task = id, by = %caller, "to be deleted");
    service.change(Delete { id, by: caller.to_string(), scope: Scope::of(&caller) }).await?;
    Ok(HttpResponse::NoContent().finish())
}
