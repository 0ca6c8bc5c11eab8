//! The registry's background tasks: who hears of its changes.

pub mod histories;
pub mod managers;
