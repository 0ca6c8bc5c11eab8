//! The task service's errors over HTTP.

use estimand_api::problem::{FieldError, Problem};
use estimand_api::promise::Room;
use estimand_runtime::single_writer::SubmitError;
use estimand_web::submit_problem;

use crate::change::{Rejection, TAKEN_OVER};

pub fn of_write(error: SubmitError<Rejection>) -> Problem {
    submit_problem(error, "task service", TAKEN_OVER, |rejection| of_rejection(&rejection))
}

fn of_rejection(rejection: &Rejection) -> Problem {
    match rejection {
        Rejection::Unknown(_) | Rejection::UnknownImage { .. } | Rejection::NoPromise(_) => {
            Problem::not_found(rejection.to_string())
        }
        Rejection::Share(full) => Problem::clone(full),
        Rejection::NodesUnknown => Problem::unavailable(rejection.to_string(), 1),
        Rejection::LedgerMoved { current, .. } => {
            let room = Room { revision: *current, ..Room::default() };
            Problem { room: Some(Box::new(room)), ..Problem::conflict(rejection.to_string()) }
        }
        Rejection::NoRoom { room, .. } => {
            Problem { room: Some(room.clone()), ..Problem::conflict(rejection.to_string()) }
        }
        Rejection::PastWindow { .. } => {
            Problem::invalid_field(FieldError::new("until", rejection.to_string()))
        }
        Rejection::IdTaken(_)
        | Rejection::KeyTaken(_)
        | Rejection::NothingToFollow(_)
        | Rejection::NotOver { .. }
        | Rejection::NotAllOver { .. }
        | Rejection::NotPublished { .. }
        | Rejection::TooManyImages(_)
        | Rejection::PromiseIdTaken(_)
        | Rejection::PromiseKeyTaken(_)
        | Rejection::PromiseOver { .. }
        | Rejection::PromiseBegun(_)
        | Rejection::NoRoomToGrow { .. }
        | Rejection::TooManyPromises(_)
        | Rejection::LargerThanUnit { .. }
        | Rejection::Full { .. } => Problem::conflict(rejection.to_string()),
    }
}
