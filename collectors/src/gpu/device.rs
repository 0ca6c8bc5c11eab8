//! One device: its figures in the order in which they are shown.

use std::path::Path;
use std::time::{Duration, Instant};

use nvml_wrapper::bitmasks::device::ThrottleReasons;
use nvml_wrapper::enum_wrappers::device::{
    Clock, ComputeMode, EccCounter, MemoryError, PcieUtilCounter, TemperatureSensor, TemperatureThreshold,
};
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml};
use serde_json::{Map, Value, json};

use super::figures::Figures;
use super::{Answer, links, processes};

/// The driver watches the bus for 20 ms, once a direction.
const WATCHES_BUS: Duration = Duration::from_millis(100);

/// Asks the device of an index for everything.
pub(super) fn read(nvml: &Nvml, index: u32, proc: &Path, until: Instant) -> Answer {
    if Instant::now() >= until {
        return failing(Map::new(), NvmlError::Timeout);
    }
    let device = match nvml.device_by_index(index) {
        Ok(device) => device,
        Err(error) => return failing(Map::new(), error),
    };
    let mut figures = Figures::default();
    what_it_is(&mut figures, &device);
    how_it_is(&mut figures, &device);
    figures.part("clocks", |part| clocks(part, &device));
    throttling(&mut figures, &device);
    figures.part("ecc", |part| ecc(part, &device));
    processes::read(&mut figures, &device, proc);
    mig(&mut figures, &device);
    figures.part("nvlink", |part| links::read(part, &device));
    figures.part("pcie", |part| pcie(part, &device, until));
    let (object, trouble) = figures.end();
    match trouble {
        None => Answer { object, trouble: None },
        Some(trouble) => failing(object, trouble),
    }
}

/// Of a failing device only what it is stays: figures from before it failed could be taken for those of now.
fn failing(mut object: Map<String, Value>, trouble: NvmlError) -> Answer {
    object.retain(|name, _| matches!(name.as_str(), "name" | "uuid"));
    object.insert("error".into(), json!(trouble.to_string()));
    Answer { object, trouble: Some(trouble) }
}

fn what_it_is(figures: &mut Figures, device: &Device<'_>) {
    figures.put("name", || device.name());
    figures.put("uuid", || device.uuid());
    if let Some(mode) = figures.ask(|| device.compute_mode()) {
        let mode = match mode {
            ComputeMode::Default => "default",
            ComputeMode::ExclusiveThread => "exclusive-thread",
            ComputeMode::Prohibited => "prohibited",
            ComputeMode::ExclusiveProcess => "exclusive-process",
        };
        figures.set("computeMode", mode);
    }
    figures.put("persistenceMode", || device.is_in_persistent_mode());
}

fn how_it_is(figures: &mut Figures, device: &Device<'_>) {
    if let Some(used) = figures.ask(|| device.utilization_rates()) {
        let fractions = json!({"gpu": fraction(used.gpu), "memory": fraction(used.memory)});
        figures.set("utilizationFraction", fractions);
    }
    memory(figures, device);
    figures.put("temperatureCelsius", || device.temperature(TemperatureSensor::Gpu));
    figures.put("slowdownCelsius", || device.temperature_threshold(TemperatureThreshold::Slowdown));
    figures.put("shutdownCelsius", || device.temperature_threshold(TemperatureThreshold::Shutdown));
    figures.put("powerWatts", || device.power_usage().map(watts));
    figures.put("powerLimitWatts", || device.enforced_power_limit().map(watts));
    if let Some(count) = figures.ask(|| device.num_fans()) {
        figures.part("fans", |part| {
            for fan in 0..count.min(16) {
                if let Some(percent) = part.ask(|| device.fan_speed(fan)) {
                    part.set(&fan.to_string(), json!({"speedFraction": fraction(percent)}));
                }
            }
        });
    }
}

fn memory(figures: &mut Figures, device: &Device<'_>) {
    if let Some(memory) = figures.ask(|| device.memory_info()) {
        figures.set("memoryTotalBytes", memory.total);
        figures.set("memoryUsedBytes", memory.used);
        figures.set("memoryFreeBytes", memory.free);
    }
}

