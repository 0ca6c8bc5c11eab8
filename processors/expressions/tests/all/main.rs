//! The language as a whole, over a small world of facts.
#![allow(clippy::unwrap_used)]

mod bounds;
mod cel;
mod errors;
mod inputs;
mod readme;
mod reads;
mod values;
mod world;
