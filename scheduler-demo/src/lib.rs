//! The paper's application: divides image batches among nodes by what is known of them.
//!
//! [`plan`] decides and does nothing else: it reads no file, no network and no clock. [`facts`] reads what is known, in
//! one request; [`planned`] makes a plan of it; [`run`] carries it out by whatever [`dispatch`] there is, and
//! [`report`] shows how it went. All that is known of the world are names of data: none of an estimator, of a collector
//! or of a node.

pub mod dispatch;
pub mod facts;
#[cfg(test)]
mod fake;
pub mod job;
pub mod plan;
pub mod planned;
pub mod report;
pub mod results;
pub mod run;
