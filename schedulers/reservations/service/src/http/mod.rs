//! The handlers: they translate between HTTP and the service.

pub mod changes;
pub mod credits;
pub mod problems;
pub mod read;
pub mod views;
