//! The data service's requests: each handler translates between HTTP and the service.

pub mod asked;
pub mod bindings;
pub mod clock_skew;
mod gap;
pub mod history;
pub mod influx;
pub mod metrics;
pub mod name_list;
mod named_items;
pub mod names;
pub mod node_labels;
pub mod orders;
pub mod otlp;
pub mod problems;
pub mod producers;
pub mod push;
mod pushed;
pub mod read;
pub mod read_one;
pub mod refusals;
mod rendered;
pub mod speakers;
mod valid_for;
pub mod watch;
mod watched;
pub mod write;
