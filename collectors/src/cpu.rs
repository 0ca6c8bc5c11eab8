//! `cpu`: use of the processors, all together and each, with their model and frequencies.
//!
//! From `/proc/stat`: the difference between two samples, core by core. Only cores that were there in both count, so
//! that one that comes or goes (hot-plug) does not turn up as idle or busy time of the others. Time for guests is
//! already within user time. Waiting for input and output may go backwards in the kernel; then there was none.
//! Invariants: the fractions are within 0 and 1 and come to 1 together.

use std::collections::BTreeMap;
use std::time::Instant;

use serde_json::{Map, Value, json};

use crate::samples::{Samples, fraction, grown};
use crate::{
    Collector, CollectorKind, DefaultRegistration, Failure, Params, Reading, Roots, Surroundings, figures,
    files, hardware, pressure,
};

pub(crate) const KIND: CollectorKind = CollectorKind {
    name: "cpu",
    about: "use of the processors, all together and each; their model, number and frequency",
    params: &[],
    default: Some(DefaultRegistration { every: 5.0, once: false }),
    make,
};

/// Cores of which each is told about; a machine with more is told about as a whole.
const MOST_CORES: usize = 512;

fn make(_: &Params, around: &Surroundings) -> Result<Box<dyn Collector>, String> {
    Ok(Box::new(Cpu { roots: around.roots.clone(), model: None, samples: Samples::new() }))
}

struct Cpu {
    roots: Roots,
    /// Asked for once.
    model: Option<Option<String>>,
    samples: Samples<Stat>,
}

impl Collector for Cpu {
    fn collect(&mut self, until: Instant) -> Result<Reading, Failure> {
        let path = self.roots.proc.join("stat");
        let take = || {
            let stat = parse(&files::text(&path)?);
            let known = !stat.cores.is_empty() || stat.all.is_some();
            known
                .then_some(stat)
                .ok_or_else(|| Failure::Failed(format!("{} lists no processor", path.display())))
        };
        let (usage, cores) =
            self.samples.compare(until, take, |pair| (Usage::of(pair.before, pair.now), cores(pair.now)))?;
        let cpuinfo = files::optional(&self.roots.proc.join("cpuinfo")).unwrap_or_default();
        let frequencies = frequencies(&self.roots, &cores, &cpuinfo);
        let model = self.model.get_or_insert_with(|| model(&cpuinfo).or_else(hardware::processor_model));
        let mut value = usage.value(&cores, &frequencies, model.as_deref());
        pressure::add(&mut value, &self.roots, "cpu");
        Ok(Reading::Here(value))
    }
}

/// Ticks since the start of the machine.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Ticks {
    user: u64,
    nice: u64,
    system: u64,
    idle: u64,
    iowait: u64,
    irq: u64,
    softirq: u64,
    steal: u64,
}

#[derive(Debug, Clone, Default, PartialEq)]
struct Stat {
    all: Option<Ticks>,
    /// Those that are on line, by their numbers.
    cores: BTreeMap<u32, Ticks>,
}

fn parse(text: &str) -> Stat {
    let mut stat = Stat::default();
    for line in files::lines(text) {
        let mut words = line.split_ascii_whitespace();
        let Some(which) = words.next().and_then(|name| name.strip_prefix("cpu")) else { continue };
        let Some(ticks) = parse_ticks(words) else { continue };
        if which.is_empty() {
            stat.all = Some(ticks);
        } else if let Ok(number) = which.parse() {
            stat.cores.insert(number, ticks);
        }
    }
    stat
}

/// The first four are always there; kernels have added the others one by one.
fn parse_ticks<'a>(words: impl Iterator<Item = &'a str>) -> Option<Ticks> {
    let numbers: Vec<u64> = words.map_while(|word| word.parse().ok()).take(8).collect();
    let [user, nice, system, idle, ..] = numbers[..] else { return None };
    let later = |position: usize| numbers.get(position).copied().unwrap_or(0);
    let (iowait, irq, softirq, steal) = (later(4), later(5), later(6), later(7));
    Some(Ticks { user, nice, system, idle, iowait, irq, softirq, steal })
}

/// Ticks between two samples.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct TickDeltas {
    user: f64,
    system: f64,
    iowait: f64,
    steal: f64,
    idle: f64,
}

impl TickDeltas {
    /// Nothing if the counters began anew between them.
    fn between(before: &Ticks, now: &Ticks) -> Option<TickDeltas> {
        let grown = |field: fn(&Ticks) -> u64| grown(field(before), field(now)).map(|ticks| ticks as f64);
        Some(TickDeltas {
            user: grown(|ticks| ticks.user)? + grown(|ticks| ticks.nice)?,
            system: grown(|ticks| ticks.system)? + grown(|ticks| ticks.irq)? + grown(|ticks| ticks.softirq)?,
            steal: grown(|ticks| ticks.steal)?,
            // The kernel takes these two from estimates, which it corrects.
            iowait: grown(|ticks| ticks.iowait).unwrap_or(0.0),
            idle: grown(|ticks| ticks.idle).unwrap_or(0.0),
        })
    }

