//! What the `sysinfo` crate knows of the hardware: names of processors and temperatures.
//!
//! The one place that uses it, and only where it knows what the kernel does not say in so many words: models of ARM
//! processors, and labels of sensors. Both are of the machine, wherever the kernel's files are seen from. It is not
//! used for frequencies (it gives every core the one of the first, and bogomips where there is none) nor for disks (it
//! asks every mount, so a dead server would hold it up).

use std::collections::BTreeMap;

use sysinfo::{Components, CpuRefreshKind, RefreshKind, System};

/// What the first processor is called.
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
