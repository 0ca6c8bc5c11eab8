//! Quotes and changes: making reservations, changing one, bidding more for it, giving it up. Each change is answered when it is durable.

use std::sync::Arc;

use actix_web::http::header::LOCATION;
use actix_web::web::ThinData;
use actix_web::{HttpRequest, HttpResponse};
use estimand_api::fields::{self, Fields};
use estimand_api::json::parse_object;
use estimand_api::problem::{FieldError, Problem};
use estimand_api::reservation::{PriceQuote, PriceQuotes, ReservationRecord, ReservationsMade};
use estimand_reservations::Money;
use estimand_web::parameters::idempotency_key;
use estimand_web::{Body, Failure, Principal, Scope, segment};

use super::views;
use crate::ReservationService;
use crate::desk::{ChangeRequest, ReserveRequest};
use crate::document::{
    Document, ListDocument, MAX_DOCUMENT_BYTES, ReservationChange, ReservationDocument, ReservationList,
    credits,
};
use crate::requests::Opened;

const MAX_BID_BYTES: usize = 4 * 1024;
/// The largest list.
const MAX_LIST_BYTES: usize = 1024 * 1024;

/// Reserves, or with `dryRun` says what it would cost.
///
/// It is the caller's; an operator may say who pays.
#[utoipa::path(
    post,
    path = "/api/reservations",
    tag = "reservations",
    params(("Idempotency-Key" = Option<String>, Header, description = "A key of the caller's own: sent again with the same document, it gives the reservation that it made before")),
    request_body(content = ReservationDocument, description = "What is asked for"),
    responses(
        (status = 200, description = "With `dryRun`, the price; else it was reserved with this key before", body = PriceQuote),
        (status = 201, description = "Reserved, and stored; the header `Location` says where it is", body = ReservationRecord),
        (status = 400, description = "The document is not valid; every error is listed", body = Problem),
        (status = 403, description = "The document has the name of another user, or a field of its task that is for operators", body = Problem),
        (status = 409, description = "It costs more than it is worth (`price-above-value`), there is no such time (`infeasible`), the account has too few credits (`too-few-credits`), or the user's share is used up (`share-full`); `errors` or the detail says what would do. Or the key was given with another document", body = Problem),
        (status = 413, description = "The body is too large", body = Problem),
        (status = 503, description = "Not now; the detail says whether it may have taken effect", body = Problem),
    )
)]
pub async fn reserve(
    req: HttpRequest,
    caller: Principal,
    body: Body<MAX_DOCUMENT_BYTES>,
    service: ThinData<ReservationService>,
) -> Result<HttpResponse, Failure> {
    let scope = Scope::of(&caller);
    let key = idempotency_key(&req, scope.longest_key())?.map(|key| scope.key(key));
    let now = service.shared().clock.now_micros();
    let mut document = body.parse(move |bytes| Document::parse(bytes, now)).await?;
    document.claim(&scope, "")?;
    if document.dry_run {
        return Ok(HttpResponse::Ok().json(service.quote(&document, &scope)?));
    }
    let account = document.user.clone().unwrap_or_else(|| caller.name().into_owned());
    let documents = vec![Arc::new(document)];
    let request = ReserveRequest { documents, list: None, key, account, scope, by: caller.to_string() };
    let (mut response, reservations) = match service.reserve(request).await? {
        Opened::New(reservations) => (HttpResponse::Created(), reservations),
        Opened::Known(reservations) => (HttpResponse::Ok(), reservations),
    };
    let reservation = &reservations[0];
    response.insert_header((LOCATION, format!("/api/reservations/{}", reservation.id)));
    Ok(response.json(views::record(reservation)))
}

/// Reserves all requests of a list, or none; or with `dryRun` says what they would cost.
///
/// Each is priced with those before it promised. The value is what all of them together are worth. They are reservations of their
/// own then.
#[utoipa::path(
    post,
    path = "/api/reservations/lists",
    tag = "reservations",
    params(("Idempotency-Key" = Option<String>, Header, description = "A key of the caller's own: sent again with the same list, it gives the reservations that it made before")),
    request_body(content = ListDocument, description = "The requests"),
    responses(
        (status = 200, description = "With `dryRun`, the prices; else they were reserved with this key before", body = PriceQuotes),
        (status = 201, description = "Reserved, and stored", body = ReservationsMade),
        (status = 400, description = "The list is not valid; every error is listed", body = Problem),
        (status = 403, description = "The list has the name of another user, or a field of a task that is for operators", body = Problem),
        (status = 409, description = "All together cost more than they are worth (`price-above-value`), one of them has no such time (`infeasible`), the account has too few credits (`too-few-credits`), or the user's share is used up (`share-full`); `errors` or the detail says what would do. Or the key was given with another list", body = Problem),
        (status = 413, description = "The body is too large", body = Problem),
        (status = 503, description = "Not now; the detail says whether it may have taken effect", body = Problem),
    )
)]
pub async fn reserve_list(
    req: HttpRequest,
    caller: Principal,
    body: Body<MAX_LIST_BYTES>,
    service: ThinData<ReservationService>,
) -> Result<HttpResponse, Failure> {
    let scope = Scope::of(&caller);
    let key = idempotency_key(&req, scope.longest_key())?.map(|key| scope.key(key));
    let now = service.shared().clock.now_micros();
    let mut list = body.parse(move |bytes| ReservationList::parse(bytes, now)).await?;
    scope.claim("user", &mut list.user)?;
    for (place, document) in list.documents.iter_mut().enumerate() {
        document.claim(&scope, &format!("allOrNone[{place}]."))?;
    }
    if list.dry_run {
        return Ok(HttpResponse::Ok().json(service.quote_list(&list, &scope)?));
    }
    let request = ReserveRequest {
        account: list.user.unwrap_or_else(|| caller.name().into_owned()),
        documents: list.documents.into_iter().map(Arc::new).collect(),
        list: Some(list.value.unwrap_or_default()),
        key,
        scope,
        by: caller.to_string(),
    };
    let (mut response, reservations) = match service.reserve(request).await? {
        Opened::New(reservations) => (HttpResponse::Created(), reservations),
        Opened::Known(reservations) => (HttpResponse::Ok(), reservations),
    };
    Ok(response.json(views::list(&reservations)))
}

