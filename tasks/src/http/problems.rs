//! The task service's errors over HTTP.

use estimand_api::problem::Problem;
use estimand_runtime::single_writer::SubmitError;
use estimand_web::submit_problem;

use crate::change::{Rejection, TAKEN_OVER};

pub fn of_write(error: SubmitError<Rejection>) -> Problem {
    submit_problem(error, "task service", TAKEN_OVER, |rejection| of_rejection(&rejection))
}

fn of_rejection(rejection: &Rejection) -> Problem {
    match rejection {
        Rejection::Unknown(_) => Problem::not_found(rejection.to_string()),
        Rejection::IdTaken(_)
        | Rejection::KeyTaken(_)
        | Rejection::NothingToFollow(_)
        | Rejection::NotOver { .. }
        | Rejection::NotAllOver { .. }
        | Rejection::Full(_) => Problem::conflict(rejection.to_string()),
    }
}
