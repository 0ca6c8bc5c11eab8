//! `disk_io`: reads, writes and load of each disk.
//!
//! From `/proc/diskstats`: the difference between two samples. Partitions are left out unless they are asked for, and
//! so are devices that never did anything (unused loops). The kernel counts in units of 512 bytes, for every disk.

use std::collections::HashSet;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::samples::{Samples, fraction, grown, per_second};
use crate::{
    Collector, CollectorKind, DefaultRegistration, Failure, Param, Params, Reading, Roots, Surroundings,
    figures, files, pressure,
};

pub(crate) const KIND: CollectorKind = CollectorKind {
    name: "disk_io",
    about: "reads, writes and how busy each disk is, and the pressure on input and output",
    params: &[Param::optional("partitions", "true: partitions too; they are left out by default")],
    default: Some(DefaultRegistration { every: 5.0, once: false }),
    make,
};

const SECTOR_BYTES: u64 = 512;

fn make(params: &Params, around: &Surroundings) -> Result<Box<dyn Collector>, String> {
    let partitions = params.switch("partitions")?.unwrap_or(false);
    Ok(Box::new(DiskIo { roots: around.roots.clone(), partitions, samples: Samples::new() }))
}

struct DiskIo {
    roots: Roots,
    partitions: bool,
    samples: Samples<Vec<Device>>,
}

impl Collector for DiskIo {
    fn collect(&mut self, until: Instant) -> Result<Reading, Failure> {
        let path = self.roots.proc.join("diskstats");
        let whole = if self.partitions { None } else { whole_disks(&self.roots.sys) };
        let take = || {
            let mut devices = parse(&files::text(&path)?);
            devices.retain(|device| whole.as_ref().is_none_or(|whole| whole.contains(&device.name)));
            Ok(devices)
        };
        let entries = self.samples.compare(until, take, |pair| {
            let before = |now: &Device| pair.before.iter().find(|before| before.is_same(now));
            pair.now.iter().map(|now| now.entry(before(now), pair.elapsed)).collect::<Vec<_>>()
        })?;
        if entries.is_empty() {
            return Err(Failure::NotHere("no disk has read or written anything".to_owned()));
        }
        let (devices, left_out) = figures::object(entries);
        let mut value = json!({"devices": devices, "leftOut": left_out});
        pressure::add(&mut value, &self.roots, "io");
        Ok(Reading::Here(value))
    }
}

/// Names of what is a disk and not a part of one. Where sysfs says nothing, everything is.
fn whole_disks(sys: &Path) -> Option<HashSet<String>> {
    let names = std::fs::read_dir(sys.join("block")).ok()?;
    // In names of files a slash is written as an exclamation mark.
    let name = |name: std::ffi::OsString| name.to_string_lossy().replace('!', "/");
    Some(names.filter_map(|entry| Some(name(entry.ok()?.file_name()))).collect())
}

/// Counters since the device came.
#[derive(Debug, Clone, PartialEq)]
struct Device {
    numbers: (u32, u32),
    name: String,
    reads: u64,
    read_sectors: u64,
    reading_ms: u64,
    writes: u64,
    written_sectors: u64,
    writing_ms: u64,
    in_flight: u64,
    busy_ms: u64,
    /// Milliseconds times how many were waited for.
    queued_ms: u64,
}

impl Device {
    fn is_same(&self, other: &Device) -> bool {
        self.numbers == other.numbers && self.name == other.name
    }

    fn entry(&self, before: Option<&Device>, elapsed: Duration) -> figures::Entry {
        let rate = |field: fn(&Device) -> u64, unit: u64| {
            let rate = before.and_then(|before| per_second(field(before), field(self), elapsed));
            figures::rate(rate.map(|rate| rate * unit as f64))
        };
        let grown = |field: fn(&Device) -> u64| grown(field(before?), field(self)).map(|grown| grown as f64);
        let mean_seconds = |time: fn(&Device) -> u64, count: fn(&Device) -> u64| {
            let (milliseconds, count) = (grown(time)?, grown(count)?);
            (count > 0.0).then(|| milliseconds / 1000.0 / count)
        };
        let elapsed_ms = elapsed.as_secs_f64() * 1000.0;
        let busy = grown(|device| device.busy_ms).and_then(|busy| fraction(busy, elapsed_ms));
        let queued = grown(|device| device.queued_ms).filter(|_| elapsed_ms > 0.0);
        let read_seconds = mean_seconds(|device| device.reading_ms, |device| device.reads);
        let write_seconds = mean_seconds(|device| device.writing_ms, |device| device.writes);
        let bytes = |sectors: u64| sectors.saturating_mul(SECTOR_BYTES);
        let value = json!({
            "readsPerSecond": rate(|device| device.reads, 1),
            "writesPerSecond": rate(|device| device.writes, 1),
            "readBytesPerSecond": rate(|device| device.read_sectors, SECTOR_BYTES),
            "writtenBytesPerSecond": rate(|device| device.written_sectors, SECTOR_BYTES),
            "busyFraction": figures::fraction(busy),
            "queueLength": figures::rate(queued.map(|queued| queued / elapsed_ms)),
            "readSeconds": figures::fraction(read_seconds),
            "writeSeconds": figures::fraction(write_seconds),
            "inFlight": self.in_flight,
            "reads": self.reads,
            "writes": self.writes,
            "readBytes": bytes(self.read_sectors),
            "writtenBytes": bytes(self.written_sectors),
        });
        let weight = self.reads.saturating_add(self.writes);
        figures::Entry { name: self.name.clone(), weight, value }
    }
}

