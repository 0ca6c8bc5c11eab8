//! The requests that the writer decides, one after the other: each purely, on what is stored.

mod cancel;
mod delete;
mod edits;
mod news;
mod placement;
mod standing;
mod submit;

pub use cancel::Cancel;
pub use delete::Delete;
pub use news::News;
pub use placement::{Placement, Placements};
pub use standing::NodeStandings;
pub use submit::Submission;
