//! The common parts of rows: numbers and instants as their columns have them, and documents that cannot be read. A number
//! beyond the range of the other type becomes the nearest one.

use chrono::{DateTime, Utc};
use estimand_api::problem::Problem;

pub fn column(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub fn known(column: i64) -> u64 {
    u64::try_from(column).unwrap_or(0)
}

/// The instant of microseconds since 1970.
pub fn instant(micros: i64) -> DateTime<Utc> {
    DateTime::from_timestamp_micros(micros).unwrap_or_default()
}

/// Every error of a stored document: nobody can ask for the rest.
pub fn cause(problem: &Problem) -> String {
    match problem.errors.as_slice() {
        [] => problem.detail.clone(),
        errors => errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "),
    }
}
