//! The paper's first estimate: the power of a node by its processors and accelerators.
//!
//! The unit is the core-gigahertz: cores times their clock, plus what each accelerator is worth in it. An
//! accelerator is judged by its memory, which is fixed and grows with its class; clocks move with load and
//! power, and would make a configuration change while nothing is configured.

use serde_json::{Value, json};

use crate::estimate::Estimate;
use crate::reading::{number_at, optional_number_at, place, shown};
use crate::{Param, Params, Processor, ProcessorKind, Roles, Scope};

pub(crate) const KIND: ProcessorKind = ProcessorKind {
    name: "capability_config",
    about: "cores times gigahertz, plus the weights of the accelerators (the paper's processor configuration)",
    inputs: &["cpu", "cgroup", "gpu"],
    optional: &["cgroup", "gpu"],
    params: &[
        Param::optional("default_mhz", "the clock of a processor that does not tell its own; 2000 if absent"),
        Param::optional(
            "gpu_weights",
            "weights of accelerators by a part of their names, such as `A100=900,T4=130`; the first that fits",
        ),
        Param::optional("gpu_weight", "the weight of any other accelerator"),
        Param::optional(
            "gpu_weight_per_gib",
            "the weight of one of which nothing above tells, for each GiB of its memory; 8 if absent",
        ),
    ],
    make,
};

const DEFAULT_MHZ: f64 = 2000.0;
const DEFAULT_WEIGHT_PER_GIB: f64 = 8.0;
/// The memory of an accelerator that does not tell its own.
const DEFAULT_GIB: f64 = 8.0;
const GIB: f64 = (1_u64 << 30) as f64;

struct CapabilityConfig {
    cpu: String,
    cgroup: String,
    gpu: String,
    default_mhz: f64,
    weights: Weights,
}

/// Weights of accelerators.
struct Weights {
    /// A part of a name in lower case, and the weight.
    named: Vec<(String, f64)>,
    any: Option<f64>,
    per_gib: f64,
}

fn make(params: &Params, roles: &Roles) -> Result<Box<dyn Processor>, String> {
    Ok(Box::new(CapabilityConfig {
        cpu: roles.name("cpu").to_owned(),
        cgroup: roles.name("cgroup").to_owned(),
        gpu: roles.name("gpu").to_owned(),
        default_mhz: params.positive("default_mhz", DEFAULT_MHZ, 1e6)?,
        weights: Weights::new(params)?,
    }))
}

impl Processor for CapabilityConfig {
    fn process(&self, scope: &dyn Scope) -> Result<Option<Value>, String> {
        let Some(cpu) = scope.fact(&self.cpu) else { return Ok(None) };
        let Some(count) = number_at(&self.cpu, cpu.value, "/count")? else { return Ok(None) };
        let count = not_negative(&self.cpu, "/count", count)?;
        let cores = self.limit(scope)?.map_or(count, |limit| limit.min(count));
        let mhz = optional_number_at(&self.cpu, cpu.value, "/frequencyMhz")?;
        let mhz = mhz.map(|mhz| not_negative(&self.cpu, "/frequencyMhz", mhz)).transpose()?;
        let mhz = mhz.filter(|mhz| *mhz > 0.0);
        let ghz = mhz.unwrap_or(self.default_mhz) / 1000.0;
        let gpus = self.accelerators(scope)?;
        let basis = if mhz.is_some() { "measured" } else { "assumed" };
        Estimate::of(cores * ghz + gpus).with(&[
            ("cores", json!(cores)),
            ("ghz", json!(ghz)),
            ("accelerators", json!(gpus)),
            ("basis", json!(basis)),
        ])
    }
}

impl CapabilityConfig {
    /// How many cores a container may use, if it is limited.
    fn limit(&self, scope: &dyn Scope) -> Result<Option<f64>, String> {
        let Some(cgroup) = scope.fact(&self.cgroup) else { return Ok(None) };
        match optional_number_at(&self.cgroup, cgroup.value, "/cpuLimit")? {
            Some(limit) if limit <= 0.0 => {
                let at = place(&self.cgroup, "/cpuLimit");
                Err(format!("{at} is {limit}; expected a number of cores, more than 0"))
            }
            limit => Ok(limit),
        }
    }

    /// The sum of the weights of the node's accelerators.
    fn accelerators(&self, scope: &dyn Scope) -> Result<f64, String> {
        let Some(gpu) = scope.fact(&self.gpu) else { return Ok(0.0) };
        match gpu.value.get("devices") {
            None | Some(Value::Null) => Ok(0.0),
            Some(Value::Object(devices)) => {
                devices.values().map(|device| self.weights.of(&self.gpu, device)).sum()
            }
            Some(other) => {
                let at = place(&self.gpu, "/devices");
                Err(format!("{at} is {}; expected an object of device to what it is", shown(other)))
            }
        }
    }
}

impl Weights {
    fn new(params: &Params) -> Result<Self, String> {
        let named = params.text("gpu_weights").unwrap_or_default();
        let entries = named.split(',').filter(|entry| !entry.trim().is_empty());
        Ok(Weights {
            named: entries.map(weight_entry).collect::<Result<_, _>>()?,
            any: params.weight("gpu_weight")?,
            per_gib: params.weight("gpu_weight_per_gib")?.unwrap_or(DEFAULT_WEIGHT_PER_GIB),
        })
    }

    fn of(&self, input: &str, device: &Value) -> Result<f64, String> {
        let name = device.get("name").and_then(Value::as_str).unwrap_or_default().to_lowercase();
        let named = self.named.iter().find(|(part, _)| name.contains(part)).map(|(_, weight)| *weight);
        if let Some(weight) = named.or(self.any) {
            return Ok(weight);
        }
        let bytes = optional_number_at(input, device, "/memoryTotalBytes")?;
        let bytes = bytes.map(|bytes| not_negative(input, "memoryTotalBytes", bytes)).transpose()?;
        Ok(self.per_gib * bytes.map_or(DEFAULT_GIB, |bytes| bytes / GIB))
    }
}

/// Reads `NAME=WEIGHT`.
fn weight_entry(entry: &str) -> Result<(String, f64), String> {
    let parts = entry.split_once('=').map(|(name, weight)| (name.trim(), weight.trim().parse()));
    match parts {
        Some((name, Ok(weight))) if !name.is_empty() && (0.0..f64::INFINITY).contains(&weight) => {
            Ok((name.to_lowercase(), weight))
        }
        _ => Err(format!(
            "the parameter `gpu_weights` has `{}`; expected a part of a name and a weight of 0 or more, such as \
             `A100=900`",
            entry.trim()
        )),
    }
}

fn not_negative(input: &str, pointer: &str, number: f64) -> Result<f64, String> {
    match number >= 0.0 {
        true => Ok(number),
        false => Err(format!("{} is {number}; expected 0 or more", place(input, pointer))),
    }
}
