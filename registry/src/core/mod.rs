//! The registry's decisions: pure, without a clock, a database or HTTP.

mod draft;
pub mod edit;
mod inputs;
pub mod registrations;
mod rejection;

pub use edit::{Edit, MAX_REGISTRATIONS};
pub use registrations::{Registrations, RenderedRegistration, Retention, StoredRegistration};
pub use rejection::Rejection;
