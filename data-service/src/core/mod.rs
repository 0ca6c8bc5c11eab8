//! Values, bindings and the effect of a group of operations on them: pure, without a clock, a database, a
//! thread or HTTP.

pub mod alarms;
pub mod backlog;
pub mod binding_change;
pub mod bindings;
pub mod entry;
pub mod epochs;
pub mod group;
pub mod leftovers;
pub mod log;
pub mod node_index;
pub mod operations;
pub mod origin;
mod rejection;
pub mod rendering;
pub mod shared_pieces;
pub mod snapshot;
pub mod table;
pub mod value_cell;
pub mod view;

pub use rejection::Rejection;
