//! The task service's rejections over HTTP.

use estimand_api::problem::{FieldError, Problem};
use estimand_api::promise::Room;

use crate::change::Rejection;

impl From<Rejection> for Problem {
    fn from(rejection: Rejection) -> Self {
        let detail = rejection.to_string();
        match rejection {
            Rejection::Unknown(_) | Rejection::UnknownImage { .. } | Rejection::NoPromise(_) => {
                Problem::not_found(detail)
            }
            Rejection::Share(full) => *full,
            Rejection::NodesUnknown => Problem::unavailable(detail, 1),
            Rejection::LedgerMoved { current, .. } => {
                let room = Room { revision: current, ..Room::default() };
                Problem { room: Some(Box::new(room)), ..Problem::conflict(detail) }
            }
            Rejection::NoRoom { room, .. } => Problem { room: Some(room), ..Problem::conflict(detail) },
            Rejection::PastWindow { .. } => Problem::invalid_field(FieldError::new("until", detail)),
            Rejection::IdTaken(_)
            | Rejection::KeyTaken(_)
            | Rejection::NothingToFollow(_)
            | Rejection::NotOver { .. }
            | Rejection::NotAllOver { .. }
            | Rejection::Over { .. }
            | Rejection::AllOver(_)
            | Rejection::EndsForGood(_)
            | Rejection::NotPublished { .. }
            | Rejection::TooManyImages(_)
            | Rejection::PromiseIdTaken(_)
            | Rejection::PromiseKeyTaken(_)
            | Rejection::PromiseOver { .. }
            | Rejection::PromiseBegun(_)
            | Rejection::NoRoomToGrow { .. }
            | Rejection::TooManyPromises(_)
            | Rejection::LargerThanUnit { .. }
            | Rejection::Full { .. } => Problem::conflict(detail),
        }
    }
}
