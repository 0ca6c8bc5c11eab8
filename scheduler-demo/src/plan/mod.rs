//! Who does what: the paper's Algorithm 1, the optimum under known costs, a policy that learns on the way, and a
//! virtual cluster in which all three can be compared.
//!
//! Everything here is a function of its arguments: no I/O, no clock, no chance. Nodes are numbered by the order of
//! their names whatever order they came in, so the same facts always give the same plan. Whatever is planned or
//! handed out is a partition: nothing is lost and nothing is anybody's twice.

mod dynamic;
mod error;
mod expected;
mod fixed;
mod holdings;
mod ledger;
mod optimal;
mod order;
mod partition;
mod pick;
mod policy;
mod problem;
mod remainder;
pub mod simulate;
#[cfg(test)]
mod tests;

pub use dynamic::{Dynamic, Settings};
pub use error::Error;
pub use expected::{Expected, expected};
pub use fixed::Fixed;
pub use holdings::{Holdings, Item};
pub use optimal::{Optimal, optimal};
pub use partition::{Note, Part, Plan, Transfer, partition};
pub use pick::{Picked, pick};
pub use policy::{Action, ItemId, Policy};
pub use problem::{Costs, MAX_CAPABILITY, Node, Problem, Standing, State, Trust, Trusts};