    fn add(&mut self, other: &TickDeltas) {
        self.user += other.user;
        self.system += other.system;
        self.iowait += other.iowait;
        self.steal += other.steal;
        self.idle += other.idle;
    }

    fn total(&self) -> f64 {
        self.user + self.system + self.iowait + self.steal + self.idle
    }

    fn fraction(&self, part: f64) -> Value {
        figures::fraction(fraction(part, self.total()))
    }

    fn usage(&self) -> Value {
        self.fraction(self.user + self.system + self.steal)
    }
}

#[derive(Debug, PartialEq)]
struct Usage {
    all: TickDeltas,
    cores: BTreeMap<u32, TickDeltas>,
}

impl Usage {
    fn of(before: &Stat, now: &Stat) -> Usage {
        let core = |(number, now): (&u32, &Ticks)| {
            Some((*number, TickDeltas::between(before.cores.get(number)?, now)?))
        };
        let cores: BTreeMap<u32, TickDeltas> = now.cores.iter().filter_map(core).collect();
        let mut all = TickDeltas::default();
        cores.values().for_each(|spent| all.add(spent));
        // Some containers see the sum alone.
        if let (true, Some(before), Some(now)) = (now.cores.is_empty(), &before.all, &now.all) {
            all = TickDeltas::between(before, now).unwrap_or_default();
        }
        Usage { all, cores }
    }

    fn value(&self, online: &[u32], frequencies: &BTreeMap<u32, f64>, model: Option<&str>) -> Value {
        let all = &self.all;
        let frequency = |number: &u32| figures::rate(frequencies.get(number).copied());
        let mean = frequencies.values().sum::<f64>() / frequencies.len() as f64;
        let core = |number: &u32| {
            let usage = self.cores.get(number).map_or(Value::Null, TickDeltas::usage);
            (number.to_string(), json!({"usageFraction": usage, "frequencyMhz": frequency(number)}))
        };
        let cores: Map<String, Value> = online.iter().take(MOST_CORES).map(core).collect();
        json!({
            "usageFraction": all.usage(),
            "userFraction": all.fraction(all.user),
            "systemFraction": all.fraction(all.system),
            "iowaitFraction": all.fraction(all.iowait),
            "stealFraction": all.fraction(all.steal),
            "idleFraction": all.fraction(all.idle),
            "freeFraction": all.fraction(all.idle + all.iowait),
            "count": online.len().max(1),
            "model": model,
            "frequencyMhz": figures::rate(Some(mean).filter(|mean| mean.is_finite())),
            "cores": cores,
        })
    }
}

fn cores(stat: &Stat) -> Vec<u32> {
    stat.cores.keys().copied().collect()
}

/// Megahertz by core, of those that say so. Where frequencies are governed, sysfs has each; else `/proc/cpuinfo` may.
fn frequencies(roots: &Roots, cores: &[u32], cpuinfo: &str) -> BTreeMap<u32, f64> {
    let governed = |number: u32| {
        let path = format!("devices/system/cpu/cpu{number}/cpufreq/scaling_cur_freq");
        Some((number, files::number(&roots.sys.join(path))? as f64 / 1000.0))
    };
    let Some(first) = cores.first().and_then(|number| governed(*number)) else {
        let mut frequencies = parse_frequencies(cpuinfo);
        frequencies.retain(|number, _| cores.contains(number));
        return frequencies;
    };
    cores.iter().skip(1).filter_map(|number| governed(*number)).chain([first]).collect()
}

fn parse_frequencies(cpuinfo: &str) -> BTreeMap<u32, f64> {
    let mut frequencies = BTreeMap::new();
    let mut number = None;
    for (key, value) in files::lines(cpuinfo).filter_map(|line| line.split_once(':')) {
        match key.trim() {
            "processor" => number = value.trim().parse::<u32>().ok(),
            // POWER says `clock`, with the unit.
            "cpu MHz" | "clock" => {
                let frequency = value.trim().trim_end_matches("MHz").parse::<f64>().ok();
                let frequency = frequency.filter(|frequency| frequency.is_finite() && *frequency > 0.0);
                frequencies.extend(number.zip(frequency));
            }
            _ => {}
        }
    }
    frequencies
}

/// The model in the words of x86 and MIPS; other machines describe their processors by numbers.
fn model(cpuinfo: &str) -> Option<String> {
    let named = |(key, value): (&str, &str)| {
        matches!(key.trim(), "model name" | "cpu model").then(|| value.trim().to_owned())
    };
    files::lines(cpuinfo)
        .filter_map(|line| line.split_once(':'))
        .find_map(named)
        .filter(|model| !model.is_empty())
}

#[cfg(test)]
mod tests;
