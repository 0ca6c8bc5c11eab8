//! The shell of a service that keeps a state: the single writer, the table that it shows, and what becomes of its errors
//! over HTTP and in background loops.
//!
//! docs/decisions/144-the-shell-of-a-service.md says who stands on it, and why the others don't.

mod errors;
mod published;
pub mod rows;
mod writer;

pub use errors::{StorageError, SubmitError};
pub use published::Published;
pub use writer::{Decision, OnFatal, Request, State, Writer};
