//! Reads: of the published tasks, which are in memory; only what happened to a task is read from the store.

use std::sync::Arc;
use std::time::Duration;

use actix_web::web::ThinData;
use actix_web::{HttpRequest, HttpResponse};
use estimand_api::problem::{FieldError, Problem};
use estimand_api::selector::Selector;
use estimand_api::task_record::{MAX_TASK_WAIT_MS, TaskPage, TaskRecord};
use estimand_api::task_usage::AttemptUsage;
use estimand_web::parameters::{self, whole};
use estimand_web::{Failure, Principal, Query, segment};
use tokio::time::{Instant, timeout_at};

use super::pages::REVISION;
use super::views;
use crate::TaskService;
use crate::core::queue::TaskNumber;
use crate::core::state::State;
use crate::scope::Scope;
use crate::storage::rows;
use crate::table::Named;
use crate::task::Task;

/// The most tasks on a page, and how many there are if nothing is said.
const MAX_PAGE: u64 = 1_000;
const PAGE: u64 = 100;
/// A page ends with the task whose document makes it larger than that.
const PAGE_BYTES: usize = 4 * 1024 * 1024;
/// How many tasks are looked at for a page that few belong on.
const MAX_LOOKED_AT: usize = 20_000;

/// Tasks, the newest first, in pages.
#[utoipa::path(
    get,
    path = "/api/tasks",
    tag = "tasks",
    params(
        ("state" = Option<String>, Query, description = "Only those in these states, with commas between them, such as `QUEUED,RUNNING`"),
        ("labels" = Option<Selector>, Query, description = "Only those with these labels"),
        ("user" = Option<String>, Query, description = "Only those of this user"),
        ("array" = Option<String>, Query, description = "Only those of this array"),
        ("before" = Option<String>, Query, description = "Only those that were submitted before this one: the `next` of the page before"),
        ("limit" = Option<u64>, Query, description = "At most so many; 100 if absent, and never more than 1,000"),
    ),
    responses(
        (status = 200, description = "A page of tasks; the header `Estimand-Revision` has the revision after which to watch on", body = TaskPage),
        (status = 400, description = "The query is not valid", body = Problem),
        (status = 404, description = "There is no such array, or no such task to begin before", body = Problem),
        (status = 503, description = "Not loaded yet", body = Problem),
    )
)]
pub async fn list(
    req: HttpRequest,
    caller: Principal,
    service: ThinData<TaskService>,
) -> Result<HttpResponse, Failure> {
    let scope = Scope::of(&caller);
    let query = Query::with_lists(
        req.query_string(),
        &["state", "labels", "user", "array", "before", "limit"],
        &["state", "labels"],
    )?;
    let states = query.get("state").map(states).transpose()?;
    let labels: Option<Selector> =
        query.get("labels").map(|given| parameters::parsed("labels", given)).transpose()?;
    let user = query.get("user");
    let limit = whole("limit", query.get("limit"), PAGE, u64::MAX)?.clamp(1, MAX_PAGE);
    let limit = usize::try_from(limit).unwrap_or(1);
    let shared = service.shared();
    let before: Option<TaskNumber> =
        query.get("before").map(|id| shared.task(&scope, id).map(|task| task.number)).transpose()?;
    let array = query.get("array").map(|id| shared.array(&scope, id)).transpose()?;
    let of = array.map_or(TaskNumber(0)..TaskNumber(u64::MAX), |array| array.numbers());
    let end = before.map_or(of.end, |before| before.min(of.end));
    let belongs = |task: &Task| {
        states.as_ref().is_none_or(|states| states.contains(&task.state()))
            && labels.as_ref().is_none_or(|labels| labels.matches(&task.document.labels))
            && user.is_none_or(|user| task.user() == Some(user))
    };
    // A watch that begins there misses nothing that this page does not have.
    let revision = shared.feed.newest();
    let mut listed = Vec::new();
    let mut page = shared.table.loaded(|table| {
        let (mut page, mut bytes) = (TaskPage::default(), 0);
        let seen = |end| table.newest(of.start, end).filter(|task| scope.has(&task.document));
        for (looked_at, task) in seen(end).enumerate() {
            if page.tasks.len() >= limit || bytes >= PAGE_BYTES || looked_at >= MAX_LOOKED_AT {
                break;
            }
            page.next = Some(task.id.clone());
            if belongs(task) {
                let record = views::record(task);
                bytes += serde_json::to_string(&record.document).map_or(0, |text| text.len());
                page.tasks.push(record);
                listed.push(Arc::clone(task));
            }
        }
        let last = page.next.as_deref().and_then(|id| table.named(id));
        if last.is_none_or(|last| seen(last.number).next().is_none()) {
            page.next = None;
        }
        page
    })?;
    for (record, task) in page.tasks.iter_mut().zip(&listed) {
        record.waits = views::waits(task, shared, &scope);
    }
    Ok(HttpResponse::Ok().insert_header((REVISION.clone(), revision)).json(page))
}

