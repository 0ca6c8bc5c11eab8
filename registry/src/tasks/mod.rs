//! The registry's background tasks, which tell the data service and the managers of its changes.

pub mod histories;
pub mod managers;
