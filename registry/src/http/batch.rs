//! Changes of several registrations that take effect together or not at all.

use std::collections::{BTreeSet, HashMap};

use actix_web::web::ThinData;
use actix_web::{HttpRequest, HttpResponse};
use estimand_api::names::DataName;
use estimand_api::problem::{FieldError, Problem};
use estimand_api::registration::{
    Action, Batch, BatchAction, BatchOutcome, MAX_BATCH_BYTES, SubmittedRegistration,
};
use estimand_web::{Body, Failure, Principal, Query};

use super::change::add_hint;
use crate::Registry;
use crate::core::edit::{self, Ask, Occasion, Outcome, Protection};

/// Changes several registrations, all or nothing.
///
/// Those in `registrations` are registered, or replace what is there; those in `remove` are removed. All of it is checked
/// by what is there in the end, so their order does not matter, and stored in one transaction. What is so already is
/// `unchanged`. With `?dryRun=true` nothing is done, and the answer says what would be.
#[utoipa::path(
    patch,
    path = "/api/registry",
    tag = "registry",
    params(
        ("dryRun" = Option<bool>, Query, description = "Check all of it, and do nothing"),
        ("force" = Option<bool>, Query, description = "Remove names also if others read them or bindings serve them"),
    ),
    request_body(content = Batch, description = "The changes"),
    responses(
        (status = 200, description = "Done. `Estimand-Hint` says where the end of what was removed was not confirmed", body = [BatchOutcome]),
        (status = 400, description = "A registration is not valid, or no agent would run it; nothing was done", body = Problem),
        (status = 404, description = "A name that should be removed is not registered; nothing was done", body = Problem),
        (status = 409, description = "A version is not the current one, inputs form a cycle, a name is bound, or one that is to be removed is needed; nothing was done", body = Problem),
        (status = 413, description = "The body is too large", body = Problem),
        (status = 503, description = "Not now; the detail says whether it may have taken effect", body = Problem),
    )
)]
pub async fn batch(
    req: HttpRequest,
    caller: Principal,
    body: Body<MAX_BATCH_BYTES>,
    registry: ThinData<Registry>,
) -> Result<HttpResponse, Failure> {
    let query = Query::parse(req.query_string(), &["dryRun", "force"])?;
    let dry_run = query.flag("dryRun")?;
    let force = query.flag("force")?;
    let batch = Batch::parse(&body.0)?;
    check(&registry, &batch).await?;
    let protection = match batch.remove.is_empty() {
        true => Protection::Forced,
        false => registry.protection(force).await,
    };
    let asks = asks(batch);
    let outcomes = match dry_run {
        true => foresee(&registry, asks, &protection, &caller)?,
        false => registry.change(asks, protection, &caller).await?,
    };
    let mut response = HttpResponse::Ok();
    if !dry_run {
        let removed: Vec<&DataName> =
            outcomes.iter().filter(|outcome| outcome.after.is_none()).map(|outcome| &outcome.name).collect();
        add_hint(&mut response, registry.ended(&removed).await);
    }
    Ok(response.json(outcomes.iter().map(report).collect::<Vec<_>>()))
}

/// Rejects what one registration alone shows to be wrong; all of that at once.
async fn check(registry: &Registry, batch: &Batch) -> Result<(), Problem> {
    let names: BTreeSet<&DataName> =
        batch.registrations.iter().map(|one| &one.registration.data_name).collect();
    let mut errors = Vec::new();
    for (place, SubmittedRegistration { registration, .. }) in batch.registrations.iter().enumerate() {
        match registry.check_among(registration, &names).await {
            Ok(()) => {}
            Err(problem) if problem.errors.is_empty() => return Err(problem),
            Err(problem) => errors.extend(problem.errors.into_iter().map(|error| {
                let field = format!("registrations[{place}].{}", error.field);
                FieldError { field, ..error }
            })),
        }
    }
    if !errors.is_empty() {
        return Err(Problem::invalid(errors));
    }
    let registrations = registry.registrations()?;
    let new = names.into_iter().filter(|name| registrations.get(name.as_str()).is_none());
    registry.check_unbound(&new.collect::<Vec<_>>()).await
}

fn asks(batch: Batch) -> Vec<Ask> {
    let Batch { registrations, remove, config_set } = batch;
    let put = registrations.into_iter().map(|SubmittedRegistration { registration, version }| Ask::Put {
        registration,
        version,
        set: config_set.clone(),
    });
    put.chain(remove.into_iter().map(Ask::Remove)).collect()
}

/// Decides as the writer would now, and stores nothing. Versions of deleted names are not known here.
fn foresee(
    registry: &Registry,
    asks: Vec<Ask>,
    protection: &Protection,
    caller: &Principal,
) -> Result<Vec<Outcome>, Problem> {
    let (by, versions) = (caller.to_string(), HashMap::new());
    let now = crate::storage::rows::instant(registry.0.shared.clock.now_micros());
    let occasion = Occasion { now, by: &by, versions: &versions };
    Ok(edit::decide(&*registry.registrations()?, asks, protection, occasion)?)
}

fn report(outcome: &Outcome) -> BatchOutcome {
    let Outcome { name, edit, after } = outcome;
    let (action, version) = match edit {
        None => (BatchAction::Unchanged, after.as_ref().map_or(0, |entry| entry.registered.version)),
        Some(edit) => {
            let action = match edit.action {
                Action::Created => BatchAction::Created,
                Action::Replaced => BatchAction::Replaced,
                Action::Deleted => BatchAction::Deleted,
            };
            (action, edit.version)
        }
    };
    BatchOutcome { data_name: name.clone(), outcome: action, version }
}
