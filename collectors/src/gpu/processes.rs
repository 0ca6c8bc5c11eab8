//! The processes on a device: the driver lists them by kind of use and, on a partitioned device, by partition; here
//! each is one entry.

use std::collections::BTreeMap;
use std::path::Path;

use nvml_wrapper::Device;
use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::struct_wrappers::device::ProcessInfo;
use serde_json::{Map, Value, json};

use super::figures::Figures;

/// Those with the most memory are shown; all are counted.
const MOST_SHOWN: usize = 64;

#[derive(Default, Clone)]
struct Use {
    compute: Option<u64>,
    graphics: Option<u64>,
    kinds: [bool; 2],
}

impl Use {
    /// Both kinds of use report the memory of the process as a whole.
    fn bytes(&self) -> Option<u64> {
        self.compute.max(self.graphics)
    }

    fn kind(&self) -> &'static str {
        match self.kinds {
            [true, true] => "both",
            [_, true] => "graphics",
            _ => "compute",
        }
    }
}

pub(super) fn read(figures: &mut Figures, device: &Device<'_>, proc: &Path) {
    let compute = figures.ask(|| device.running_compute_processes());
    let graphics = figures.ask(|| device.running_graphics_processes());
    if compute.is_none() && graphics.is_none() {
        return;
    }
    let uses = merged(&compute.unwrap_or_default(), &graphics.unwrap_or_default());
    figures.set("processCount", uses.len());
    figures.set("processes", shown(&uses, |pid| name_of(proc, pid)));
}

fn merged(compute: &[ProcessInfo], graphics: &[ProcessInfo]) -> BTreeMap<u32, Use> {
    let mut uses: BTreeMap<u32, Use> = BTreeMap::new();
    for (kind, list) in [compute, graphics].into_iter().enumerate() {
        for process in list {
            let one = uses.entry(process.pid).or_default();
            one.kinds[kind] = true;
            let sum = if kind == 0 { &mut one.compute } else { &mut one.graphics };
            if let UsedGpuMemory::Used(bytes) = process.used_gpu_memory {
                // The same process on several partitions uses the memory of each.
                *sum = Some(sum.unwrap_or(0).saturating_add(bytes));
            }
        }
    }
    uses
}

fn shown(uses: &BTreeMap<u32, Use>, name_of: impl Fn(u32) -> Option<String>) -> Map<String, Value> {
    let mut most: Vec<(&u32, &Use)> = uses.iter().collect();
    most.sort_by_key(|(_, one)| std::cmp::Reverse(one.bytes()));
    most.truncate(MOST_SHOWN);
    most.sort_by_key(|(pid, _)| **pid);
    let entry = |(pid, one): (&u32, &Use)| {
        let mut entry = json!({"kind": one.kind()});
        if let Some(bytes) = one.bytes() {
            entry["usedMemoryBytes"] = json!(bytes);
        }
        if let Some(name) = name_of(*pid) {
            entry["name"] = json!(name);
        }
        (pid.to_string(), entry)
    };
    most.into_iter().map(entry).collect()
}

/// The name that the kernel keeps. A process of another container has none here.
fn name_of(proc: &Path, pid: u32) -> Option<String> {
    let name = std::fs::read(proc.join(pid.to_string()).join("comm")).ok()?;
    let name = String::from_utf8_lossy(&name);
    let name = name.trim_end().to_owned();
    Some(name).filter(|name| !name.is_empty())
}
