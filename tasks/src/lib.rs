//! Tasks: pieces of work that are done once, on the node that the facts say is best.
//!
//! So far the pure core: what a task is, through which states it goes, and where it is placed. No clock, no I/O, no
//! randomness of its own; a service and a simulator call the same functions.

pub mod core;