/// Another window, width, length or value for a reservation whose time is to come, or with `dryRun` the price of that.
///
/// It is priced anew as if its promise was not there, and gets the cheapest start. What it costs more is held, what it costs less is
/// given back but for a twentieth. If it is refused, the reservation stays as it was.
#[utoipa::path(
    post,
    path = "/api/reservations/{id}/change",
    tag = "reservations",
    params(("id" = String, Path)),
    request_body(content = ReservationChange, description = "The fields that change; those that are absent stay, and null stands for a field's default"),
    responses(
        (status = 200, description = "The reservation; with `dryRun` its price", body = ReservationRecord),
        (status = 400, description = "The body is not valid; every error is listed", body = Problem),
        (status = 404, description = "There is no such reservation", body = Problem),
        (status = 409, description = "Its time has come; or it costs more than it is worth (`price-above-value`), there is no such time (`infeasible`), the account has too few credits (`too-few-credits`), or the user's share is used up (`share-full`); `errors` or the detail says what would do", body = Problem),
        (status = 413, description = "The body is too large", body = Problem),
        (status = 503, description = "Not now; the detail says whether it may have taken effect", body = Problem),
    )
)]
pub async fn change_reservation(
    req: HttpRequest,
    caller: Principal,
    body: Body<MAX_BID_BYTES>,
    service: ThinData<ReservationService>,
) -> Result<HttpResponse, Failure> {
    let (id, scope) = (segment(&req, "id").to_owned(), Scope::of(&caller));
    let change = body.parse(parse_object).await?;
    let is_dry = match change.get("dryRun").filter(|value| !value.is_null()) {
        None => false,
        Some(value) => fields::truth(value).map_err(|message| {
            Problem::invalid_field(FieldError::new("dryRun", message).given(value).expected("true or false"))
        })?,
    };
    let request = ChangeRequest { id, change, scope, by: caller.to_string() };
    if is_dry {
        return Ok(HttpResponse::Ok().json(service.quote_change(&request)?));
    }
    let reservation = service.change_reservation(request).await?;
    Ok(HttpResponse::Ok().json(views::record(&reservation)))
}

/// Another value for a reservation.
///
/// The price stays. What is worth more is kept if capacity is lost.
#[utoipa::path(
    post,
    path = "/api/reservations/{id}/bid",
    tag = "reservations",
    params(("id" = String, Path)),
    request_body(content = Object, description = "The new value: `{\"value\": 40}`"),
    responses(
        (status = 200, description = "The reservation", body = ReservationRecord),
        (status = 400, description = "The body is not valid", body = Problem),
        (status = 404, description = "There is no such reservation", body = Problem),
        (status = 409, description = "It is over, or the value is below its price", body = Problem),
        (status = 503, description = "Not now; the detail says whether it may have taken effect", body = Problem),
    )
)]
pub async fn bid(
    req: HttpRequest,
    caller: Principal,
    body: Body<MAX_BID_BYTES>,
    service: ThinData<ReservationService>,
) -> Result<HttpResponse, Failure> {
    let id = segment(&req, "id").to_owned();
    let value: Money = body
        .parse(|bytes| {
            let mut fields = Fields::new(parse_object(bytes)?);
            let value = fields.required("value", "credits, such as 30 or \"2.5\"", credits);
            fields.end_body()?;
            Ok(value.unwrap_or_default())
        })
        .await?;
    let reservation = service.rebid(id, value, Scope::of(&caller), caller.to_string()).await?;
    Ok(HttpResponse::Ok().json(views::record(&reservation)))
}

/// Gives a reservation up: its promise is released, and the price of the time that is left is given back but for a fee of a twentieth.
///
/// After its start that is so unless the operator keeps it.
#[utoipa::path(
    post,
    path = "/api/reservations/{id}/cancel",
    tag = "reservations",
    params(("id" = String, Path)),
    responses(
        (status = 200, description = "The reservation; nothing changes if it is over already", body = ReservationRecord),
        (status = 404, description = "There is no such reservation", body = Problem),
        (status = 409, description = "It is being promised", body = Problem),
        (status = 503, description = "Not now; the detail says whether it may have taken effect", body = Problem),
    )
)]
pub async fn cancel_reservation(
    req: HttpRequest,
    caller: Principal,
    service: ThinData<ReservationService>,
) -> Result<HttpResponse, Failure> {
    let id = segment(&req, "id").to_owned();
    let reservation = service.cancel(id, Scope::of(&caller), caller.to_string()).await?;
    Ok(HttpResponse::Ok().json(views::record(&reservation)))
}
