//! How long pushed values hold: a header says so, since clients of other systems can set headers and no parameters.

use actix_web::HttpRequest;
use estimand_api::duration::Span;
use estimand_api::headers::VALID_FOR_HEADER;
use estimand_api::problem::{FieldError, Problem};

/// In microseconds; none: for ever.
pub fn of(req: &HttpRequest) -> Result<Option<i64>, Problem> {
    let Some(given) = req.headers().get(VALID_FOR_HEADER) else { return Ok(None) };
    let given = given.to_str().unwrap_or("?");
    let wrong = |message: &str| {
        let error = FieldError::new("Estimand-Valid-For", message).given(given);
        let expected = "a duration such as `30s`, or no such header: then values never turn stale";
        Problem::invalid_field(error.expected(expected))
    };
    match Span::parse(given) {
        Err(_) => Err(wrong("is no span of time")),
        Ok(span) if span.is_zero() => Err(wrong("is no time at all, so the values would never hold")),
        Ok(span) => Ok(Some(i64::try_from(span.as_micros()).unwrap_or(i64::MAX))),
    }
}
