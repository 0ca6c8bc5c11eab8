//! The words that every part of Estimand speaks: names, wire types, problem details and a typed client.
//!
//! This crate knows no other crate of the workspace. The input of a service is checked here, completely, so
//! that the same rule holds for every program that speaks the interface. Schedulers depend on this crate
//! alone.

pub mod access;
pub mod assignment;
pub mod command;
pub mod condition;
pub mod cron;
pub mod declaration;
pub mod duration;
pub mod fields;
pub mod file;
pub mod file_share;
pub mod headers;
pub mod heartbeat_size;
pub mod identity;
pub mod image;
pub mod instant;
pub mod json;
pub mod json_text;
pub mod labels;
pub mod names;
pub mod node;
mod node_state;
pub mod notice;
pub mod numbers;
mod option_text;
pub mod order;
pub mod pointer;
pub mod problem;
pub mod promise;
pub mod registration;
pub mod reservation;
pub mod resources;
pub mod schema;
pub mod selector;
pub mod series;
pub mod share;
pub mod size;
pub mod slot;
pub mod study;
pub mod task;
pub mod task_document;
pub mod task_event;
pub mod task_files;
pub mod task_log;
pub mod task_progress;
pub mod task_record;
pub mod task_state;
pub mod task_stop;
pub mod task_usage;
pub mod tunnel;
pub mod value;
pub mod write;

/// True for a count that a document leaves out.
fn is_zero(count: &u64) -> bool {
    *count == 0
}