/// One task: how far it is, what happened to it, and why it waits or is where it is. Or an array, with its tasks by state.
#[utoipa::path(
    get,
    path = "/api/tasks/{id}",
    tag = "tasks",
    params(
        ("id" = String, Path),
        ("waitMs" = Option<u64>, Query, description = "How many milliseconds to wait for its end; 0 if absent, and never longer than 60,000"),
    ),
    responses(
        (status = 200, description = "The task", body = TaskRecord),
        (status = 400, description = "The query is not valid", body = Problem),
        (status = 404, description = "There is no such task", body = Problem),
        (status = 503, description = "Not loaded yet, or the database does not answer", body = Problem),
    )
)]
pub async fn get(
    req: HttpRequest,
    caller: Principal,
    service: ThinData<TaskService>,
) -> Result<HttpResponse, Failure> {
    let query = Query::parse(req.query_string(), &["waitMs"])?;
    let wait = whole("waitMs", query.get("waitMs"), 0, u64::MAX)?.min(MAX_TASK_WAIT_MS);
    let (id, end) = (segment(&req, "id"), Instant::now() + Duration::from_millis(wait));
    let (shared, scope) = (service.shared(), Scope::of(&caller));
    let named = loop {
        let (named, mut bell) = shared.follow(&scope, id)?;
        let is_over = match &named {
            Named::Task(task) => task.state().is_final(),
            Named::Array(array) => shared.table.loaded(|table| table.open_of_array(array.number) == 0)?,
        };
        if is_over
            || service.is_stopping()
            || timeout_at(end, service.rung(&mut bell.receiver)).await.is_err()
        {
            break named;
        }
    };
    let task = match named {
        Named::Task(task) => task,
        Named::Array(array) => {
            return Ok(HttpResponse::Ok().json(views::of_array(shared, &array)?));
        }
    };
    let transitions = service.transitions(&task).await?;
    let outputs = service.outputs(&task).await?;
    let mut record = TaskRecord { transitions, outputs, ..views::whole_record(&task, shared, &scope) };
    // The usage of earlier attempts stands in their ends alone.
    let used: Vec<AttemptUsage> = record.transitions.iter().filter_map(rows::attempt_usage).collect();
    if !used.is_empty() {
        record.used = used;
    }
    Ok(HttpResponse::Ok().json(record))
}

fn states(given: &str) -> Result<Vec<State>, Problem> {
    let state = |word: &str| {
        State::ALL.into_iter().find(|state| state.as_str().eq_ignore_ascii_case(word)).ok_or_else(|| {
            let expected = State::ALL.map(State::as_str).join(", ");
            let message = format!("has `{word}`, which is not a state");
            Problem::invalid_field(FieldError::new("state", message).expected(expected))
        })
    };
    given.split(',').map(str::trim).filter(|word| !word.is_empty()).map(state).collect()
}
