//! The problems that callers of the reservation service hear of.

use estimand_api::problem::{Problem, kind};

use crate::change::Rejection;
use crate::credits::CreditError;

impl From<Rejection> for Problem {
    fn from(rejection: Rejection) -> Self {
        let detail = rejection.to_string();
        match rejection {
            Rejection::Unknown(_) => Problem::not_found(detail),
            Rejection::Credits(CreditError::TooFew { .. }) => {
                Problem::new(409, kind::TOO_FEW_CREDITS, "The account has too few credits", detail)
            }
            Rejection::Share(problem) => *problem,
            Rejection::TooManyBytes(_) => Problem::unavailable(detail, 60),
            Rejection::KeyTaken(_)
            | Rejection::GrantKeyTaken { .. }
            | Rejection::NotLive { .. }
            | Rejection::Begun { .. }
            | Rejection::Changing(_)
            | Rejection::BelowPrice { .. }
            | Rejection::Credits(CreditError::TooMany)
            | Rejection::Full(_) => Problem::conflict(detail),
        }
    }
}
