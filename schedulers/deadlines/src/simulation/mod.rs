//! Traces of jobs with deadlines under a virtual clock: our planner beside the reference's policies.
//!
//! `trace` reads a trace, `setup` is what it runs on, `ours` runs our planner, `reference` ElasticFlow, `figures` compares.

pub mod figures;
pub mod ours;
pub mod reference;
pub mod setup;
pub mod trace;
