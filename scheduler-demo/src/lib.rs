//! The paper's application: divides image batches among nodes by the nodes' capabilities.
//!
//! [`plan`] is pure: it reads no file, no network and no clock. [`facts`] reads the facts in one request; [`job_plan`]
//! makes a plan of them; [`run`] carries it out through a dispatcher of [`dispatch`], and [`report`] presents the run. The
//! crate knows names of data only: no estimator, no collector and no node.

mod columns;
pub mod dispatch;
pub mod facts;
#[cfg(test)]
mod fake;
pub mod job;
pub mod job_plan;
pub mod plan;
pub mod report;
pub mod results;
pub mod run;
