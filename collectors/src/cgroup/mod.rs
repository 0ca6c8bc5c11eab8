//! `cgroup`: limits and use of this process's control group, which in a container is less than the machine.
//!
//! Version 1 and 2 of control groups and the mix of both; [`place`] finds the files. Invariants: a limit
//! is the least of the group's own and of those above it that can be seen; throttling is that of the group
//! whose limit it is.

use std::path::{Path, PathBuf};
use std::time::Instant;

use serde_json::{Map, Value, json};

use crate::samples::{Pair, Samples, fraction, grown, per_second};
use crate::{
    Collector, CollectorKind, DefaultRegistration, Failure, Param, Params, Reading, Roots, Surroundings,
    figures, files, mounts, pressure,
};

mod place;

use place::{Group, Groups};

pub(crate) const KIND: CollectorKind = CollectorKind {
    name: "cgroup",
    about: "limits and use of a control group, such as a container: processors, throttling, memory, processes",
    params: &[Param::optional(
        "path",
        "a group, such as /system.slice/x.service; by default the one that this process is in",
    )],
    default: Some(DefaultRegistration { every: 15.0, once: false }),
    make,
};

/// Version 1 says "no limit" as the largest number of whole pages, which depends on their size.
const NO_LIMIT_BYTES: u64 = 1 << 62;

fn make(params: &Params, around: &Surroundings) -> Result<Box<dyn Collector>, String> {
    let path = params.text("path").filter(|path| !path.is_empty());
    if let Some(path) = path.as_deref().filter(|path| path.split('/').any(|part| part == "..")) {
        return Err(format!("the parameter `path` is `{path}`; expected one without `..`"));
    }
    Ok(Box::new(Cgroup { roots: around.roots.clone(), path, samples: Samples::new() }))
}

struct Cgroup {
    roots: Roots,
    path: Option<String>,
    samples: Samples<Sample>,
}

impl Collector for Cgroup {
    fn collect(&mut self, until: Instant) -> Result<Reading, Failure> {
        let own = self.roots.proc.join("self");
        let mounts = mounts::parse(&files::required(&own.join("mountinfo"))?);
        let text = files::text(&own.join("cgroup"))?;
        let groups = Groups::find(&text, &mounts, &self.roots.root, self.path.as_deref());
        if groups.is_empty() {
            let which = self.path.as_deref().map_or(String::new(), |path| format!(" {path}"));
            return Err(Failure::NotHere(format!("no control group{which} can be seen")));
        }
        let mut value =
            self.samples.compare(until, || Ok(Sample::take(&groups)), |pair| processors(&pair))?;
        value.insert("version".to_owned(), json!(groups.version()));
        value.insert("paths".to_owned(), json!({"cpu": groups.path("cpu"), "memory": groups.path("memory")}));
        let cpus = groups.get("cpuset").and_then(|group| group.nearest(cpus_of));
        let limit = value.get("cpuLimit").and_then(Value::as_f64);
        let cores = [limit, cpus.map(|cpus| cpus as f64)].into_iter().flatten().reduce(f64::min);
        value.insert("cpusetCount".to_owned(), json!(cpus));
        value.insert("cpuCores".to_owned(), json!(cores));
        memory(&groups, &mut value);
        let pids = groups.get("pids");
        let pids_limit =
            pids.and_then(|group| least(group, |folder| files::number(&folder.join("pids.max"))));
        value.insert("pids".to_owned(), json!(pids.and_then(|group| group.number("pids.current"))));
        value.insert("pidsLimit".to_owned(), json!(pids_limit.map(|(_, limit)| limit)));
        if let Some(pressure) = groups.unified().and_then(pressure_on) {
            value.insert("pressure".to_owned(), pressure);
        }
        Ok(Reading::Here(Value::Object(value)))
    }
}

