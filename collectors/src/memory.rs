//! `memory`: size, use and pressure of memory and swap.
//!
//! From `/proc/meminfo` and `/proc/vmstat`. "Used" is memory that is not available: a cache that would be given up
//! for a program is not used.

use std::collections::HashMap;
use std::time::Instant;

use serde_json::{Value, json};

use crate::samples::{Pair, Samples, fraction, per_second};
use crate::{
    Collector, CollectorKind, DefaultRegistration, Failure, Params, Reading, Roots, Surroundings, figures,
    files, pressure,
};

pub(crate) const KIND: CollectorKind = CollectorKind {
    name: "memory",
    about: "memory and swap: how much there is, is used and is available, and the pressure on it",
    params: &[],
    default: Some(DefaultRegistration { every: 5.0, once: false }),
    make,
};

fn make(_: &Params, around: &Surroundings) -> Result<Box<dyn Collector>, String> {
    let page_bytes = rustix::param::page_size() as u64;
    Ok(Box::new(Memory { roots: around.roots.clone(), page_bytes, samples: Samples::new() }))
}

struct Memory {
    roots: Roots,
    page_bytes: u64,
    samples: Samples<SwapCounters>,
}

/// Counters since the start of the machine; none where the kernel does not count.
#[derive(Debug, Default, PartialEq)]
struct SwapCounters {
    in_pages: Option<u64>,
    out_pages: Option<u64>,
    oom_kills: Option<u64>,
}

impl Collector for Memory {
    fn collect(&mut self, until: Instant) -> Result<Reading, Failure> {
        let (proc, page_bytes) = (&self.roots.proc, self.page_bytes);
        let take = || Ok(parse_vmstat(&files::optional(&proc.join("vmstat")).unwrap_or_default()));
        let (swap_in, swap_out, oom_kills) = self.samples.compare(until, take, |pair| {
            let rate = |field: fn(&SwapCounters) -> Option<u64>| swap_rate(&pair, field, page_bytes);
            (rate(|swapped| swapped.in_pages), rate(|swapped| swapped.out_pages), pair.now.oom_kills)
        })?;
        let path = proc.join("meminfo");
        let mut value = describe(&parse(&files::text(&path)?))
            .ok_or_else(|| Failure::Failed(format!("{} does not say how much there is", path.display())))?;
        value["oomKills"] = json!(oom_kills);
        value["swap"]["inBytesPerSecond"] = figures::rate(swap_in);
        value["swap"]["outBytesPerSecond"] = figures::rate(swap_out);
        pressure::add(&mut value, &self.roots, "memory");
        Ok(Reading::Here(value))
    }
}

fn swap_rate(
    pair: &Pair<'_, SwapCounters>,
    field: fn(&SwapCounters) -> Option<u64>,
    page_bytes: u64,
) -> Option<f64> {
    Some(per_second(field(pair.before)?, field(pair.now)?, pair.elapsed)? * page_bytes as f64)
}

fn describe(meminfo: &HashMap<&str, u64>) -> Option<Value> {
    let get = |name| meminfo.get(name).copied();
    let or_zero = |name| get(name).unwrap_or(0);
    let total = get("MemTotal").filter(|total| *total > 0)?;
    let free = get("MemFree")?;
    // Kernels before 3.14 don't estimate it; nor does every container's view.
    let estimate = || {
        let caches = [free, or_zero("Buffers"), or_zero("Cached"), or_zero("SReclaimable")];
        caches.into_iter().fold(0, u64::saturating_add).saturating_sub(or_zero("Shmem"))
    };
    let available = get("MemAvailable").unwrap_or_else(estimate).min(total);
    let used = total - available;
    let (swap, swap_free) = (or_zero("SwapTotal"), or_zero("SwapFree"));
    let swap_used = swap.saturating_sub(swap_free);
    Some(json!({
        "totalBytes": total,
        "usedBytes": used,
        "availableBytes": available,
        "freeBytes": free,
        "usedFraction": figures::fraction(fraction(used as f64, total as f64)),
        "buffersBytes": get("Buffers"),
        "cachedBytes": get("Cached"),
        "reclaimableSlabBytes": get("SReclaimable"),
        "sharedBytes": get("Shmem"),
        "dirtyBytes": get("Dirty"),
        "oomKills": Value::Null,
        "swap": {
            "totalBytes": swap,
            "usedBytes": swap_used,
            "freeBytes": swap_free,
            "usedFraction": figures::fraction(fraction(swap_used as f64, swap as f64)),
        },
    }))
}

