//! Trials: asking for them, reporting on the way, telling how they ended, and looking at them.

use std::sync::Arc;

use actix_web::web::ThinData;
use actix_web::{HttpRequest, HttpResponse};
use estimand_api::fields::{self, Fields};
use estimand_api::json::{kind_of, parse_object};
use estimand_api::problem::{FieldError, Problem};
use estimand_api::study::{
    ReportAnswer, TrialEnd, TrialPage, TrialQuestion, TrialRecord, TrialReport, TrialsAsked,
};
use estimand_tuning::{Measure, Report, TrialNumber};
use estimand_web::parameters::{idempotency_key, parsed, whole};
use estimand_web::{Body, Failure, Principal, Query, Scope, segment};
use serde_json::Value;

use super::studies::states;
use crate::TuningService;
use crate::asking::Question;
use crate::change::{Rejection, nothing_complete};
use crate::requests::{ReportValue, Tell, TrialEnding};
use crate::trial::{Trial, TrialState};
use crate::views;

const MAX_BODY_BYTES: usize = 16 * 1024;
/// The most trials on a page, and how many there are if nothing is said.
const MAX_PAGE: u64 = 1_000;
const PAGE: u64 = 100;
/// The most trials of one question.
const MAX_ASKED: u64 = 100;
/// Steps in JSON are exact up to there.
const MAX_STEP: u64 = 1 << 53;
const MAX_REASON_BYTES: usize = 4_096;

/// Asks for trials.
///
/// Whoever asks runs them and tells how they ended. The answer has fewer than were asked for where the study has no more, or
/// has not proposed so many yet. With a key, the same question gives the same trials.
#[utoipa::path(
    post,
    path = "/api/studies/{id}/ask",
    tag = "tuning",
    params(
        ("id" = String, Path),
        ("Idempotency-Key" = Option<String>, Header, description = "A key of the caller's own: sent again, it gives the same trials"),
    ),
    request_body(content = Option<TrialQuestion>, description = "How many; 1 without a body"),
    responses(
        (status = 200, description = "The trials, stored; `done`: there will never be more", body = TrialsAsked),
        (status = 400, description = "The body or the key is not valid", body = Problem),
        (status = 404, description = "There is no such study", body = Problem),
        (status = 409, description = "The user's share is used up (`share-full`)", body = Problem),
        (status = 503, description = "Not now; the detail says whether it may have taken effect", body = Problem),
    )
)]
pub async fn ask(
    req: HttpRequest,
    caller: Principal,
    body: Body<MAX_BODY_BYTES>,
    service: ThinData<TuningService>,
) -> Result<HttpResponse, Failure> {
    let scope = Scope::of(&caller);
    let key = idempotency_key(&req, scope.longest_key())?.map(|key| scope.key(key));
    let count = body.parse(count).await?;
    let question = Question { id: segment(&req, "id").to_owned(), scope, count, key };
    let (trials, done, state) = service.ask(question).await?;
    let trials = trials.iter().map(|trial| views::trial(trial)).collect();
    Ok(HttpResponse::Ok().json(TrialsAsked { trials, done, state: state.as_str().to_owned() }))
}

fn count(body: &[u8]) -> Result<u64, Problem> {
    if body.is_empty() {
        return Ok(1);
    }
    let mut fields = Fields::new(parse_object(body)?);
    let expected = format!("a whole number from 1 to {MAX_ASKED}");
    let count = fields.optional("count", &expected, |value| fields::whole(value, 1, MAX_ASKED));
    fields.end_body()?;
    Ok(count.unwrap_or(1))
}

