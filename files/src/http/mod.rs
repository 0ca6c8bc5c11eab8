//! The file service's requests.

mod arriving;
pub mod content;
pub mod entries;
mod parameters;
mod problems;
pub mod socket;
pub mod upload;
