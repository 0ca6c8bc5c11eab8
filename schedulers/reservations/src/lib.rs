//! Reservations: a time to come is priced before it is promised, so that scarce hours go to who values them most.
//!
//! Pure: no clock, no I/O, no randomness of its own. The same calls give the same prices; a service and the simulation
//! here call the same functions.
//!
//! - [`Pricing`] quotes and promises (Basic-Econ). Prices are integers, and never depend on what a request is worth.
//! - [`predict`] has the predictors of demand that it prices by.
//! - [`credits`] has the rule by which credits move, and [`Settlement`] what is paid in the end.
//! - [`simulation`] prices recorded and generated demand under a virtual clock.

pub mod credits;
mod demand;
mod desk;
mod job;
mod market;
mod money;
pub mod predict;
mod pricing;
mod rate;
mod refusal;
mod request;
mod settlement;
pub mod simulation;
mod starts;
mod terms;

pub use demand::Demand;
pub use desk::{Answer, ListAnswer};
pub use job::Job;
pub use money::{Money, MoneyError};
pub use pricing::Pricing;
pub use rate::{PARTS, Rate};
pub use refusal::{MAX_LIST, MAX_WORKERS_OPEN, Refusal};
pub use request::{Bid, ElasticRequest, Quote, Request};
pub use settlement::{Delivery, EarlyEnd, Settlement, fee};
pub use terms::{MAX_HORIZON, Terms, TermsError};
