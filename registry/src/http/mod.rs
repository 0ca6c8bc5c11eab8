//! The registry's requests: each handler translates between HTTP and the registry.

pub mod batch;
pub mod change;
pub mod patch;
mod precondition;
mod problems;
pub mod read;
pub mod uploads;