/// Reports a value of a trial that runs, and says whether it should stop.
#[utoipa::path(
    post,
    path = "/api/studies/{id}/trials/{number}/report",
    tag = "tuning",
    params(("id" = String, Path), ("number" = u64, Path)),
    request_body(content = TrialReport, description = "The value at a step; steps grow"),
    responses(
        (status = 200, description = "Stored; `stop`: the pruner of the study ends the trial", body = ReportAnswer),
        (status = 400, description = "The body is not valid", body = Problem),
        (status = 404, description = "There is no such trial", body = Problem),
        (status = 409, description = "It does not run, the step is before the last one, or was reported with another value", body = Problem),
        (status = 503, description = "Not now; the detail says whether it may have taken effect", body = Problem),
    )
)]
pub async fn report(
    req: HttpRequest,
    caller: Principal,
    body: Body<MAX_BODY_BYTES>,
    service: ThinData<TuningService>,
) -> Result<HttpResponse, Failure> {
    let (id, trial) = trial_of(&req)?;
    let report = body
        .parse(|bytes| {
            let mut fields = Fields::new(parse_object(bytes)?);
            let step = fields.required("step", "a whole number, such as an epoch", |value| {
                fields::whole(value, 0, MAX_STEP)
            });
            let measure = fields.required("value", VALUE, measure);
            fields.end_body()?;
            step.zip(measure).map(|(step, measure)| Report { step, measure }).ok_or_else(Problem::internal)
        })
        .await?;
    let stop = service.report(ReportValue { id, scope: Scope::of(&caller), trial, report }).await?;
    Ok(HttpResponse::Ok().json(ReportAnswer { stop }))
}

const VALUE: &str =
    "a finite number; a trial that has none is told as failed: {\"failed\": \"the loss is NaN\"}";

fn measure(value: &Value) -> Result<Measure, String> {
    let number = match value {
        // Writers of JSON have no other way to put them.
        Value::String(text) if text.parse::<f64>().is_ok_and(|number| !number.is_finite()) => {
            return Err(format!("is {text}, which is not finite"));
        }
        other => fields::number(other)?,
    };
    Measure::new(number).map_err(|error| error.to_string())
}

/// Tells the one result of a trial.
#[utoipa::path(
    post,
    path = "/api/studies/{id}/trials/{number}/tell",
    tag = "tuning",
    params(("id" = String, Path), ("number" = u64, Path)),
    request_body(content = TrialEnd, description = "One of `value`, `pruned` and `failed`"),
    responses(
        (status = 200, description = "The trial; nothing changes if it ended so already", body = TrialRecord),
        (status = 400, description = "The body is not valid", body = Problem),
        (status = 404, description = "There is no such trial", body = Problem),
        (status = 409, description = "It has another result", body = Problem),
        (status = 503, description = "Not now; the detail says whether it may have taken effect", body = Problem),
    )
)]
pub async fn tell(
    req: HttpRequest,
    caller: Principal,
    body: Body<MAX_BODY_BYTES>,
    service: ThinData<TuningService>,
) -> Result<HttpResponse, Failure> {
    let (id, trial) = trial_of(&req)?;
    let ending = body.parse(ending).await?;
    let told = service.tell(Tell { id, scope: Scope::of(&caller), trial, ending }).await?;
    Ok(HttpResponse::Ok().json(views::trial(&told)))
}

fn ending(body: &[u8]) -> Result<TrialEnding, Problem> {
    let mut fields = Fields::new(parse_object(body)?);
    let given = ["value", "pruned", "failed"].into_iter().filter(|name| fields.value(name).is_some()).count();
    let value = fields.optional("value", VALUE, measure);
    let pruned = fields.optional("pruned", "true, or nothing", |value| match value {
        Value::Bool(true) => Ok(()),
        other => Err(format!("is {}", if other.is_boolean() { "false" } else { kind_of(other) })),
    });
    let failed =
        fields.optional("failed", "the reason, in words", |value| fields::text(value, MAX_REASON_BYTES));
    if given != 1 {
        let error = FieldError::new("body", format!("has {given} of `value`, `pruned` and `failed`"));
        fields.extend(vec![error.expected("exactly one of them, such as {\"value\": 0.93}")]);
    }
    fields.end_body()?;
    let pruned = pruned.map(|()| TrialEnding::Pruned);
    let ending = value.map(TrialEnding::Complete).or(pruned).or(failed.map(TrialEnding::Failed));
    ending.ok_or_else(Problem::internal)
}

/// The study and the trial of a path.
fn trial_of(req: &HttpRequest) -> Result<(String, TrialNumber), Problem> {
    Ok((segment(req, "id").to_owned(), parsed("number", segment(req, "number"))?))
}

