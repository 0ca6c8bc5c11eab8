//! Reads parameters of queries, and headers. Each error names its field.

use actix_web::HttpRequest;
use estimand_api::headers::IDEMPOTENCY_KEY_HEADER;
use estimand_api::problem::{FieldError, Problem};

const MAX_KEY_BYTES: usize = 255;

pub fn whole(field: &str, given: Option<&str>, absent: u64, most: u64) -> Result<u64, Problem> {
    let Some(given) = given else { return Ok(absent) };
    given.parse().ok().filter(|number| *number <= most).ok_or_else(|| {
        let error = FieldError::new(field, "is not such a number");
        Problem::invalid_field(error.given(given).expected(format!("a whole number from 0 to {most}")))
    })
}

/// The key of a request, if it has one.
pub fn idempotency_key(req: &HttpRequest) -> Result<Option<String>, Problem> {
    let mut given = req.headers().get_all(IDEMPOTENCY_KEY_HEADER);
    match (given.next(), given.next()) {
        (None, _) => Ok(None),
        (Some(key), None) => checked_key(key.to_str().unwrap_or_default()).map(Some),
        (Some(_), Some(_)) => Err(wrong_key("is given twice")),
    }
}

/// A key, if it is one.
pub fn checked_key(key: &str) -> Result<String, Problem> {
    let key = key.trim();
    let fits =
        (1..=MAX_KEY_BYTES).contains(&key.len()) && key.bytes().all(|b| b.is_ascii_graphic() || b == b' ');
    if fits { Ok(key.to_owned()) } else { Err(wrong_key("is no key")) }
}

fn wrong_key(message: &str) -> Problem {
    let expected = format!("1 to {MAX_KEY_BYTES} visible ASCII characters");
    Problem::invalid_field(FieldError::new("Idempotency-Key", message).expected(expected))
}
