//! The problems that callers of the reservation service hear of.

use estimand_api::problem::{Problem, kind};
use estimand_runtime::single_writer::SubmitError;
use estimand_web::submit_problem;

use crate::change::{Rejection, TAKEN_OVER};
use crate::credits::CreditError;

pub fn of_write(error: SubmitError<Rejection>) -> Problem {
    submit_problem(error, "reservation service", TAKEN_OVER, |rejection| of_rejection(&rejection))
}

pub fn of_rejection(rejection: &Rejection) -> Problem {
    match rejection {
        Rejection::Unknown(_) => Problem::not_found(rejection.to_string()),
        Rejection::Credits(error) => of_credits(error),
        Rejection::Share(problem) => (**problem).clone(),
        Rejection::TooManyBytes(_) => Problem::unavailable(rejection.to_string(), 60),
        Rejection::KeyTaken(_)
        | Rejection::GrantKeyTaken { .. }
        | Rejection::NotLive { .. }
        | Rejection::Begun { .. }
        | Rejection::Changing(_)
        | Rejection::BelowPrice { .. }
        | Rejection::Full(_) => Problem::conflict(rejection.to_string()),
    }
}

pub fn of_credits(error: &CreditError) -> Problem {
    match error {
        CreditError::TooFew { .. } => {
            Problem::new(409, kind::TOO_FEW_CREDITS, "The account has too few credits", error.to_string())
        }
        CreditError::TooMany => Problem::conflict(error.to_string()),
    }
}
