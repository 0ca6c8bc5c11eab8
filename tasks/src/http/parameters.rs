//! Reads parameters of queries, and headers. Each error names its field.

use actix_web::HttpRequest;
use estimand_api::headers::IDEMPOTENCY_KEY_HEADER;
use estimand_api::problem::{FieldError, Problem};

/// A parameter that has a text form of its own.
pub fn parsed<T: std::str::FromStr>(field: &str, given: &str) -> Result<T, Problem>
where
    T::Err: std::fmt::Display,
{
    given.parse().map_err(|error: T::Err| {
        Problem::invalid_field(FieldError::new(field, error.to_string()).given(given))
    })
}

pub fn whole(field: &str, given: Option<&str>, absent: u64, most: u64) -> Result<u64, Problem> {
    let Some(given) = given else { return Ok(absent) };
    given.parse().ok().filter(|number| *number <= most).ok_or_else(|| {
        let error = FieldError::new(field, "is not such a number");
        Problem::invalid_field(error.given(given).expected(format!("a whole number from 0 to {most}")))
    })
}

/// The key of a submission, if it has one, of at most so many bytes.
pub fn idempotency_key(req: &HttpRequest, longest: usize) -> Result<Option<String>, Problem> {
    let mut given = req.headers().get_all(IDEMPOTENCY_KEY_HEADER);
    let (Some(key), None) = (given.next(), given.next()) else {
        return match req.headers().contains_key(IDEMPOTENCY_KEY_HEADER) {
            true => Err(wrong_key("is given twice", longest)),
            false => Ok(None),
        };
    };
    let key = key.to_str().unwrap_or_default().trim();
    let fits = (1..=longest).contains(&key.len()) && key.bytes().all(|b| b.is_ascii_graphic() || b == b' ');
    if fits { Ok(Some(key.to_owned())) } else { Err(wrong_key("is no key", longest)) }
}

fn wrong_key(message: &str, longest: usize) -> Problem {
    let expected = format!("1 to {longest} visible ASCII characters");
    Problem::invalid_field(FieldError::new("Idempotency-Key", message).expected(expected))
}
