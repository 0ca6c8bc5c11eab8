//! The requests that the writer decides, one after the other: each purely, on what is stored.

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
mod stop;
mod submit;

pub use delete::{Delete, ForgetAttempts, ShortenLog};
pub use images::{Publish, Unpublish};
pub use make_room::MakeRoom;
pub use placement::{Placement, Placements};
pub use promises::{
    MAX_PROMISES, MakePromises, NodeOffers, PassTime, ReleasePromise, ReleasePromises, ResizePromise,
};
pub use standing::{Attempt, NodeStandings};
pub use stop::{Fate, Stop};
pub use submit::Submission;
