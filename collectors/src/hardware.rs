//! Facts of the hardware from the `sysinfo` crate: names of processors and temperatures.
//!
//! The one place that uses it, and only where it knows what the kernel does not say in so many words: models of ARM
//! processors, and labels of sensors. Both are of the machine, wherever the kernel's files are seen from. For the
//! other figures it would be a loss (`docs/decisions/02-sysinfo.md`).

use std::collections::BTreeMap;

use sysinfo::{Components, CpuRefreshKind, RefreshKind, System};

/// The name of the first processor.
pub(crate) fn processor_model() -> Option<String> {
    let kind = RefreshKind::nothing().with_cpu(CpuRefreshKind::nothing());
    let system = System::new_with_specifics(kind);
    system.cpus().first().map(|cpu| cpu.brand().trim().to_owned()).filter(|brand| !brand.is_empty())
}

/// The sensors of temperature.
pub(crate) struct Sensors(Components);

impl Sensors {
    pub fn new() -> Self {
        Sensors(Components::new())
    }

    /// Degrees Celsius by the sensor's label.
    pub fn celsius(&mut self) -> BTreeMap<String, f64> {
        // Looks for sensors anew, since modules and devices come and go.
        self.0.refresh(true);
        let reading = |sensor: &sysinfo::Component| {
            let celsius = f64::from(sensor.temperature()?);
            celsius.is_finite().then(|| (sensor.label().trim().to_owned(), celsius))
        };
        self.0.iter().filter_map(reading).collect()
    }
}
