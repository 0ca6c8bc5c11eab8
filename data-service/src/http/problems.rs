//! The data service's errors over HTTP. Here and nowhere else an error becomes a problem.

use estimand_api::problem::Problem;

use crate::core::Rejection;
use crate::queue::SubmitError;

pub fn of_submit(error: SubmitError) -> Problem {
    match error {
        SubmitError::Rejected(rejection) => of_rejection(&rejection),
        SubmitError::Overloaded => Problem::unavailable(
            "more writes wait than can be stored at once; nothing of this one was done",
            1,
        ),
        SubmitError::Stopping => Problem::unavailable("the service is ending; nothing was done", 1),
        SubmitError::Refused => {
            Problem::unavailable("the database refused to store this; nothing of it was done", 5)
        }
        SubmitError::TakenOver { is_known: true } => Problem::unavailable(TAKEN_OVER, 1),
        SubmitError::TakenOver { is_known: false } => Problem::outcome_unknown(TAKEN_OVER, 1),
        SubmitError::Ended => {
            Problem::outcome_unknown("the service is ending; whether this was done is unknown", 1)
        }
        SubmitError::Late => Problem::outcome_unknown(
            "the database does not answer; the write may or may not be stored, and it is safe to send it again",
            2,
        ),
    }
}

/// Why nothing can be stored any more, also for the operator.
pub const TAKEN_OVER: &str = "another data service has taken over this store";

fn of_rejection(rejection: &Rejection) -> Problem {
    let detail = rejection.to_string();
    match rejection {
        Rejection::NotBound(_) | Rejection::NeverBound(_) => Problem::not_found(detail),
        _ => Problem::conflict(detail),
    }
}
