//! The registry's errors over HTTP. Here and nowhere else an error becomes a problem.

use estimand_api::problem::{FieldError, Problem, kind};
use estimand_runtime::single_writer::WriteError;

use crate::core::Rejection;

/// The reason why nothing can be changed any more, also for the operator.
pub const TAKEN_OVER: &str = "another registry has taken over this store";

pub fn of_write(error: WriteError<Rejection>) -> Problem {
    match error {
        WriteError::Rejected(rejection) => of_rejection(rejection),
        WriteError::Unreachable => Problem::unavailable("the database does not answer; nothing was done", 1),
        WriteError::NotStored => {
            Problem::unavailable("the database did not take this; nothing of it was done", 1)
        }
        WriteError::Broken => {
            Problem::unavailable("the connection to the database broke; nothing was done, send it again", 1)
        }
        WriteError::OutcomeUnknown => Problem::outcome_unknown(
            "the database does not answer, and whether this took effect is unknown: look, and send it again if not",
            1,
        ),
        WriteError::TakenOver => Problem::unavailable(
            format!("{TAKEN_OVER}; nothing was done, and nothing can be changed here any more"),
            1,
        ),
        WriteError::Overloaded => Problem::unavailable("too many changes wait; nothing was done", 1),
        WriteError::Stopping => Problem::unavailable("the registry is stopping; nothing was done", 1),
    }
}

fn of_rejection(rejection: Rejection) -> Problem {
    match rejection {
        Rejection::Unknown(_) => Problem::not_found(rejection.to_string()),
        Rejection::Unreadable(_) => {
            Problem::new(500, kind::UNREADABLE, "What is stored cannot be read", rejection.to_string())
        }
        Rejection::NoSecret { of, names } => {
            let unknown = |name: &String| {
                let message = format!("is null, and `{of}` has no value of it that could be kept");
                let error = FieldError::new(format!("env.{name}"), message);
                error.given("null").expected("its value: `null` keeps the one that is registered already")
            };
            Problem::invalid(names.iter().map(unknown).collect())
        }
        Rejection::Taken { .. } | Rejection::Full | Rejection::Outdated { .. } => {
            Problem::conflict(rejection.to_string())
        }
        Rejection::Cycle(_) | Rejection::Needed { .. } => Problem::conflict(rejection.to_string()),
    }
}