/// Those that ever did anything.
fn parse(text: &str) -> Vec<Device> {
    let worked = |device: &Device| device.reads > 0 || device.writes > 0 || device.busy_ms > 0;
    files::lines(text).filter_map(parse_line).filter(worked).collect()
}

/// Major and minor number, name, and at least eleven counters; newer kernels have more behind them.
fn parse_line(line: &str) -> Option<Device> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let [major, minor, name, rest @ ..] = words.as_slice() else { return None };
    let counters: Vec<u64> = rest.iter().map_while(|word| word.parse().ok()).collect();
    let [
        reads,
        _,
        read_sectors,
        reading_ms,
        writes,
        _,
        written_sectors,
        writing_ms,
        in_flight,
        busy_ms,
        queued_ms,
        ..,
    ] = counters[..]
    else {
        return None;
    };
    Some(Device {
        numbers: (major.parse().ok()?, minor.parse().ok()?),
        name: (*name).to_owned(),
        reads,
        read_sectors,
        reading_ms,
        writes,
        written_sectors,
        writing_ms,
        in_flight,
        busy_ms,
        queued_ms,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    fn value(before: &str, now: &str, elapsed: Duration) -> Value {
        let before = parse(before);
        let entry = |now: &Device| now.entry(before.iter().find(|before| before.is_same(now)), elapsed);
        Value::Object(figures::object(parse(now).iter().map(entry).collect()).0)
    }

    const CAPTURED: &str = include_str!("../fixtures/diskstats");

    #[test]
    fn the_work_of_a_disk_is_a_rate_a_second() {
        let before = "8 0 sda 100 0 1000 500 50 0 800 700 0 1000 5000\n";
        let now = "8 0 sda 300 9 1200 900 50 9 800 700 3 2500 9000\n";
        let sda = &value(before, now, Duration::from_secs(2))["sda"];
        assert_eq!((&sda["readsPerSecond"], &sda["writesPerSecond"]), (&json!(100.0), &json!(0.0)));
        assert_eq!(sda["readBytesPerSecond"], 51200.0);
        assert_eq!((&sda["busyFraction"], &sda["queueLength"]), (&json!(0.75), &json!(2.0)));
        assert_eq!((&sda["readSeconds"], &sda["writeSeconds"]), (&json!(0.002), &Value::Null));
        assert_eq!((&sda["inFlight"], &sda["readBytes"]), (&json!(3), &json!(614_400)));
    }

    #[test]
    fn counters_that_went_back_and_new_disks_have_totals_alone() {
        let before = "8 0 sda 100 0 1000 500 50 0 800 700 0 1000 5000\n";
        let now = "8 0 sda 7 0 8 5 50 0 800 700 0 3 4\n8 16 sdb 1 0 8 1 0 0 0 0 0 1 1\n";
        let value = value(before, now, Duration::from_secs(1));
        for name in ["sda", "sdb"] {
            for field in
                ["readsPerSecond", "readBytesPerSecond", "busyFraction", "queueLength", "readSeconds"]
            {
                assert_eq!(value[name][field], Value::Null, "{name} {field}");
            }
        }
        assert_eq!(value["sda"]["writesPerSecond"], 0.0);
        assert_eq!(value["sdb"]["reads"], 1);
    }

    #[test]
    fn a_disk_is_never_more_than_busy() {
        let value = value(
            "8 0 sda 1 0 0 0 0 0 0 0 0 0 0\n",
            &format!("8 0 sda 1 0 {0} {0} 0 0 {0} 0 0 {0} {0}\n", u64::MAX),
            Duration::from_millis(100),
        );
        assert_eq!(value["sda"]["busyFraction"], 1.0);
    }

    #[test]
    fn an_idle_device_and_a_truncated_line_are_left_out() {
        let devices = parse(CAPTURED);
        let names: Vec<&str> = devices.iter().map(|device| device.name.as_str()).collect();
        assert_eq!(names, ["vda", "vda1", "cciss/c0d0"]);
        assert_eq!(devices[0].written_sectors, 613_936_400);
        assert_eq!(parse("8 0 sda 1 2 3 4 5 6 7 8 9 10 11"), []);
        assert_eq!(parse("8 1 sda1 1 2 3 4\n"), [], "how kernels before 2.6.25 told of partitions");
    }

    #[test]
    fn partitions_are_not_listed_by_sysfs() {
        let machine = tempfile::tempdir().unwrap();
        for name in ["vda", "cciss!c0d0"] {
            std::fs::create_dir_all(machine.path().join("sys/block").join(name)).unwrap();
        }
        let whole = whole_disks(&machine.path().join("sys")).unwrap();
        assert_eq!(whole, HashSet::from(["vda".to_owned(), "cciss/c0d0".to_owned()]));
        assert_eq!(whole_disks(machine.path()), None);
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in "([0-9]{1,3} [0-9]{1,3} [a-z0-9]{1,4}( [0-9]{1,21}){0,18}\n?|.{0,20}\n){0,4}") {
            value(&text, &text, Duration::from_millis(100));
        }
    }
}
