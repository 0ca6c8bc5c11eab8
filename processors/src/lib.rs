//! Processors that ship in the box: estimators of what a node can do.
//!
//! A processor is a function of what is known of one node ([`Scope`]): it does no I/O and knows no clock, so it is
//! tested with tables. One file each, and one line in [`ALL`]. The same estimates can be written as expressions or as
//! scripts; these are the ones that need no process.

use std::collections::BTreeMap;

pub use estimand_expressions::{Fact, Sample, Scope};
use serde_json::Value;

mod capability_blend;
mod capability_config;
mod capability_cpu;
mod capability_ewma;
mod capability_history;
mod estimate;
#[cfg(test)]
mod facts;
mod params;
mod reading;
mod runs;
#[cfg(test)]
mod tests;

pub use params::{Roles, input_of};

/// What estimates.
pub trait Processor: Send {
    /// The estimate for the scope's node; none if there is nothing to say yet. The error is for people.
    fn process(&self, scope: &dyn Scope) -> Result<Option<Value>, String>;
}

/// The parameters of a registration, by name.
pub type Given = BTreeMap<String, Value>;

/// A parameter of a processor, for people.
#[derive(Debug, Clone, Copy)]
pub struct Param {
    pub name: &'static str,
    pub about: &'static str,
}

/// A processor by its name.
pub struct Kind {
    pub name: &'static str,
    pub about: &'static str,
    /// What it reads, by role. A role is also the data name, unless the parameter of that name gives another one.
    pub inputs: &'static [&'static str],
    /// Those of them that it can do without.
    pub optional: &'static [&'static str],
    pub params: &'static [Param],
    /// Over how many seconds of an input's past it looks, if at all.
    pub window: fn(&Given) -> Option<f64>,
    /// Makes one; refuses parameters that are no good.
    pub make: fn(&Given) -> Result<Box<dyn Processor>, String>,
}

/// All of them, in the order in which they are listed.
pub const ALL: &[Kind] = &[
    capability_config::KIND,
    capability_cpu::KIND,
    capability_history::KIND,
    capability_ewma::KIND,
    capability_blend::KIND,
];

/// The one of a name.
pub fn find(name: &str) -> Option<&'static Kind> {
    ALL.iter().find(|kind| kind.name == name)
}
