//! Plans and policies: the paper's Algorithm 1, the optimum under known costs, a policy that measures on the way, and a
//! virtual cluster in which all three can be compared.
//!
//! Everything here is a function of its arguments: no I/O, no clock, no chance. Nodes are numbered by the order of
//! their names whatever order they came in, so the same facts always give the same plan. Every plan is a
//! partition: no item is lost, and none belongs to two nodes.

mod dynamic;
mod error;
mod expected;
mod fixed;
mod holdings;
mod item_plan;
mod ledger;
mod optimal;
mod order;
mod partition;
mod policy;
mod problem;
mod remainder;
pub mod simulate;
#[cfg(test)]
mod tests;

pub use dynamic::{DynamicPolicy, DynamicSettings};
pub use error::Error;
pub use expected::{ExpectedTimes, expected};
pub use fixed::FixedPolicy;
pub use holdings::{Holdings, Item};
pub use item_plan::{ItemPlan, pick_items};
pub use optimal::{OptimalPlan, optimal};
pub use partition::{Note, Part, Plan, Transfer, partition};
pub use policy::{Action, ItemId, Policy};
pub use problem::{CapabilityUse, Costs, MAX_CAPABILITY, Node, Problem, Trust, TrustRules};
