//! Processors that ship in the box: estimators of the capability of a node.
//!
//! A processor is a function of the facts of one node ([`Scope`]): it does no I/O and knows no clock, so it is
//! tested with tables. One file each, and one line in [`ALL`]. The same estimates can be written as expressions or as
//! scripts; these are the ones that need no process.

use std::collections::BTreeMap;
use std::time::Duration;

pub use estimand_expressions::{Fact, PastPart, Sample, Scope};
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

pub use params::{Params, Roles};

/// The parameters of a registration, by name.
pub type ParamValues = BTreeMap<String, Value>;

/// An estimator with its parameters.
pub trait Processor: Send {
    /// The estimate for the scope's node; none if there is nothing to say yet. The error is for people.
    fn process(&self, scope: &dyn Scope) -> Result<Option<Value>, String>;

    /// How far back it reads its inputs' past, if at all.
    fn window(&self) -> Option<Duration> {
        None
    }
}

/// A parameter of a processor, for people.
#[derive(Debug, Clone, Copy)]
pub struct Param {
    pub name: &'static str,
    pub about: &'static str,
    pub required: bool,
}

impl Param {
    pub const fn optional(name: &'static str, about: &'static str) -> Self {
        Param { name, about, required: false }
    }
}

type Make = fn(&Params, &Roles) -> Result<Box<dyn Processor>, String>;

/// A processor in the catalogue: its name, its inputs and parameters, and the function that makes one.
pub struct ProcessorKind {
    pub name: &'static str,
    pub about: &'static str,
    /// The inputs that it reads, by role. A role is also the data name, unless the parameter of that name gives
    /// another one.
    pub inputs: &'static [&'static str],
    /// The inputs that it can do without.
    pub optional: &'static [&'static str],
    pub params: &'static [Param],
    make: Make,
}

/// The catalogue, in the order in which it is listed.
pub const ALL: &[&ProcessorKind] = &[
    &capability_config::KIND,
    &capability_cpu::KIND,
    &capability_history::KIND,
    &capability_ewma::KIND,
    &capability_blend::KIND,
];

/// The processor of a name.
pub fn find(name: &str) -> Option<&'static ProcessorKind> {
    ALL.iter().find(|kind| kind.name == name).copied()
}

/// Makes a processor; rejects parameters that it does not have, and values that they cannot take.
pub fn make(kind: &ProcessorKind, params: &ParamValues) -> Result<Box<dyn Processor>, String> {
    (kind.make)(&Params::new(kind, params)?, &Roles::of(kind, params)?)
}
