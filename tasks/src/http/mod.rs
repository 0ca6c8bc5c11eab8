//! The task service's requests: a handler translates, the writer decides. Errors become problems here and nowhere else.

pub mod capacity;
pub mod changes;
pub mod events;
pub mod images;
pub mod logs;
mod pages;
mod problems;
pub mod progress;
pub mod promises;
pub mod read;
mod selection;
pub mod timeline;
pub mod tunnels;
pub mod usage;
mod views;
pub mod watch;
pub mod web;
