//! Studies end to end: a real service that is killed while workers ask and tell.
#![allow(clippy::unwrap_used)]

mod deaths;
mod repeats;
