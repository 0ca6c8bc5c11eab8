//! The core: what decides is in `estimand_placement`, and here is the document of a task.

pub use estimand_placement::*;

pub mod document;
