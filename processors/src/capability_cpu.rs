//! The paper's Equation (1): the part of the processor time that a program needs which is free.
//!
//! Perf = 1 if CpuFree ≥ CpuReq, else CpuFree / CpuReq. It does not know the speed of a processor, and all
//! nodes with enough to spare are equal.

use serde_json::Value;

use crate::estimate::Estimate;
use crate::reading::{number, number_at, place};
use crate::{Param, Params, Processor, ProcessorKind, Roles, Scope};

pub(crate) const KIND: ProcessorKind = ProcessorKind {
    name: "capability_cpu",
    about: "the share of the processor time that a program needs which is free: 0 to 1 (the paper's Equation 1)",
    inputs: &[ROLE],
    optional: &[],
    params: &[CPU_REQ, READS],
    make,
};

/// The role under which the load of the processors is read.
pub(crate) const ROLE: &str = "cpu";
pub(crate) const CPU_REQ: Param = Param::optional(
    "cpu_req",
    "the part of a whole machine's processors that the program needs, more than 0 and at most 1; 1 if absent",
);
pub(crate) const READS: Param = Param::optional(
    "reads",
    "the form of `cpu`: `free_fraction` (an object with freeFraction, or a number of 0 to 1; if absent) or \
            `usage_percent` (a number of 0 to 100)",
);

/// How far a measured fraction may be outside of 0 to 1: the kernel's counters are read one after another.
/// A number further out is not a fraction at all, and an error beats quietly calling it 1.
const ROUNDING: f64 = 0.01;

/// Equation (1) and how its CpuFree is read.
pub(crate) struct Equation {
    cpu_req: f64,
    reads: Reads,
}

#[derive(Clone, Copy)]
enum Reads {
    FreeFraction,
    UsagePercent,
}

impl Equation {
    pub fn new(params: &Params) -> Result<Self, String> {
        let reads = match params.text(READS.name).as_deref() {
            None | Some("free_fraction") => Reads::FreeFraction,
            Some("usage_percent") => Reads::UsagePercent,
            Some(other) => {
                return Err(format!(
                    "the parameter `reads` is `{other}`; expected `free_fraction` or `usage_percent`"
                ));
            }
        };
        // Of a program that nothing is known of, the fair guess is that it takes all it can get; and so no two
        // nodes look the same that are not.
        Ok(Equation { cpu_req: params.positive(CPU_REQ.name, 1.0, 1.0)?, reads })
    }

    /// CpuFree, from 0 to 1; none if it is not known yet.
    pub fn free(&self, input: &str, value: &Value) -> Result<Option<f64>, String> {
        let (free, at) = match (self.reads, value) {
            (_, Value::Null) => return Ok(None),
            (Reads::FreeFraction, Value::Object(_)) => {
                let Some(free) = number_at(input, value, "/freeFraction")? else { return Ok(None) };
                (free, "/freeFraction")
            }
            (Reads::FreeFraction, _) => (number(input, value, "")?, ""),
            (Reads::UsagePercent, _) => (1.0 - number(input, value, "")? / 100.0, ""),
        };
        match (-ROUNDING..=1.0 + ROUNDING).contains(&free) {
            true => Ok(Some(free.clamp(0.0, 1.0))),
            false => Err(match self.reads {
                Reads::FreeFraction => format!(
                    "{} is {free}; expected a fraction of 0 to 1 (for a percentage of usage: `reads` is \
                     `usage_percent`)",
                    place(input, at)
                ),
                Reads::UsagePercent => {
                    format!(
                        "{} is {}; expected a percentage of 0 to 100",
                        place(input, at),
                        (1.0 - free) * 100.0
                    )
                }
            }),
        }
    }

    /// Perf.
    pub fn perf(&self, free: f64) -> f64 {
        if free >= self.cpu_req { 1.0 } else { free / self.cpu_req }
    }
}

struct CapabilityCpu {
    input: String,
    equation: Equation,
}

fn make(params: &Params, roles: &Roles) -> Result<Box<dyn Processor>, String> {
    Ok(Box::new(CapabilityCpu { input: roles.name(ROLE).to_owned(), equation: Equation::new(params)? }))
}

impl Processor for CapabilityCpu {
    fn process(&self, scope: &dyn Scope) -> Result<Option<Value>, String> {
        let Some(cpu) = scope.fact(&self.input) else { return Ok(None) };
        match self.equation.free(&self.input, cpu.value)? {
            None => Ok(None),
            Some(free) => Estimate::of(self.equation.perf(free)).with(&[]),
        }
    }
}
