//! Collectors that turn the kernel's counters into totals and rates, device by device.

use std::collections::BTreeMap;
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use estimand_collectors::Failure;
use serde_json::Value;

use super::{ask, collector, number, read, within};

/// Counters of a line of words by its name, which is the word at a position.
fn counters(path: &str, name_at: usize) -> BTreeMap<String, Vec<f64>> {
    let text = read(path).replace(':', " ");
    let parse = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let counters =
            words.get(name_at + 1..)?.iter().map(|word| word.parse().ok()).collect::<Option<_>>()?;
        Some(((*words.get(name_at)?).to_owned(), counters))
    };
    text.lines().filter_map(parse).collect()
}

/// Compares totals, and what they grew by with the rates: the collector's two samples are taken within
/// the first and the second pair of readings.
fn check_counters(
    name: &str,
    list: &str,
    look: impl Fn() -> BTreeMap<String, Vec<f64>>,
    fields: &[(usize, &str, &str, f64)],
) {
    let mut collector = collector(name, &[]);
    let (began, before) = (Instant::now(), look());
    let first = match ask(&mut *collector) {
        Ok(value) => value,
        Err(Failure::NotHere(_)) => return,
        Err(failure) => panic!("{failure}"),
    };
    let between = look();
    let least_time = Instant::now();
    while least_time.elapsed() < Duration::from_millis(150) {
        thread::yield_now();
    }
    let (least_time, before_second) = (least_time.elapsed(), look());
    let second = ask(&mut *collector).unwrap();
    let (after, most_time) = (look(), began.elapsed());
    let mut compared = 0;
    for device in first[list].as_object().unwrap().keys() {
        let all = [&before, &between, &before_second, &after].map(|look| look.get(device));
        let [Some(before), Some(between), Some(before_second), Some(after)] = all else { continue };
        if second[list].get(device).is_none() {
            continue;
        }
        for (at, total, rate, unit) in fields {
            let told = |value: &Value, field: &str| number(&value[list][device], &format!("/{field}"));
            let what = format!("{name} {device} {total}");
            within(&what, &(before[*at] * unit), &told(&first, total), &(between[*at] * unit));
            within(&what, &(before_second[*at] * unit), &told(&second, total), &(after[*at] * unit));
            if second[list][device][rate].is_null() {
                panic!("{what} has no rate: {second}");
            }
            let least = (before_second[*at] - between[*at]) * unit / most_time.as_secs_f64();
            let most = (after[*at] - before[*at]) * unit / least_time.as_secs_f64();
            // Rates have three digits behind the point.
            within(
                &format!("{name} {device} {rate}"),
                &(least - 0.001),
                &told(&second, rate),
                &(most + 0.001),
            );
            compared += 1;
        }
    }
    assert!(compared > 0, "nothing was compared: {first}");
}

#[test]
fn disks_read_and_write_as_much_as_the_kernel_counts() {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), vec![7; 1 << 20]).unwrap();
    file.as_file().sync_all().unwrap();
    check_counters(
        "disk_io",
        "devices",
        || counters("/proc/diskstats", 2),
        &[
            (0, "reads", "readsPerSecond", 1.0),
            (2, "readBytes", "readBytesPerSecond", 512.0),
            (4, "writes", "writesPerSecond", 1.0),
            (6, "writtenBytes", "writtenBytesPerSecond", 512.0),
        ],
    );
}

#[test]
fn interfaces_carry_as_much_as_the_kernel_counts() {
    check_counters(
        "network",
        "interfaces",
        || counters("/proc/net/dev", 0),
        &[
            (0, "rxBytes", "rxBytesPerSecond", 1.0),
            (1, "rxPackets", "rxPacketsPerSecond", 1.0),
            (8, "txBytes", "txBytesPerSecond", 1.0),
            (9, "txPackets", "txPacketsPerSecond", 1.0),
        ],
    );
}
