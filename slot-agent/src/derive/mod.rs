//! Values that the agent derives from other values: expressions, and estimators that ship in the box.
//!
//! One task ([`task`]) watches everything that they read and asks the [`engine`], which is pure, for a round whenever
//! that has settled: all formulas that a change concerns, in the order of their dependence, each seeing what those
//! before it gave. What a round gave is handed over in one batch, so readers see all of it or nothing.
//! A [`formula`] is what a registration means; [`table`] is what is known of the inputs, [`past`] what was, [`recall`] asks for that; [`view`] is what one
//! evaluation sees of it. What must hold: nothing is computed from a value that is not fresh, unless the formula looks
//! at that itself; after a formula is taken away nothing of it is handed over any more.

mod engine;
mod formula;
mod once;
mod past;
mod recall;
mod table;
mod task;
mod view;

#[cfg(test)]
mod tests;

use estimand_api::registration::{Kind, Mode, Registration};

pub use engine::{NodeAnswer, Read, Round};
pub use formula::Formula;
pub use table::Moment;
pub use task::{Derive, Sink, Task};

/// True if a registration is computed from other values by the agent itself.
pub fn is_derived(registration: &Registration) -> bool {
    match registration.mode {
        Mode::Expr => true,
        Mode::Builtin => registration.kind == Kind::Processor,
        Mode::Exec | Mode::Stream => false,
    }
}
