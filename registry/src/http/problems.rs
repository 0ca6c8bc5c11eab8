//! The registry's errors over HTTP. Here and nowhere else an error becomes a problem.

use estimand_api::problem::{Problem, kind};
use estimand_api::registration::no_secrets;
use estimand_runtime::single_writer::SubmitError;
use estimand_web::submit_problem;

use crate::core::Rejection;

/// The reason why nothing can be changed any more, also for the operator.
pub const TAKEN_OVER: &str = "another registry has taken over this store";

pub fn of_submit(error: SubmitError<Rejection>) -> Problem {
    submit_problem(error, "registry", TAKEN_OVER, of_rejection)
}

fn of_rejection(rejection: Rejection) -> Problem {
    match rejection {
        Rejection::Unknown(_) => Problem::not_found(rejection.to_string()),
        Rejection::Unreadable(_) => {
            Problem::new(500, kind::UNREADABLE, "What is stored cannot be read", rejection.to_string())
        }
        Rejection::NoSecret { of, names } => no_secrets(&of, names.iter().map(String::as_str)),
        Rejection::Taken { .. } | Rejection::Full | Rejection::Outdated { .. } => {
            Problem::conflict(rejection.to_string())
        }
        Rejection::Cycle(_) | Rejection::Needed { .. } => Problem::conflict(rejection.to_string()),
    }
}
