//! Studies: making one, looking at it, pausing, stopping and deleting it. Each change is answered when it is durable.

use actix_web::http::header::LOCATION;
use actix_web::web::ThinData;
use actix_web::{HttpRequest, HttpResponse};
use estimand_api::problem::{FieldError, Problem};
use estimand_api::study::{StudyImportance, StudyPage, StudyRecord};
use estimand_web::parameters::whole;
use estimand_web::{Body, Failure, Principal, Query, Scope, segment};

use crate::TuningService;
use crate::document::{Document, MAX_DOCUMENT_BYTES, StudyDocument};
use crate::requests::{CreateOutcome, Step};
use crate::study::{Study, StudyState};
use crate::views;

/// The most studies on a page, and how many there are if nothing is said.
const MAX_PAGE: u64 = 1_000;
const PAGE: u64 = 100;
/// A page ends with the study whose document makes it so long.
const PAGE_BYTES: u64 = 1 << 20;

/// Makes a study.
///
/// A new study is the caller's; an operator may say whose it is. A document that is sent again with its id is the same study.
#[utoipa::path(
    post,
    path = "/api/studies",
    tag = "tuning",
    request_body(content = StudyDocument, description = "The space, the rules and when it is over"),
    responses(
        (status = 200, description = "The same document made it before", body = StudyRecord),
        (status = 201, description = "Made, and stored; the header `Location` says where it is", body = StudyRecord),
        (status = 400, description = "The document is not valid; every error is listed", body = Problem),
        (status = 403, description = "The document has the name of another user", body = Problem),
        (status = 409, description = "There is a study with this id and another document, or the user's share is used up (`share-full`)", body = Problem),
        (status = 413, description = "The body is too large", body = Problem),
        (status = 503, description = "Not now; the detail says whether it may have taken effect", body = Problem),
    )
)]
pub async fn create_study(
    caller: Principal,
    body: Body<MAX_DOCUMENT_BYTES>,
    service: ThinData<TuningService>,
) -> Result<HttpResponse, Failure> {
    let scope = Scope::of(&caller);
    let mut document = body.parse(Document::parse).await?;
    document.claim(&scope)?;
    let id = document.id.clone();
    let (mut response, record) = match service.create(document, scope, caller.to_string()).await? {
        CreateOutcome::New(Some(record)) => (HttpResponse::Created(), record),
        CreateOutcome::New(None) => return Err(Problem::not_found("the study was deleted at once").into()),
        CreateOutcome::Known(record) => (HttpResponse::Ok(), record),
    };
    response.insert_header((LOCATION, format!("/api/studies/{id}")));
    Ok(response.json(record))
}

/// Studies, the newest first, in pages.
#[utoipa::path(
    get,
    path = "/api/studies",
    tag = "tuning",
    params(
        ("state" = Option<String>, Query, description = "Only those in these states, with commas between them, such as `RUNNING,PAUSED`"),
        ("user" = Option<String>, Query, description = "Only those of this user"),
        ("before" = Option<String>, Query, description = "Only those that were made before this one: the `next` of the page before"),
        ("limit" = Option<u64>, Query, description = "At most so many, and fewer where they are long; 100 if absent, and never more than 1,000"),
    ),
    responses(
        (status = 200, description = "A page of studies", body = StudyPage),
        (status = 400, description = "The query is not valid", body = Problem),
        (status = 404, description = "There is no such study to begin before", body = Problem),
        (status = 503, description = "Not loaded yet", body = Problem),
    )
)]
pub async fn list_studies(
    req: HttpRequest,
    caller: Principal,
    service: ThinData<TuningService>,
) -> Result<HttpResponse, Failure> {
    let scope = Scope::of(&caller);
    let query = Query::with_lists(req.query_string(), &["state", "user", "before", "limit"], &["state"])?;
    let states =
        query.get("state").map(|given| states(given, &StudyState::ALL, StudyState::as_str)).transpose()?;
    let limit = whole("limit", query.get("limit"), PAGE, u64::MAX)?.clamp(1, MAX_PAGE);
    let shared = service.shared();
    let before =
        query.get("before").map(|id| shared.find(&scope, id, |study| study.definition.number)).transpose()?;
    let belongs = |study: &&Study| {
        scope.has_user(study.definition.user())
            && states.as_ref().is_none_or(|states| states.contains(&study.progress.state))
            && query.get("user").is_none_or(|user| study.definition.user() == Some(user))
    };
    let page = shared.table.loaded(|table| {
        let mut found = table.newest(before.unwrap_or(u64::MAX)).filter(belongs);
        let limit = usize::try_from(limit).unwrap_or(1);
        let mut studies = Vec::<StudyRecord>::new();
        let mut bytes = 0;
        while studies.len() < limit
            && bytes < PAGE_BYTES
            && let Some(study) = found.next()
        {
            bytes += study.definition.document.bytes;
            studies.push(views::study(study));
        }
        let next = found.next().and(studies.last()).map(|last| last.id.clone());
        StudyPage { studies, next }
    })?;
    Ok(HttpResponse::Ok().json(page))
}

