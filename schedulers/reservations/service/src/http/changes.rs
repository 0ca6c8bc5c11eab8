//! Quotes and changes: making a reservation, bidding more for it, giving it up. Each change is answered when it is durable.

use actix_web::http::header::LOCATION;
use actix_web::web::ThinData;
use actix_web::{HttpRequest, HttpResponse};
use estimand_api::fields::Fields;
use estimand_api::json::parse_object;
use estimand_api::problem::Problem;
use estimand_api::reservation::{PriceQuote, ReservationRecord};
use estimand_reservations::Money;
use estimand_web::{Body, Failure, Principal, segment};

use super::{parameters, views};
use crate::ReservationService;
use crate::document::{Document, MAX_DOCUMENT_BYTES, ReservationDocument, credits};
use crate::requests::Opened;

const MAX_BID_BYTES: usize = 4 * 1024;

/// Reserves, or with `dryRun` says what it would cost.
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
        (status = 409, description = "It costs more than it is worth (`price-above-value`), there is no such time (`infeasible`), or the account has too few credits (`too-few-credits`); `errors` says what would do. Or the key was given with another document", body = Problem),
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
    let key = parameters::idempotency_key(&req)?;
    let now = service.shared().clock.now_micros();
    let document = body.parse(move |bytes| Document::parse(bytes, now)).await?;
    if document.dry_run {
        return Ok(HttpResponse::Ok().json(service.quote(&document)?));
    }
    let user = caller.name().into_owned();
    let (mut response, reservation) = match service.reserve(document, key, &user, caller.to_string()).await? {
        Opened::New(reservation) => (HttpResponse::Created(), reservation),
        Opened::Known(reservation) => (HttpResponse::Ok(), reservation),
    };
    response.insert_header((LOCATION, format!("/api/reservations/{}", reservation.id)));
    Ok(response.json(views::record(&reservation)))
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
    let reservation = service.rebid(id, value, caller.to_string()).await?;
    Ok(HttpResponse::Ok().json(views::record(&reservation)))
}

/// Gives a reservation up: its promise is released, and before its start its price is given back but for a fee of a twentieth.
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
    let reservation = service.cancel(id, caller.to_string()).await?;
    Ok(HttpResponse::Ok().json(views::record(&reservation)))
}
