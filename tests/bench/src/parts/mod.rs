//! The measurements, a file a part. Each part can run alone; those on values in SQLite share one filled service.

pub mod agent;
pub mod batches;
pub mod cluster;
pub mod compare;
pub mod databases;
pub mod derive;
pub mod lateness;
pub mod loading;
pub mod peers;
pub mod placement;
pub mod reads;
pub mod reservations;
pub mod sources;
pub mod tasks;
pub mod writes;
