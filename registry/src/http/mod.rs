//! The registry's requests: each handler translates between HTTP and the registry.

pub mod change;
pub mod problems;
pub mod read;
pub mod uploads;
