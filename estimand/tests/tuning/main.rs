//! Studies end to end: a real service that is killed while workers ask and tell, and trials that run as tasks on a real agent.
#![allow(clippy::unwrap_used)]

mod deaths;
mod repeats;
mod tasks;
