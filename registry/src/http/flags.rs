//! Query parameters that are true or false.

use estimand_api::problem::{FieldError, Problem};

/// Reads one: absent is false, and the name alone is true.
pub fn read(name: &str, given: Option<&str>) -> Result<bool, Problem> {
    match given {
        None | Some("false") => Ok(false),
        Some("true" | "") => Ok(true),
        Some(other) => {
            let error = FieldError::new(name, "is neither true nor false").given(other);
            Err(Problem::invalid_field(error.expected("true or false")))
        }
    }
}
