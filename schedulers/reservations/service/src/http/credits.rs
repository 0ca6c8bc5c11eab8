//! Credits: balances, the journal, and grants.

use actix_web::web::ThinData;
use actix_web::{HttpRequest, HttpResponse};
use estimand_api::fields::Fields;
use estimand_api::json::parse_object;
use estimand_api::problem::Problem;
use estimand_api::reservation::{CreditAccount, CreditAccounts, CreditEntry, CreditGrant, CreditJournal};
use estimand_reservations::Money;
use estimand_service::rows;
use estimand_store::CreditEntryRow;
use estimand_web::parameters::{MAX_KEY_BYTES, idempotency_key, whole};
use estimand_web::{Body, Failure, Principal, Query, Scope};

use crate::ReservationService;
use crate::credits::{HELD, INCOME};
use crate::document::{credits, user};
use crate::storage::rows::{column, known};

const MAX_GRANT_BYTES: usize = 4 * 1024;
/// The most entries on a page, and how many there are if nothing is said.
const MAX_PAGE: u64 = 1_000;
const PAGE: u64 = 100;

/// The balances of all users, or of one. A user sees their own.
#[utoipa::path(
    get,
    path = "/api/credits",
    tag = "reservations",
    params(("user" = Option<String>, Query, description = "Only the account of this user, which has 0 credits if it never had any")),
    responses(
        (status = 200, description = "The accounts, in the order of their names", body = CreditAccounts),
        (status = 400, description = "The query is not valid", body = Problem),
        (status = 503, description = "Not loaded yet", body = Problem),
    )
)]
pub async fn balances(
    req: HttpRequest,
    caller: Principal,
    service: ThinData<ReservationService>,
) -> Result<HttpResponse, Failure> {
    let scope = Scope::of(&caller);
    let query = Query::parse(req.query_string(), &["user"])?;
    let account =
        |user: &str, balance: Money| CreditAccount { user: user.to_owned(), balance: balance.to_string() };
    let wanted = query.get("user").or(scope.user());
    let accounts = service.shared().table.loaded(|table| {
        let all = &table.credits;
        let accounts = match wanted {
            // To a user others have no accounts.
            Some(user) if !scope.has_user(Some(user)) => Vec::new(),
            Some(user) => vec![account(user, all.balance(user))],
            None => all.users().map(|(user, balance)| account(user, balance)).collect(),
        };
        match scope.user() {
            Some(user) => {
                CreditAccounts { accounts, granted: None, held: table.held(user).to_string(), income: None }
            }
            None => CreditAccounts {
                accounts,
                granted: Some(all.granted().to_string()),
                held: all.balance(HELD).to_string(),
                income: Some(all.balance(INCOME).to_string()),
            },
        }
    })?;
    Ok(HttpResponse::Ok().json(accounts))
}

/// The journal of credits, the newest entries first. A user sees what they paid or got.
#[utoipa::path(
    get,
    path = "/api/credits/journal",
    tag = "reservations",
    params(
        ("user" = Option<String>, Query, description = "Only what this user paid or got"),
        ("before" = Option<u64>, Query, description = "Only entries before this number: the `next` of the page before"),
        ("limit" = Option<u64>, Query, description = "At most so many; 100 if absent, and never more than 1,000"),
    ),
    responses(
        (status = 200, description = "A page of the journal", body = CreditJournal),
        (status = 400, description = "The query is not valid", body = Problem),
        (status = 503, description = "The database does not answer", body = Problem),
    )
)]
pub async fn journal(
    req: HttpRequest,
    caller: Principal,
    service: ThinData<ReservationService>,
) -> Result<HttpResponse, Failure> {
    let query = Query::parse(req.query_string(), &["user", "before", "limit"])?;
    let before = whole("before", query.get("before"), u64::MAX, u64::MAX)?;
    let limit = whole("limit", query.get("limit"), PAGE, u64::MAX)?.clamp(1, MAX_PAGE);
    let scope = Scope::of(&caller);
    let user = query.get("user").or(scope.user());
    if !user.is_none_or(|user| scope.has_user(Some(user))) {
        return Ok(HttpResponse::Ok().json(CreditJournal::default()));
    }
    let rows = service.entries(user.map(str::to_owned), column(before), column(limit)).await?;
    let is_last = (rows.len() as u64) < limit;
    let next = rows.last().filter(|_| !is_last).map(|row| known(row.number));
    let entries = rows.into_iter().map(entry).collect();
    Ok(HttpResponse::Ok().json(CreditJournal { entries, next }))
}

/// Grants credits to a user.
#[utoipa::path(
    post,
    path = "/api/credits/grants",
    tag = "reservations",
    params(("Idempotency-Key" = Option<String>, Header, description = "A key of the caller's own: sent again, nothing more is granted")),
    request_body(content = CreditGrant, description = "The user and the amount"),
    responses(
        (status = 200, description = "They were granted with this key before; the account as it is", body = CreditAccount),
        (status = 201, description = "Granted, and stored; the account afterwards", body = CreditAccount),
        (status = 400, description = "The body is not valid; every error is listed", body = Problem),
        (status = 409, description = "The key was given with another grant, or there would be more credits than can be counted", body = Problem),
        (status = 413, description = "The body is too large", body = Problem),
        (status = 503, description = "Not now; the detail says whether it may have taken effect", body = Problem),
    )
)]
pub async fn grant(
    req: HttpRequest,
    caller: Principal,
    body: Body<MAX_GRANT_BYTES>,
    service: ThinData<ReservationService>,
) -> Result<HttpResponse, Failure> {
    let key = idempotency_key(&req, MAX_KEY_BYTES)?;
    let (to, amount) = body.parse(parse).await?;
    let (balance, is_new) = service.grant(to.clone(), amount, key, caller.to_string()).await?;
    tracing::info!(user = to, %amount, by = %caller, is_new, "credits are granted");
    let mut response = if is_new { HttpResponse::Created() } else { HttpResponse::Ok() };
    Ok(response.json(CreditAccount { user: to, balance: balance.to_string() }))
}

fn parse(body: &[u8]) -> Result<(String, Money), Problem> {
    let mut fields = Fields::new(parse_object(body)?);
    let to = fields.required("user", "a text of 1 to 255 bytes that does not begin with `(`", user);
    let amount = fields.required("amount", "more than 0 credits, such as 100 or \"2.5\"", |value| {
        credits(value).and_then(|amount| match amount {
            Money::ZERO => Err("is nothing".to_owned()),
            amount => Ok(amount),
        })
    });
    fields.end_body()?;
    Ok((to.unwrap_or_default(), amount.unwrap_or_default()))
}

fn entry(row: CreditEntryRow) -> CreditEntry {
    CreditEntry {
        number: known(row.number),
        at: rows::instant(row.at),
        from: row.payer,
        to: row.payee,
        amount: Money::microcredits(known(row.amount)).to_string(),
        reason: row.reason,
        reservation: row.reservation.map(|number| format!("r{number}")),
        by: row.actor,
    }
}
