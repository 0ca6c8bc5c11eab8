//! Placement: the states of a task, the queue and the policies, the promises of capacity, and the plan that follows from
//! tasks and nodes. The task service and the simulator call the same functions.
//!
//! Pure: values and functions of values. The time comes in as milliseconds of one clock, a seed wherever something is left
//! to chance.

pub mod book;
pub mod cluster;
pub mod decision;
pub mod dependency;
pub mod fit;
pub mod kept;
pub mod nodes;
pub mod obstacle;
pub mod outline;
pub mod places;
pub mod plan;
pub mod planner;
pub mod policy;
pub mod pressure;
pub mod promise;
pub mod promises;
pub mod queue;
mod replanning;
pub mod request;
pub mod retries;
pub mod room;
pub mod state;
mod stopping;
pub mod task;
mod time;
pub mod usage;
pub mod user_places;
mod waiting;

pub use time::Millis;
