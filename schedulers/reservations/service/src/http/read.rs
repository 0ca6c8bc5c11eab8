//! Reads: of the published reservations and prices, which are in memory.

use actix_web::web::ThinData;
use actix_web::{HttpRequest, HttpResponse};
use estimand_api::duration::SpanText;
use estimand_api::problem::{FieldError, Problem};
use estimand_api::reservation::{PriceCurve, ReservationPage, ReservationRecord};
use estimand_api::resources;
use estimand_web::parameters::whole;
use estimand_web::{Failure, Principal, Query, Scope, segment};
use serde_json::{Map, Value};

use super::views;
use crate::ReservationService;
use crate::document::Document;
use crate::reservation::{Reservation, State};

/// The most reservations on a page, and how many there are if nothing is said.
const MAX_PAGE: u64 = 1_000;
const PAGE: u64 = 100;
/// A page ends with the reservation whose document makes it so long.
const PAGE_BYTES: u64 = 1 << 20;

/// Reservations, the newest first, in pages.
#[utoipa::path(
    get,
    path = "/api/reservations",
    tag = "reservations",
    params(
        ("state" = Option<String>, Query, description = "Only those in these states, with commas between them, such as `PROMISED,ACTIVE`"),
        ("user" = Option<String>, Query, description = "Only those that this user pays"),
        ("before" = Option<String>, Query, description = "Only those that were made before this one: the `next` of the page before"),
        ("limit" = Option<u64>, Query, description = "At most so many, and fewer where they are long; 100 if absent, and never more than 1,000"),
    ),
    responses(
        (status = 200, description = "A page of reservations", body = ReservationPage),
        (status = 400, description = "The query is not valid", body = Problem),
        (status = 404, description = "There is no such reservation to begin before", body = Problem),
        (status = 503, description = "Not loaded yet", body = Problem),
    )
)]
pub async fn list_reservations(
    req: HttpRequest,
    caller: Principal,
    service: ThinData<ReservationService>,
) -> Result<HttpResponse, Failure> {
    let scope = Scope::of(&caller);
    let query = Query::with_lists(req.query_string(), &["state", "user", "before", "limit"], &["state"])?;
    let states = query.get("state").map(states).transpose()?;
    let limit = whole("limit", query.get("limit"), PAGE, u64::MAX)?.clamp(1, MAX_PAGE);
    let shared = service.shared();
    let before = query.get("before").map(|id| shared.find(&scope, id)).transpose()?;
    let belongs = |reservation: &Reservation| {
        scope.has_user(Some(&reservation.account))
            && states.as_ref().is_none_or(|states| states.contains(&reservation.state()))
            && query.get("user").is_none_or(|user| reservation.account == user)
    };
    let page = shared.table.loaded(|table| {
        let before = before.map_or(u64::MAX, |before| before.number);
        let mut found = table.newest(before).filter(|reservation| belongs(reservation));
        let limit = usize::try_from(limit).unwrap_or(1);
        let (mut reservations, mut bytes) = (Vec::<ReservationRecord>::new(), 0);
        while reservations.len() < limit
            && bytes < PAGE_BYTES
            && let Some(reservation) = found.next()
        {
            bytes += reservation.document.bytes;
            reservations.push(views::record(reservation));
        }
        let next = found.next().and(reservations.last()).map(|last| last.id.clone());
        ReservationPage { reservations, next }
    })?;
    Ok(HttpResponse::Ok().json(page))
}

/// One reservation, with what was promised and what of it was delivered.
#[utoipa::path(
    get,
    path = "/api/reservations/{id}",
    tag = "reservations",
    params(("id" = String, Path)),
    responses(
        (status = 200, description = "The reservation", body = ReservationRecord),
        (status = 404, description = "There is no such reservation", body = Problem),
        (status = 503, description = "Not loaded yet", body = Problem),
    )
)]
pub async fn reservation(
    req: HttpRequest,
    caller: Principal,
    service: ThinData<ReservationService>,
) -> Result<HttpResponse, Failure> {
    let reservation = service.shared().find(&Scope::of(&caller), segment(&req, "id"))?;
    Ok(HttpResponse::Ok().json(views::record(&reservation)))
}

/// The price of a request by its start.
#[utoipa::path(
    get,
    path = "/api/reservations/prices",
    tag = "reservations",
    params(
        ("resources" = String, Query, description = "What each unit needs, such as `cpu=4,memory=8GiB`"),
        ("duration" = SpanText, Query, description = "How long it takes"),
        ("width" = Option<u64>, Query, description = "How many units; 1 if absent"),
        ("class" = Option<String>, Query, description = "The class of the nodes"),
        ("from" = Option<String>, Query, description = "The first start, as an instant or as a duration from now; now if absent"),
        ("by" = Option<String>, Query, description = "The end of the last one, as an instant or as a duration from now; as late as there are prices if absent"),
    ),
    responses(
        (status = 200, description = "The price of each start; a start without one has too little free", body = PriceCurve),
        (status = 400, description = "The query is not valid", body = Problem),
        (status = 409, description = "There is no such start at all; `errors` says what would do", body = Problem),
        (status = 503, description = "There are no prices yet", body = Problem),
    )
)]
pub async fn prices(
    req: HttpRequest,
    service: ThinData<ReservationService>,
) -> Result<HttpResponse, Failure> {
    let query = Query::parse(req.query_string(), &["resources", "duration", "width", "class", "from", "by"])?;
    let mut map = Map::new();
    for name in ["duration", "class", "from", "by"] {
        map.extend(query.get(name).map(|given| (name.to_owned(), Value::from(given))));
    }
    if let Some(given) = query.get("resources") {
        let wrong =
            |message: String| FieldError::new("resources", message).expected("such as cpu=4,memory=8GiB");
        let amounts = resources::of_text(given).map_err(|message| Problem::invalid_field(wrong(message)))?;
        map.insert("resources".to_owned(), amounts);
    }
    if query.get("width").is_some() {
        let width = whole("width", query.get("width"), 1, u64::MAX)?;
        map.insert("width".to_owned(), Value::from(width));
    }
    let document = Document::from_map(map, service.shared().clock.now_micros())?;
    Ok(HttpResponse::Ok().json(service.curve(&document)?))
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