/// Trials of a study by ascending number, in pages, without their reports.
#[utoipa::path(
    get,
    path = "/api/studies/{id}/trials",
    tag = "tuning",
    params(
        ("id" = String, Path),
        ("state" = Option<String>, Query, description = "Only those in these states, with commas between them, such as `COMPLETE,PRUNED`"),
        ("after" = Option<u64>, Query, description = "Only those with a greater number: the `next` of the page before"),
        ("limit" = Option<u64>, Query, description = "At most so many; 100 if absent, and never more than 1,000"),
    ),
    responses(
        (status = 200, description = "A page of trials", body = TrialPage),
        (status = 400, description = "The query is not valid", body = Problem),
        (status = 404, description = "There is no such study", body = Problem),
        (status = 503, description = "Not loaded yet", body = Problem),
    )
)]
pub async fn list_trials(
    req: HttpRequest,
    caller: Principal,
    service: ThinData<TuningService>,
) -> Result<HttpResponse, Failure> {
    let query = Query::with_lists(req.query_string(), &["state", "after", "limit"], &["state"])?;
    let states =
        query.get("state").map(|given| states(given, &TrialState::ALL, TrialState::as_str)).transpose()?;
    let limit = whole("limit", query.get("limit"), PAGE, u64::MAX)?.clamp(1, MAX_PAGE);
    let after = query.get("after").map(|_| whole("after", query.get("after"), 0, MAX_STEP)).transpose()?;
    let trials =
        service.shared().find(&Scope::of(&caller), segment(&req, "id"), |study| study.trials.clone())?;
    let belongs =
        |trial: &&Arc<Trial>| states.as_ref().is_none_or(|states| states.contains(&trial.progress.state));
    let mut found = trials.since(after.map_or(0, |after| after + 1)).filter(belongs);
    let page = found.by_ref().take(usize::try_from(limit).unwrap_or(1)).map(|trial| views::trial(trial));
    let trials: Vec<TrialRecord> = page.collect();
    let next = found.next().and(trials.last()).map(|last| last.number);
    Ok(HttpResponse::Ok().json(TrialPage { trials, next }))
}

/// A trial with its reports.
#[utoipa::path(
    get,
    path = "/api/studies/{id}/trials/{number}",
    tag = "tuning",
    params(("id" = String, Path), ("number" = u64, Path)),
    responses(
        (status = 200, description = "The trial", body = TrialRecord),
        (status = 404, description = "There is no such trial", body = Problem),
        (status = 503, description = "Not loaded yet", body = Problem),
    )
)]
pub async fn trial(
    req: HttpRequest,
    caller: Principal,
    service: ThinData<TuningService>,
) -> Result<HttpResponse, Failure> {
    let (study, trial) = trial_of(&req)?;
    let found =
        service.shared().find(&Scope::of(&caller), &study, |study| study.trials.get(trial).cloned())?;
    let found = found.ok_or_else(|| Problem::from(Rejection::UnknownTrial { study, trial }))?;
    Ok(HttpResponse::Ok().json(views::trial_with_reports(&found)))
}

/// The trial with the best value, with its reports.
#[utoipa::path(
    get,
    path = "/api/studies/{id}/best",
    tag = "tuning",
    params(("id" = String, Path)),
    responses(
        (status = 200, description = "The trial", body = TrialRecord),
        (status = 404, description = "There is no such study, or no complete trial yet (`not-as-asked`)", body = Problem),
        (status = 503, description = "Not loaded yet", body = Problem),
    )
)]
pub async fn best_trial(
    req: HttpRequest,
    caller: Principal,
    service: ThinData<TuningService>,
) -> Result<HttpResponse, Failure> {
    let id = segment(&req, "id");
    let best = service.shared().find(&Scope::of(&caller), id, |study| {
        study.best.and_then(|best| study.trials.get(best.number).cloned())
    })?;
    let best = best.ok_or_else(|| nothing_complete(id))?;
    Ok(HttpResponse::Ok().json(views::trial_with_reports(&best)))
}
