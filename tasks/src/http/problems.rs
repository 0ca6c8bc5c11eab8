//! The task service's errors over HTTP.

use estimand_api::problem::Problem;
use estimand_runtime::single_writer::SubmitError;

use crate::change::{Rejection, TAKEN_OVER};

pub fn of_write(error: SubmitError<Rejection>) -> Problem {
    match error {
        SubmitError::Rejected(rejection) => of_rejection(&rejection),
        SubmitError::Unreachable => Problem::unavailable("the database does not answer; nothing was done", 1),
        SubmitError::NotStored => {
            Problem::unavailable("the database did not take this; nothing of it was done", 1)
        }
        SubmitError::Broken => {
            Problem::unavailable("the connection to the database broke; nothing was done, send it again", 1)
        }
        SubmitError::OutcomeUnknown => Problem::outcome_unknown(
            "the database does not answer, and whether this took effect is unknown: look, and send it again if not",
            1,
        ),
        SubmitError::TakenOver => Problem::unavailable(
            format!("{TAKEN_OVER}; nothing was done, and nothing can be changed here any more"),
            1,
        ),
        SubmitError::Overloaded => Problem::unavailable("too many changes wait; nothing was done", 1),
        SubmitError::Stopping => Problem::unavailable("the task service is stopping; nothing was done", 1),
    }
}

fn of_rejection(rejection: &Rejection) -> Problem {
    match rejection {
        Rejection::Unknown(_) => Problem::not_found(rejection.to_string()),
        Rejection::IdTaken(_) | Rejection::KeyTaken(_) | Rejection::NotOver { .. } | Rejection::Full(_) => {
            Problem::conflict(rejection.to_string())
        }
    }
}
