//! The handlers: they translate between HTTP and the service.

pub mod changes;
pub mod credits;
pub mod read;
pub mod views;
