//! The file service's requests.

mod arriving;
pub mod content;
pub mod entries;
pub mod granted;
mod parameters;
mod problems;
pub mod sharing;
pub mod socket;
pub mod upload;