/// The fields of `/proc/meminfo` that are bytes, as bytes.
fn parse(text: &str) -> HashMap<&str, u64> {
    let field = |line| {
        let (name, rest): (&str, &str) = str::split_once(line, ':')?;
        let kilobytes: u64 = rest.trim().strip_suffix("kB")?.trim_end().parse().ok()?;
        Some((name.trim(), kilobytes.checked_mul(1024)?))
    };
    files::lines(text).filter_map(field).collect()
}

/// From `/proc/vmstat` as it was read, its last line without an end.
fn parse_vmstat(text: &str) -> SwapCounters {
    let mut swapped = SwapCounters::default();
    for (name, number) in text.lines().filter_map(|line| line.split_once(' ')) {
        let into = match name {
            "pswpin" => &mut swapped.in_pages,
            "pswpout" => &mut swapped.out_pages,
            "oom_kill" => &mut swapped.oom_kills,
            _ => continue,
        };
        *into = number.trim().parse().ok();
    }
    swapped
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    const WORKSTATION: &str = include_str!("../fixtures/meminfo-swap");
    const OLD: &str = "MemTotal: 1000 kB\nMemFree: 100 kB\nBuffers: 50 kB\nCached: 300 kB\nSReclaimable: 20 kB\nShmem: 70 kB\n";

    #[test]
    fn memory_that_is_not_available_is_used() {
        let value = describe(&parse(WORKSTATION)).unwrap();
        assert_eq!(value["totalBytes"], 16_316_412u64 * 1024);
        assert_eq!(value["usedBytes"], (16_316_412u64 - 9_437_184) * 1024);
        assert_eq!(value["usedFraction"], 0.421614);
        assert_eq!(value["swap"]["usedBytes"], 524_288u64 * 1024);
        assert_eq!(value["swap"]["usedFraction"], 0.25);
    }

    #[test]
    fn without_the_kernel_s_estimate_there_is_one() {
        let value = describe(&parse(OLD)).unwrap();
        assert_eq!(value["availableBytes"], 400 * 1024);
        assert_eq!(value["swap"]["totalBytes"], 0);
        assert_eq!(value["swap"]["usedFraction"], Value::Null, "a part of nothing");
    }

    #[test]
    fn nonsense_gives_nothing_or_something_sane() {
        assert_eq!(describe(&parse("")), None);
        assert_eq!(describe(&parse("MemTotal: 0 kB\nMemFree: 0 kB\n")), None);
        assert_eq!(describe(&parse("MemTotal: 5 kB\nMemFree: 1")), None, "cut off");
        let huge = "MemTotal: 18446744073709551615 kB\nMemFree: 1 kB\n";
        assert_eq!(describe(&parse(huge)), None);
        let more_than_all =
            "MemTotal: 10 kB\nMemFree: 1 kB\nMemAvailable: 20 kB\nSwapTotal: 1 kB\nSwapFree: 2 kB\n";
        let value = describe(&parse(more_than_all)).unwrap();
        assert_eq!((&value["usedBytes"], &value["swap"]["usedBytes"]), (&json!(0), &json!(0)));
    }

    #[test]
    fn swapping_is_in_bytes_a_second() {
        let (before, now) =
            (parse_vmstat("pswpin 10\npswpout 5"), parse_vmstat("pswpin 20\npswpout 4\noom_kill 3"));
        let pair = Pair { before: &before, now: &now, elapsed: Duration::from_secs(2) };
        assert_eq!(swap_rate(&pair, |swapped| swapped.in_pages, 4096), Some(5.0 * 4096.0));
        assert_eq!(swap_rate(&pair, |swapped| swapped.out_pages, 4096), None, "it went back");
        assert_eq!(now.oom_kills, Some(3));
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in "((MemTotal|MemFree|MemAvailable|SwapTotal|SwapFree|Cached|.{0,6}): *[0-9]{0,22} kB?\n?){0,8}") {
            if let Some(value) = describe(&parse(&text)) {
                let fraction = value["usedFraction"].as_f64().unwrap();
                prop_assert!((0.0..=1.0).contains(&fraction));
            }
            parse_vmstat(&text);
        }
    }
}