fn clocks(part: &mut Figures, device: &Device<'_>) {
    let kinds = [
        (Clock::Graphics, "graphicsMhz", "maxGraphicsMhz"),
        (Clock::SM, "smMhz", "maxSmMhz"),
        (Clock::Memory, "memoryMhz", "maxMemoryMhz"),
    ];
    for (clock, now, max) in kinds {
        part.put(now, || device.clock_info(clock));
        part.put(max, || device.max_clock_info(clock));
    }
}

const REASONS: [(ThrottleReasons, &str); 9] = [
    (ThrottleReasons::GPU_IDLE, "gpu-idle"),
    (ThrottleReasons::APPLICATIONS_CLOCKS_SETTING, "applications-clocks"),
    (ThrottleReasons::SW_POWER_CAP, "sw-power-cap"),
    (ThrottleReasons::HW_SLOWDOWN, "hw-slowdown"),
    (ThrottleReasons::SYNC_BOOST, "sync-boost"),
    (ThrottleReasons::SW_THERMAL_SLOWDOWN, "sw-thermal"),
    (ThrottleReasons::HW_THERMAL_SLOWDOWN, "hw-thermal"),
    (ThrottleReasons::HW_POWER_BRAKE_SLOWDOWN, "hw-power-brake"),
    (ThrottleReasons::DISPLAY_CLOCK_SETTING, "display-clock"),
];

fn throttling(figures: &mut Figures, device: &Device<'_>) {
    // Reasons that newer drivers add are passed over.
    if let Some(reasons) = figures.ask(|| device.current_throttle_reasons()) {
        let words: Vec<&str> =
            REASONS.iter().filter(|(reason, _)| reasons.contains(*reason)).map(|(_, word)| *word).collect();
        figures.set("throttleReasons", words);
    }
}

fn ecc(part: &mut Figures, device: &Device<'_>) {
    let Some(mode) = part.ask(|| device.is_ecc_enabled()) else { return };
    part.set("enabled", mode.currently_enabled);
    part.set("pending", mode.pending_enabled);
    for (span, name) in [(EccCounter::Volatile, "volatile"), (EccCounter::Aggregate, "aggregate")] {
        part.part(name, |part| {
            part.put("corrected", || device.total_ecc_errors(MemoryError::Corrected, span));
            part.put("uncorrected", || device.total_ecc_errors(MemoryError::Uncorrected, span));
        });
    }
}

fn mig(figures: &mut Figures, device: &Device<'_>) {
    let Some(mode) = figures.ask(|| device.mig_mode()) else { return };
    figures.part("mig", |part| {
        part.set("enabled", mode.current == 1);
        part.set("pending", mode.pending == 1);
        let Some(most) = part.ask(|| device.mig_device_count()).filter(|_| mode.current == 1) else { return };
        part.part("instances", |part| {
            for index in 0..most.min(16) {
                let Some(instance) = part.ask(|| device.mig_device_by_index(index)) else { continue };
                part.part(&index.to_string(), |part| mig_instance(part, &instance));
            }
        });
    });
}

fn mig_instance(part: &mut Figures, instance: &Device<'_>) {
    part.put("name", || instance.name());
    part.put("uuid", || instance.uuid());
    memory(part, instance);
    if let Some(has) = part.ask(|| instance.attributes()) {
        part.set("gpuSlices", has.gpu_instance_slice_count);
        part.set("computeSlices", has.compute_instance_slice_count);
        part.set("multiprocessors", has.multiprocessor_count);
    }
}

fn pcie(part: &mut Figures, device: &Device<'_>, until: Instant) {
    part.put("generation", || device.current_pcie_link_gen());
    part.put("maxGeneration", || device.max_pcie_link_gen());
    part.put("width", || device.current_pcie_link_width());
    part.put("maxWidth", || device.max_pcie_link_width());
    part.put("replays", || device.pcie_replay_counter());
    if until.saturating_duration_since(Instant::now()) < WATCHES_BUS {
        return;
    }
    part.put("txBytesPerSecond", || device.pcie_throughput(PcieUtilCounter::Send).map(kilobytes));
    part.put("rxBytesPerSecond", || device.pcie_throughput(PcieUtilCounter::Receive).map(kilobytes));
}

fn fraction(percent: u32) -> f64 {
    f64::from(percent) / 100.0
}

fn watts(milliwatts: u32) -> f64 {
    f64::from(milliwatts) / 1000.0
}

fn kilobytes(count: u32) -> u64 {
    u64::from(count) * 1000
}
