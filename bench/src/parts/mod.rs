//! What is measured, a file a part. Each part can run alone; those on SQLite share one filled service.

pub mod batches;
pub mod databases;
pub mod loading;
pub mod reads;
pub mod writes;
