//! The manager's requests: a handler translates, the cluster decides. Errors become problems here and nowhere else.

pub mod agents;
pub mod changes;
pub mod discovery;
mod input;
pub mod instances;
pub mod nodes;
mod problems;
pub mod runs;
pub mod tasks;
pub mod uploads;
