//! NVIDIA's GPUs, through the driver's management library (NVML), loaded when first asked.
//!
//! On a machine without the driver or without devices it is not available. A figure that a device does
//! not support is left out; a device that fails has an `error` in its own object, and the others keep theirs. The
//! library's handle is kept, since opening it wakes the devices, and opened anew when the driver went away or a device
//! was lost. Nothing is ever set on a device.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Instant;

use nvml_wrapper::Nvml;
use nvml_wrapper::error::NvmlError;
use serde_json::{Map, Value, json};

use crate::{Collector, CollectorKind, DefaultRegistration, Failure, Param, Params, Reading, Surroundings};

mod device;
mod figures;
mod links;
mod processes;

use figures::gone;

pub(crate) const KIND: CollectorKind = CollectorKind {
    name: "gpu",
    about: "NVIDIA GPUs: use, memory, temperature, power, clocks, errors, processes, partitions and links",
    params: &[Param::optional(
        "library",
        "the file of the management library, if it is not where the loader looks",
    )],
    default: Some(DefaultRegistration { every: 15.0, once: false }),
    make,
};

/// More are not asked; no machine has as many.
const MOST_DEVICES: u32 = 64;

/// A value may have 64 KiB; what is largest and matters least goes when it would be more than this.
const MOST_BYTES: usize = 60 * 1024;

/// A lost device is looked for again, at the latest, after so many collections.
const MOST_PATIENCE: u32 = 16;

fn make(params: &Params, around: &Surroundings) -> Result<Box<dyn Collector>, String> {
    let library = params.text("library").filter(|path| !path.is_empty());
    library.as_deref().map_or(Ok(()), |library| around.bounds.check_library(library))?;
    let library = library.map(OsString::from);
    let proc = around.roots.proc.clone();
    Ok(Box::new(Gpu { library, proc, nvml: None, met: false, patience: 1, renew_in: None }))
}

struct Gpu {
    library: Option<OsString>,
    proc: PathBuf,
    nvml: Option<Nvml>,
    /// True once there was a device: its absence is a failure from then on.
    met: bool,
    /// How many collections go by before the handle is opened anew, while a device stays lost.
    patience: u32,
    renew_in: Option<u32>,
}

impl Collector for Gpu {
    fn collect(&mut self, until: Instant) -> Result<Reading, Failure> {
        if self.renew_in.as_mut().is_some_and(|left| {
            *left = left.saturating_sub(1);
            *left == 0
        }) {
            (self.nvml, self.renew_in) = (None, None);
        }
        let count = self.open()?;
        if count == 0 {
            // A library that was opened before a device was there may never see it.
            self.nvml = None;
            return Err(self.absent("the driver is there, but no GPU".to_owned()));
        }
        self.met = true;
        let Some(nvml) = &self.nvml else { return Err(Failure::Failed("the library is closed".to_owned())) };
        let all: Vec<Answer> =
            (0..count.min(MOST_DEVICES)).map(|index| device::read(nvml, index, &self.proc, until)).collect();
        let value = all.iter().any(|answer| answer.trouble.is_none()).then(|| summary(nvml, &all));
        let lost = all.iter().any(|answer| answer.trouble.as_ref().is_some_and(gone));
        self.renew(lost);
        value.map(Reading::Here).ok_or_else(|| Failure::Failed(nothing_left(&all)))
    }
}

/// The answers of one device.
struct Answer {
    object: Map<String, Value>,
    /// Why it is not to be counted on.
    trouble: Option<NvmlError>,
}

impl Gpu {
    /// Opens the library if it is not open; gives the number of devices. A library that lost its driver is opened anew.
    fn open(&mut self) -> Result<u32, Failure> {
        if let Some(nvml) = &self.nvml {
            match nvml.device_count() {
                Ok(count) => return Ok(count),
                Err(_) => self.nvml = None,
            }
        }
        let mut builder = Nvml::builder();
        if let Some(library) = &self.library {
            builder.lib_path(library);
        }
        let nvml = builder.init().map_err(|error| self.no_driver(&error))?;
        let count = nvml.device_count().map_err(|error| self.no_driver(&error))?;
        self.nvml = Some(nvml);
        Ok(count)
    }

    fn no_driver(&self, error: &NvmlError) -> Failure {
        match error {
            NvmlError::LibloadingError(cause) => self.absent(format!("no NVIDIA driver: {cause}")),
            NvmlError::FailedToLoadSymbol(cause) => {
                Failure::Failed(format!("this is no management library of NVIDIA's driver: {cause}"))
            }
            NvmlError::LibraryNotFound | NvmlError::DriverNotLoaded | NvmlError::NotFound => {
                self.absent(format!("no NVIDIA driver: {error}"))
            }
            error => Failure::Failed(format!("the NVIDIA driver refuses: {error}")),
        }
    }

    fn absent(&self, why: String) -> Failure {
        if self.met {
            return Failure::Failed(format!("there was a GPU, and now there is none: {why}"));
        }
        Failure::NotHere(why)
    }

    /// A device that was lost, or came back after a reset, is seen as it is only by a fresh handle; opening one at each
    /// collection while a device stays lost would wake the others each time.
    fn renew(&mut self, lost: bool) {
        if !lost {
            (self.patience, self.renew_in) = (1, None);
        } else if self.renew_in.is_none() {
            self.renew_in = Some(self.patience);
            self.patience = (self.patience * 2).min(MOST_PATIENCE);
        }
    }
}

fn nothing_left(all: &[Answer]) -> String {
    let each = all.iter().enumerate().filter_map(|(index, answer)| {
        answer.trouble.as_ref().map(|trouble| format!("GPU {index}: {trouble}"))
    });
    format!("no GPU answers: {}", each.collect::<Vec<_>>().join("; "))
}

fn summary(nvml: &Nvml, all: &[Answer]) -> Value {
    let well = all.iter().filter(|answer| answer.trouble.is_none()).count();
    let mut value = Map::new();
    value.insert("count".into(), json!(well));
    if well < all.len() {
        value.insert("failing".into(), json!(all.len() - well));
    }
    if let Ok(version) = nvml.sys_driver_version() {
        value.insert("driver".into(), json!(version));
    }
    if let Ok(version) = nvml.sys_cuda_driver_version() {
        value.insert("cuda".into(), json!(format!("{}.{}", version / 1000, version % 1000 / 10)));
    }
    let devices: Map<String, Value> = all
        .iter()
        .enumerate()
        .map(|(index, answer)| (index.to_string(), Value::Object(answer.object.clone())))
        .collect();
    value.insert("devices".into(), Value::Object(devices));
    fit(Value::Object(value))
}

/// Leaves out the processes, then the links, of a machine with so many that the value would be refused.
fn fit(mut value: Value) -> Value {
    let mut omitted = Vec::new();
    for part in ["processes", "nvlink"] {
        if value.to_string().len() <= MOST_BYTES {
            break;
        }
        let devices = value.get_mut("devices").and_then(Value::as_object_mut);
        for device in devices.into_iter().flat_map(Map::values_mut) {
            device.as_object_mut().map(|device| device.remove(part));
        }
        omitted.push(part);
        value["omitted"] = json!(omitted);
    }
    value
}