/// Counters of processor time; none where the kernel does not tell.
#[derive(Debug, Clone, Default, PartialEq)]
struct Sample {
    /// Of the group.
    usage_us: Option<u64>,
    /// Cores.
    limit: Option<f64>,
    /// The group whose limit it is; of the group itself without one.
    limiting: PathBuf,
    throttling: Throttling,
}

#[derive(Debug, Clone, Default, PartialEq)]
struct Throttling {
    usage_us: Option<u64>,
    periods: Option<u64>,
    throttled_periods: Option<u64>,
    throttled_us: Option<u64>,
}

impl Sample {
    fn take(groups: &Groups) -> Sample {
        let Some(cpu) = groups.get("cpu") else { return Sample::default() };
        let accounting = groups.get("cpuacct");
        // Version 1 may account in another hierarchy; levels are the same if there are as many.
        let usage_us = |level: usize| {
            let stat = files::optional(&cpu.folders.get(level)?.join("cpu.stat"));
            let in_stat = stat.and_then(|stat| files::word(&stat, "usage_usec"));
            let accounted = || {
                let same =
                    accounting.filter(|group| level == 0 || group.folders.len() == cpu.folders.len())?;
                Some(files::number(&same.folders.get(level)?.join("cpuacct.usage"))? / 1000)
            };
            in_stat.or_else(accounted)
        };
        let (level, limit) = match least(cpu, cpu_limit) {
            Some((level, limit)) => (level, Some(limit)),
            None => (0, None),
        };
        let limiting = cpu.folders.get(level).cloned().unwrap_or_default();
        let stat = files::optional(&limiting.join("cpu.stat")).unwrap_or_default();
        let throttled_us = files::word(&stat, "throttled_usec")
            .or_else(|| files::word(&stat, "throttled_time").map(|nanos| nanos / 1000));
        let throttling = Throttling {
            usage_us: usage_us(level),
            periods: files::word(&stat, "nr_periods"),
            throttled_periods: files::word(&stat, "nr_throttled"),
            throttled_us,
        };
        Sample { usage_us: usage_us(0), limit, limiting, throttling }
    }
}

fn processors(pair: &Pair<'_, Sample>) -> Map<String, Value> {
    let (before, now) = (pair.before, pair.now);
    let used = before.usage_us.zip(now.usage_us);
    let used = used.and_then(|(before, now)| per_second(before, now, pair.elapsed)).map(|us| us / 1e6);
    let same = before.limiting == now.limiting;
    let grown = |field: fn(&Throttling) -> Option<u64>| {
        let (before, now) = (field(&before.throttling)?, field(&now.throttling)?);
        grown(before, now).filter(|_| same).map(|grown| grown as f64)
    };
    // Of the processor time that the group wanted, what it was held back from. Time spent throttled is counted for
    // each processor, so that it can be more than the time that passed. Where use is not accounted for, the time
    // that passed has to do.
    let throttled = grown(|throttling| throttling.throttled_us).and_then(|throttled| {
        match grown(|throttling| throttling.usage_us) {
            Some(used) => Some(fraction(throttled, throttled + used).unwrap_or(0.0)),
            None if now.throttling.usage_us.is_none() => fraction(throttled, pair.elapsed.as_micros() as f64),
            None => None,
        }
    });
    // Without a limit nothing is held back, and the kernel may not count.
    let throttled = if now.limit.is_none() { Some(0.0) } else { throttled };
    let periods = grown(|throttling| throttling.throttled_periods)
        .zip(grown(|throttling| throttling.periods))
        .and_then(|(throttled, all)| fraction(throttled, all));
    let seconds = now.throttling.throttled_us.map(|microseconds| microseconds as f64 / 1e6);
    let value = json!({
        "version": Value::Null,
        "paths": Value::Null,
        "cpuLimit": figures::fraction(now.limit),
        "cpusetCount": Value::Null,
        "cpuCores": Value::Null,
        "usageCores": figures::fraction(used),
        "throttledFraction": figures::fraction(throttled),
        "throttledPeriodsFraction": figures::fraction(periods),
        "periods": now.throttling.periods,
        "throttledPeriods": now.throttling.throttled_periods,
        "throttledSeconds": figures::fraction(seconds),
    });
    value.as_object().cloned().unwrap_or_default()
}

