//! Reads parameters of queries and paths, and keys of requests. Each error names its field.

use std::fmt::Display;
use std::str::FromStr;

use actix_web::HttpRequest;
use estimand_api::headers::IDEMPOTENCY_KEY_HEADER;
use estimand_api::problem::{FieldError, Problem};

/// The longest key of a request.
pub const MAX_KEY_BYTES: usize = 255;

/// A parameter that has a text form of its own.
pub fn parsed<T: FromStr>(field: &str, given: &str) -> Result<T, Problem>
where
    T::Err: Display,
{
    given.parse().map_err(|error: T::Err| {
        Problem::invalid_field(FieldError::new(field, error.to_string()).given(given))
    })
}

/// A whole number of at most `most`; `absent` if none is given.
pub fn whole(field: &str, given: Option<&str>, absent: u64, most: u64) -> Result<u64, Problem> {
    let Some(given) = given else { return Ok(absent) };
    given.parse().ok().filter(|number| *number <= most).ok_or_else(|| {
        let error = FieldError::new(field, "is not such a number");
        Problem::invalid_field(error.given(given).expected(format!("a whole number from 0 to {most}")))
    })
}

/// The key of a request, if it has one, of at most so many bytes.
pub fn idempotency_key(req: &HttpRequest, longest: usize) -> Result<Option<String>, Problem> {
    let mut given = req.headers().get_all(IDEMPOTENCY_KEY_HEADER);
    let key = match (given.next(), given.next()) {
        (None, _) => return Ok(None),
        (Some(_), Some(_)) => return Err(wrong_key("is given twice", longest)),
        (Some(key), None) => key.to_str().unwrap_or_default().trim(),
    };
    let fits = (1..=longest).contains(&key.len()) && key.bytes().all(|b| b.is_ascii_graphic() || b == b' ');
    if fits { Ok(Some(key.to_owned())) } else { Err(wrong_key("is no key", longest)) }
}

fn wrong_key(message: &str, longest: usize) -> Problem {
    let expected = format!("1 to {longest} visible ASCII characters");
    Problem::invalid_field(FieldError::new("Idempotency-Key", message).expected(expected))
}
