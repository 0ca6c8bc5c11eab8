//! Deadlines: jobs say by when they must be done, and the planner gives each the least that lets it end in time.
//!
//! `throughput` knows how fast a model trains at each width, `profile` what is free at each time, `share` the least that
//! suffices, `plans` the plans of all promised jobs, `planner` who is promised what, `leftover` who gets the rest. All of it
//! is pure: times come in, and work, time and accelerators are integers. `simulation` runs traces.

pub mod leftover;
pub mod planner;
mod plans;
pub mod profile;
pub mod share;
pub mod simulation;
pub mod throughput;
