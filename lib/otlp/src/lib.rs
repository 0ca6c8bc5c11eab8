//! Metrics of OpenTelemetry: the messages of OTLP/HTTP in both of its encodings, and what values their points are.
//!
//! Everything here is pure: bytes to messages ([`Encoding`]), messages to values of nodes ([`values`]), and values to messages ([`series`]). A sender may be
//! anybody who may write, so the memory that a body takes when it is decoded is known before that ([`Encoding::size`]), and
//! the work grows with the body alone. The messages have the fields that are read or written here; others are passed over, as
//! OTLP asks of a receiver.

mod answers;
mod attributes;
mod encoding;
mod json;
pub mod messages;
pub mod series;
mod size;
pub mod values;

pub use answers::{partial_success, refused, status, taken};
pub use encoding::{Encoding, Error, MAX_DECODED_BYTES};
/// Encodes messages.
pub use prost::Message;
