//! Placement under a virtual clock: the policies, the queue, the machine of states and the ledger are those of
//! `estimand-placement` and `estimand-capacity`, called as a service calls them; only time and nodes are made up.
//!
//! A scheduler runs beside a trace, with the driver that a service has, too.
//!
//! The same input and seed give the same events. What happens is written as one log of events, which can be replayed.

mod chance;
mod engine;
mod log;
mod node;
mod report;
mod study;
pub mod trace;

pub use engine::driven::simulate_driven;
pub use engine::{Outcome, Setup, SimulationError, simulate, simulate_by_shares};
pub use log::{Entry, ReplayError, replay};
pub use report::{Summary, summary, table};
pub use study::{Load, Study, nodes_of};
