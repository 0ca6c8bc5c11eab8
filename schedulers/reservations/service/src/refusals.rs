//! Refusals in words, each with what would do.

use chrono::{DateTime, Utc};
use estimand_api::instant::to_rfc3339;
use estimand_api::problem::{FieldError, Problem, kind};
use estimand_api::resources;
use estimand_reservations::{Money, Refusal};

use crate::document::Document;
use crate::prices::NoPrice;
use crate::reservation::Offer;
use crate::settings::Settings;

/// An instant as people read it, from seconds since 1970.
pub fn text(at: u64) -> String {
    to_rfc3339(micros(at))
}

pub fn instant(at: u64) -> DateTime<Utc> {
    DateTime::from_timestamp_micros(micros(at)).unwrap_or_default()
}

/// Microseconds since 1970, from seconds.
pub fn micros(at: u64) -> i64 {
    i64::try_from(at).unwrap_or(i64::MAX / 1_000_000).saturating_mul(1_000_000)
}

/// It costs more than it is worth.
pub fn too_dear(offer: &Offer, value: Money) -> Problem {
    let detail = format!(
        "it costs {} credits from {} on, which is the cheapest start, and {value} is what it is worth",
        offer.price,
        text(offer.start)
    );
    let error = FieldError::new("value", "is below the price").given(value);
    refused(kind::PRICE_ABOVE_VALUE, detail, error.expected(format!("at least {}", offer.price)))
}

/// True if it may be otherwise once the ledger has moved on.
pub fn is_for_the_moment(problem: &Problem) -> bool {
    [kind::PRICE_ABOVE_VALUE, kind::INFEASIBLE].contains(&&*problem.kind)
}

/// It asks for a worker of Celery, and there are none here.
pub fn no_celery() -> Problem {
    let error = FieldError::new("celery", "needs a broker, and this service has none");
    Problem::invalid_field(error.expected("a service that was started with --celery-broker, or `task`"))
}

/// The ledger keeps as many promises as it can that are not over.
pub fn no_promises_left() -> Problem {
    let detail = "the ledger of capacity has as many promises as it keeps, and too few of them are over to make room: ask again when \
                  some are, or give up one that is not needed";
    Problem::conflict(detail)
}

/// A list costs more than it is worth.
pub fn list_too_dear(price: Money, value: Money) -> Problem {
    let detail = format!("all of the list costs {price} credits, and {value} is what it is worth");
    let error = FieldError::new("value", "is below the price of all").given(value);
    refused(kind::PRICE_ABOVE_VALUE, detail, error.expected(format!("at least {price}")))
}

/// The refusal of one request of a list, by its place.
pub fn in_list(place: usize, problem: Problem) -> Problem {
    let errors = problem.errors.into_iter();
    let errors =
        errors.map(|error| FieldError { field: format!("allOrNone[{place}].{}", error.field), ..error });
    let detail = format!("request {} of the list: {}", place + 1, problem.detail);
    Problem { errors: errors.collect(), detail, ..problem }
}

/// There is no price for it.
pub fn no_price(why: &NoPrice, document: &Document, settings: &Settings) -> Problem {
    let invalid = |field: &str, message: String, expected: String| {
        Problem::invalid_field(FieldError::new(field, message).expected(expected))
    };
    let no_node = || Problem::unavailable("no node takes promises now", 1);
    let refusal = match why {
        NoPrice::Class { known, .. } if known.is_empty() => return no_node(),
        NoPrice::Class { class, known } => {
            let message = format!("there is no node of class `{class}`");
            return invalid("class", message, format!("one of {}", known.join(", ")));
        }
        NoPrice::Resource(error) => {
            return Problem::invalid_field(FieldError::new("resources", error.clone()));
        }
        NoPrice::Past { now } => {
            return invalid("from", "is over".to_owned(), format!("{} or later", text(*now)));
        }
        NoPrice::Tight { needed, window, earliest } => {
            let detail = format!("it takes {needed} s, and its window has {window} s that have prices");
            return late(&detail, *earliest);
        }
        NoPrice::Refused(refusal) => refusal,
    };
    match refusal {
        // No node of the class is heard of: its resources are not known, and asking later may do.
        Refusal::UnknownResource { known, .. } if known.is_empty() => no_node(),
        Refusal::UnknownResource { resource, known } => {
            let known: Vec<&str> = known.iter().map(|resource| resource.as_str()).collect();
            invalid(
                "resources",
                format!("names `{resource}`, which no node has"),
                format!("some of {}", known.join(", ")),
            )
        }
        Refusal::TooWide { resource, capacity, .. } => {
            let all = capacity.saturating_mul(Settings::unit(resource.as_str()));
            let all = resources::amount(resource.as_str(), all);
            let detail =
                format!("so much of `{resource}` is not there: all nodes of the class together have {all}");
            let field = if document.width > 1 { "width" } else { "resources" };
            let error = FieldError::new(field, "makes it larger than all nodes together");
            refused(
                kind::INFEASIBLE,
                detail,
                error.expected(format!("at most {all} of `{resource}` in all units")),
            )
        }
        Refusal::TooLong { horizon, .. } => {
            let most = settings.instant(*horizon);
            let field = if document.work.is_some() { "work" } else { "duration" };
            invalid(field, "is longer than prices reach".to_owned(), format!("at most {most} s a unit"))
        }
        Refusal::BeyondHorizon { last, .. } => {
            let last = text(settings.instant(*last));
            invalid("by", "is later than prices reach".to_owned(), format!("{last} or sooner"))
        }
        Refusal::Full { deadline, earliest } => {
            let by = text(settings.instant(*deadline));
            let detail = format!("so much is not free for so long before {by}");
            late(&detail, earliest.map(|earliest| settings.instant(earliest)))
        }
        Refusal::Past { now, .. } => {
            invalid("from", "is over".to_owned(), format!("{} or later", text(settings.instant(*now))))
        }
        other => Problem::conflict(other.to_string()),
    }
}

/// The deadline that would do is in seconds since 1970.
fn late(detail: &str, earliest: Option<u64>) -> Problem {
    let error = FieldError::new("by", "is too early");
    match earliest.map(text) {
        Some(earliest) => {
            let detail = format!("{detail}; the earliest deadline that would do is {earliest}");
            refused(kind::INFEASIBLE, detail, error.expected(format!("{earliest} or later")))
        }
        None => {
            let detail = format!("{detail}; no deadline for which there are prices would do");
            refused(kind::INFEASIBLE, detail, error.expected("less of it, or a shorter time"))
        }
    }
}

fn refused(kind: &str, detail: String, error: FieldError) -> Problem {
    let title = "This is not reserved";
    Problem { errors: vec![error], ..Problem::new(409, kind, title, detail) }
}
