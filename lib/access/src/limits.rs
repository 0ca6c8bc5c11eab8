//! The limits of users: stored by operators, read with the tokens by every service, and given to [`Users`], by which each
//! service counts what it owns.

use std::collections::{BTreeSet, HashMap};

use actix_web::web::ThinData;
use actix_web::{HttpRequest, HttpResponse};
use estimand_api::json::parse_object;
use estimand_api::names::UserName;
use estimand_api::problem::Problem;
use estimand_api::share::{LimitChanges, Limits, UserLimits, path_user};
use estimand_store::{AuditRow, UserLimitRow};
use estimand_web::{Body, Failure, Principal, segment};
use serde_json::{Map, Value};

use crate::{Access, digest, unreachable};

const MAX_BODY_BYTES: usize = 16 * 1024;
/// More users than any cluster has; a bound, so that nothing grows without one.
const MAX_LIMITED_USERS: usize = 20_000;

/// The limits in rows, by user. Some that cannot be read are logged, and the defaults count.
pub fn of_rows(rows: &[UserLimitRow]) -> HashMap<String, Limits> {
    rows.iter().map(|row| (row.user_name.clone(), read(&row.user_name, &row.limits))).collect()
}

fn read(user: &str, stored: &str) -> Limits {
    let map: Map<String, Value> = serde_json::from_str(stored)
        .inspect_err(|error| tracing::warn!(user, %error, "the limits of a user cannot be read"))
        .unwrap_or_default();
    Limits::from_stored(&map)
}

/// The limits of all users that have a token or limits, by name.
#[utoipa::path(
    get,
    path = "/api/users",
    tag = "access",
    responses(
        (status = 200, description = "The limits that are set", body = [UserLimits]),
        (status = 503, description = "Not now; see `Retry-After`", body = Problem),
    )
)]
pub async fn list(access: ThinData<Access>) -> Result<HttpResponse, Failure> {
    let tokens = access.0.0.tokens.load_full();
    let Some(rows) = tokens.stored() else {
        return Err(Problem::unavailable("the tokens are not loaded yet", 1).into());
    };
    let limited = access.0.0.users.all();
    let names = rows.iter().filter(|row| row.revoked_at.is_none()).filter_map(|row| row.user_name.as_deref());
    let named = limited.iter().filter(|user| !user.limits().is_empty()).map(|user| user.name());
    let names: BTreeSet<&str> = names.chain(named).collect();
    let all: Vec<UserLimits> = names.into_iter().map(|name| view(&access, name)).collect();
    Ok(HttpResponse::Ok().json(all))
}

/// The limits of a user.
#[utoipa::path(
    get,
    path = "/api/users/{name}",
    tag = "access",
    params(("name" = UserName, Path, description = "The user")),
    responses(
        (status = 200, description = "The limits that are set; the defaults count for all others", body = UserLimits),
        (status = 400, description = "It is no name of a user", body = Problem),
    )
)]
pub async fn get(req: HttpRequest, access: ThinData<Access>) -> Result<HttpResponse, Failure> {
    let user = path_user(segment(&req, "name"))?;
    Ok(HttpResponse::Ok().json(view(&access, user.as_str())))
}

/// Changes limits of a user: those that are named, to a number, or with `null` to the default.
#[utoipa::path(
    patch,
    path = "/api/users/{name}",
    tag = "access",
    params(("name" = UserName, Path, description = "The user")),
    request_body(content = LimitChanges, description = "The limits that change"),
    responses(
        (status = 200, description = "They count here at once, at other services after two seconds; what is there stays", body = UserLimits),
        (status = 400, description = "The request is not valid", body = Problem),
        (status = 409, description = "Too many users have limits", body = Problem),
        (status = 503, description = "Not now; see `Retry-After`", body = Problem),
    )
)]
pub async fn change(
    req: HttpRequest,
    caller: Principal,
    body: Body<MAX_BODY_BYTES>,
    access: ThinData<Access>,
) -> Result<HttpResponse, Failure> {
    let user = path_user(segment(&req, "name"))?;
    let changes = LimitChanges::from_map(parse_object(&body.0)?)?;
    store(&access, user.as_str(), Some(changes), &caller).await?;
    Ok(HttpResponse::Ok().json(view(&access, user.as_str())))
}

/// Lets the defaults count for a user.
#[utoipa::path(
    delete,
    path = "/api/users/{name}",
    tag = "access",
    params(("name" = UserName, Path, description = "The user")),
    responses(
        (status = 200, description = "The defaults count. Tokens, tasks and files of the user stay", body = UserLimits),
        (status = 400, description = "It is no name of a user", body = Problem),
        (status = 503, description = "Not now; see `Retry-After`", body = Problem),
    )
)]
pub async fn reset(
    req: HttpRequest,
    caller: Principal,
    access: ThinData<Access>,
) -> Result<HttpResponse, Failure> {
    let user = path_user(segment(&req, "name"))?;
    store(&access, user.as_str(), None, &caller).await?;
    Ok(HttpResponse::Ok().json(view(&access, user.as_str())))
}

/// None: no limits any more.
async fn store(
    access: &Access,
    user: &str,
    changes: Option<LimitChanges>,
    by: &Principal,
) -> Result<(), Problem> {
    let _turn = access.0.turn.lock().await;
    let limited = access.0.users.all().iter().filter(|user| !user.limits().is_empty()).count();
    if changes.is_some() && limited >= MAX_LIMITED_USERS {
        return Err(Problem::conflict(format!(
            "{MAX_LIMITED_USERS} users have limits, and more are not kept"
        )));
    }
    let at = access.0.clock.now_micros();
    let actor = estimand_store::actor(by);
    let named = user.to_owned();
    let stored = access.0.worker.run(move |connection| {
        let change = |stored: Option<&str>| {
            let mut limits = stored.map(|stored| read(&named, stored)).unwrap_or_default();
            limits.change(changes.as_ref()?);
            (!limits.is_empty()).then(|| Value::Object(limits.to_map()).to_string())
        };
        let told = |limits: Option<&str>| AuditRow {
            at,
            id: digest::random_id(),
            kind: "user".to_owned(),
            subject: named.clone(),
            action: if limits.is_some() { "limited" } else { "unlimited" }.to_owned(),
            actor: actor.clone(),
            detail: limits.map(str::to_owned),
        };
        connection.change_user_limits(&named, change, told)
    });
    stored.await.map_err(|error| unreachable(&error))?;
    tracing::info!(user, %by, "the limits of a user were changed");
    access.load().await.map_err(|error| unreachable(&error))
}

fn view(access: &Access, user: &str) -> UserLimits {
    let limits = access.0.users.find(user).map(|user| user.limits()).unwrap_or_default();
    UserLimits::new(user, &limits)
}
