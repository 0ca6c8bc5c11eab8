//! The reference's policies and its charge, so that others are measured by the same yardstick.

pub mod charge;
pub mod elasticflow;
