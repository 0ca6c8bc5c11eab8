//! The requests that the writer decides, one after the other: each purely, on what is stored.

mod cancel;
mod delete;
mod edits;
mod images;
mod log_room;
mod make_room;
mod news;
mod placement;
mod promises;
mod room;
mod standing;
mod submit;

pub use cancel::Cancel;
pub use delete::{Delete, ForgetAttempts, ShortenLog};
pub use images::{Publish, Unpublish};
pub use make_room::MakeRoom;
pub use placement::{Placement, Placements};
pub use promises::{
    MAX_PROMISES, MakePromises, NodeOffers, PassTime, ReleasePromise, ReleasePromises, ResizePromise,
};
pub use standing::{Attempt, NodeStandings};
pub use submit::Submission;
