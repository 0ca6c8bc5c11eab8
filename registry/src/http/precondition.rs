//! The precondition of a change: the header `If-Match` with the `ETag` that a GET gave.

use actix_web::HttpRequest;
use actix_web::http::header::IF_MATCH;
use estimand_api::names::DataName;
use estimand_api::problem::{FieldError, Problem, kind};

use crate::core::Registrations;

const EXPECTED: &str = "the `ETag` of a GET, such as \"3\"";

/// The version that `If-Match` asks for; none if it is not there, or asks only that something is registered.
pub fn if_match(req: &HttpRequest) -> Result<Option<u64>, Problem> {
    let mut given = req.headers().get_all(IF_MATCH);
    let (Some(one), None) = (given.next(), given.next()) else {
        return match req.headers().contains_key(IF_MATCH) {
            true => Err(wrong("is given twice", "")),
            false => Ok(None),
        };
    };
    let text = one.to_str().map_err(|_| wrong("is not text", ""))?.trim();
    if text == "*" {
        return Ok(None);
    }
    // A version is one in any encoding: an answer that was sent compressed has a weak tag.
    let tag =
        text.strip_prefix("W/").unwrap_or(text).strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    match tag.and_then(|tag| tag.parse().ok()) {
        Some(version) => Ok(Some(version)),
        None => Err(wrong("is no version", text)),
    }
}

/// Checks it against what is registered now; the writer checks the same version again.
pub fn check(registrations: &Registrations, name: &DataName, asked: Option<u64>) -> Result<(), Problem> {
    let (Some(asked), Some(stored)) = (asked, registrations.get(name.as_str())) else { return Ok(()) };
    match stored.version() {
        current if current == asked => Ok(()),
        current => Err(Problem::new(
            412,
            kind::PRECONDITION_FAILED,
            "It is not what it was",
            format!("`{name}` is at version {current}, not {asked}, which `If-Match` asks for"),
        )),
    }
}

fn wrong(message: &str, given: &str) -> Problem {
    let error = FieldError::new("If-Match", message).expected(EXPECTED);
    Problem::invalid_field(if given.is_empty() { error } else { error.given(given) })
}