fn memory(groups: &Groups, value: &mut Map<String, Value>) {
    let Some(group) = groups.get("memory") else { return };
    let stat = group.text("memory.stat").unwrap_or_default();
    let usage = group.number("memory.current").or_else(|| group.number("memory.usage_in_bytes"));
    // Caches of files that were not used lately are given up before memory is refused.
    let inactive = files::word(&stat, "total_inactive_file")
        .or_else(|| files::word(&stat, "inactive_file"))
        .unwrap_or(0);
    let working_set = usage.map(|usage| usage.saturating_sub(inactive));
    let limit = least(group, memory_limit).map(|(_, limit)| limit);
    let used = working_set.zip(limit).and_then(|(used, limit)| fraction(used as f64, limit as f64));
    let events = group.text("memory.events").or_else(|| group.text("memory.oom_control"));
    let oom_kills = events.and_then(|events| files::word(&events, "oom_kill"));
    value.insert("memoryLimitBytes".to_owned(), json!(limit));
    value.insert("memoryUsageBytes".to_owned(), json!(usage));
    value.insert("memoryWorkingSetBytes".to_owned(), json!(working_set));
    value.insert("memoryUsedFraction".to_owned(), figures::fraction(used));
    value.insert("oomKills".to_owned(), json!(oom_kills));
}

/// The least of what the group and those above it say, and which of them says it: the nearest of several.
fn least<T: PartialOrd + Copy>(group: &Group, limit: impl Fn(&Path) -> Option<T>) -> Option<(usize, T)> {
    let limits = group.folders.iter().enumerate().filter_map(|(level, folder)| Some((level, limit(folder)?)));
    limits.reduce(|least, next| if next.1 < least.1 { next } else { least })
}

/// Cores.
fn cpu_limit(folder: &Path) -> Option<f64> {
    let (quota, period) = match files::optional(&folder.join("cpu.max")) {
        Some(text) => parse_cpu_max(&text)?,
        // Minus one is no number here, and no limit.
        None => (
            files::number(&folder.join("cpu.cfs_quota_us"))?,
            files::number(&folder.join("cpu.cfs_period_us"))?,
        ),
    };
    (period > 0).then(|| quota as f64 / period as f64)
}

/// `max 100000` or `50000 100000`, in microseconds; the period may be missing.
fn parse_cpu_max(text: &str) -> Option<(u64, u64)> {
    let mut words = text.split_ascii_whitespace();
    let quota = words.next()?.parse().ok()?;
    Some((quota, words.next().map_or(Ok(100_000), str::parse).ok()?))
}

fn memory_limit(folder: &Path) -> Option<u64> {
    // `max` is no number, and no limit.
    let limit = files::number(&folder.join("memory.max"))
        .or_else(|| files::number(&folder.join("memory.limit_in_bytes")))?;
    (limit < NO_LIMIT_BYTES).then_some(limit)
}

/// How many processors the group may run on.
fn cpus_of(folder: &Path) -> Option<u64> {
    let names = ["cpuset.cpus.effective", "cpuset.effective_cpus", "cpuset.cpus"];
    let count = |name| files::count_of_list(&files::optional(&folder.join(name))?);
    names.into_iter().filter_map(count).find(|count| *count > 0)
}

fn pressure_on(group: &Group) -> Option<Value> {
    let of =
        |name: &str| Some((name.to_owned(), pressure::parse(&group.text(&format!("{name}.pressure"))?)?));
    let all: Map<String, Value> = ["cpu", "memory", "io"].into_iter().filter_map(of).collect();
    (!all.is_empty()).then_some(Value::Object(all))
}

#[cfg(test)]
mod tests;