/// A study.
#[utoipa::path(
    get,
    path = "/api/studies/{id}",
    tag = "tuning",
    params(("id" = String, Path)),
    responses(
        (status = 200, description = "The study", body = StudyRecord),
        (status = 404, description = "There is no such study", body = Problem),
        (status = 503, description = "Not loaded yet", body = Problem),
    )
)]
pub async fn study(
    req: HttpRequest,
    caller: Principal,
    service: ThinData<TuningService>,
) -> Result<HttpResponse, Failure> {
    let record = service.shared().find(&Scope::of(&caller), segment(&req, "id"), views::study)?;
    Ok(HttpResponse::Ok().json(record))
}

/// Pauses a study: it gives no trials until it is resumed, and takes what those that run report and tell.
#[utoipa::path(
    post,
    path = "/api/studies/{id}/pause",
    tag = "tuning",
    params(("id" = String, Path)),
    responses(
        (status = 200, description = "The study; nothing changes if it is paused already", body = StudyRecord),
        (status = 404, description = "There is no such study", body = Problem),
        (status = 409, description = "It is over", body = Problem),
        (status = 503, description = "Not now; the detail says whether it may have taken effect", body = Problem),
    )
)]
pub async fn pause_study(
    req: HttpRequest,
    caller: Principal,
    service: ThinData<TuningService>,
) -> Result<HttpResponse, Failure> {
    steer(&req, &caller, &service, Step::Pause).await
}

/// Resumes a study that is paused.
#[utoipa::path(
    post,
    path = "/api/studies/{id}/resume",
    tag = "tuning",
    params(("id" = String, Path)),
    responses(
        (status = 200, description = "The study; nothing changes if it runs", body = StudyRecord),
        (status = 404, description = "There is no such study", body = Problem),
        (status = 409, description = "It is over", body = Problem),
        (status = 503, description = "Not now; the detail says whether it may have taken effect", body = Problem),
    )
)]
pub async fn resume_study(
    req: HttpRequest,
    caller: Principal,
    service: ThinData<TuningService>,
) -> Result<HttpResponse, Failure> {
    steer(&req, &caller, &service, Step::Resume).await
}

/// Stops a study for good: it gives no more trials, and takes what those that run report and tell.
#[utoipa::path(
    post,
    path = "/api/studies/{id}/stop",
    tag = "tuning",
    params(("id" = String, Path)),
    responses(
        (status = 200, description = "The study; nothing changes if it is over already", body = StudyRecord),
        (status = 404, description = "There is no such study", body = Problem),
        (status = 503, description = "Not now; the detail says whether it may have taken effect", body = Problem),
    )
)]
pub async fn stop_study(
    req: HttpRequest,
    caller: Principal,
    service: ThinData<TuningService>,
) -> Result<HttpResponse, Failure> {
    steer(&req, &caller, &service, Step::Stop).await
}

/// Deletes a study with all its trials. Its id is free at once.
#[utoipa::path(
    delete,
    path = "/api/studies/{id}",
    tag = "tuning",
    params(("id" = String, Path)),
    responses(
        (status = 204, description = "Deleted"),
        (status = 404, description = "There is no such study", body = Problem),
        (status = 503, description = "Not now; the detail says whether it may have taken effect", body = Problem),
    )
)]
pub async fn delete_study(
    req: HttpRequest,
    caller: Principal,
    service: ThinData<TuningService>,
) -> Result<HttpResponse, Failure> {
    service.steer(segment(&req, "id"), Scope::of(&caller), Step::Delete, &caller).await?;
    Ok(HttpResponse::NoContent().finish())
}

async fn steer(
    req: &HttpRequest,
    caller: &Principal,
    service: &TuningService,
    step: Step,
) -> Result<HttpResponse, Failure> {
    let record = service.steer(segment(req, "id"), Scope::of(caller), step, caller).await?;
    Ok(HttpResponse::Ok().json(record))
}

/// The importance of each parameter, the greatest first.
#[utoipa::path(
    get,
    path = "/api/studies/{id}/importance",
    tag = "tuning",
    params(("id" = String, Path)),
    responses(
        (status = 200, description = "A part of 1 for each parameter; none while there are fewer than 8 results, or they do not differ", body = StudyImportance),
        (status = 404, description = "There is no such study", body = Problem),
        (status = 503, description = "Not loaded yet", body = Problem),
    )
)]
pub async fn study_importance(
    req: HttpRequest,
    caller: Principal,
    service: ThinData<TuningService>,
) -> Result<HttpResponse, Failure> {
    let importance = service.importance(&Scope::of(&caller), segment(&req, "id")).await?;
    Ok(HttpResponse::Ok().json(importance))
}

/// The states that a query names.
pub fn states<S: Copy, const N: usize>(
    given: &str,
    all: &[S; N],
    name: fn(S) -> &'static str,
) -> Result<Vec<S>, Problem> {
    let state = |word: &str| {
        all.iter().copied().find(|state| name(*state).eq_ignore_ascii_case(word)).ok_or_else(|| {
            let expected = all.map(name).join(", ");
            let message = format!("has `{word}`, which is not a state");
            Problem::invalid_field(FieldError::new("state", message).expected(expected))
        })
    };
    given.split(',').map(str::trim).filter(|word| !word.is_empty()).map(state).collect()
}
