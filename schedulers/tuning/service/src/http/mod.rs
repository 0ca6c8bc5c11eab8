//! The handlers: they translate between HTTP and the service.

pub mod studies;
pub mod trials;
