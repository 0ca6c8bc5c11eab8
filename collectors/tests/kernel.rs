//! The collectors against the kernel's own figures on this machine.
//!
//! Each value is compared with an independent reading taken before and after, so that what is right is a range that
//! the machine itself gives, and not a tolerance. That holds in a container and on a machine under load.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use estimand_collectors::{Collector, Failure, Reading, Surroundings, find, make};
use serde_json::{Value, json};

#[path = "kernel/counters.rs"]
mod counters;
#[path = "kernel/limited.rs"]
mod limited;

use limited::Limited;

/// How often a figure that moves both ways is looked at again if it moved out of its range meanwhile.
const TRIES: usize = 50;

fn collector(name: &str, params: &[(&str, Value)]) -> Box<dyn Collector> {
    let params = params.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    make(find(name).unwrap(), &params, &Surroundings::default()).unwrap()
}

fn ask(collector: &mut dyn Collector) -> Result<Value, Failure> {
    match collector.collect(Instant::now() + Duration::from_secs(10))? {
        Reading::Here(value) => Ok(value),
        Reading::PerNode(values) => panic!("of one node: {values:?}"),
    }
}

fn collect(name: &str) -> Value {
    ask(&mut *collector(name, &[])).unwrap()
}

fn number(value: &Value, path: &str) -> f64 {
    value.pointer(path).and_then(Value::as_f64).unwrap_or_else(|| panic!("{path} in {value}"))
}

fn read(path: impl AsRef<Path>) -> String {
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.as_ref().display()))
}

fn output(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).env("LC_ALL", "C").output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[track_caller]
fn within<T: PartialOrd + Debug>(what: &str, before: &T, value: &T, after: &T) {
    assert!(before <= value && value <= after, "{what}: {value:?} is not within {before:?} and {after:?}");
}

/// For figures that go up and down: at some time the range before and after holds.
#[track_caller]
fn sometimes_within(what: &str, mut look: impl FnMut() -> f64, mut told: impl FnMut() -> f64) {
    let mut seen = Vec::new();
    for _ in 0..TRIES {
        let (before, value, after) = (look(), told(), look());
        if before.min(after) <= value && value <= before.max(after) {
            return;
        }
        seen.push((before, value, after));
    }
    panic!("{what} was never within what the kernel said before and after: {seen:?}");
}

/// Ticks of each processor, in the order of the file: user to steal.
fn ticks() -> BTreeMap<String, Vec<f64>> {
    let stat = read("/proc/stat");
    let lines = stat.lines().filter(|line| line.starts_with("cpu") && !line.starts_with("cpu "));
    let parsed = lines.map(|line| {
        let mut words = line.split_whitespace();
        let name = words.next().unwrap()["cpu".len()..].to_owned();
        (name, words.take(8).map(|word| word.parse().unwrap()).collect())
    });
    parsed.collect()
}

/// Ticks between two readings, of the chosen kinds.
fn spent(one: &BTreeMap<String, Vec<f64>>, other: &BTreeMap<String, Vec<f64>>, chosen: &[usize]) -> f64 {
    let of = |all: &BTreeMap<String, Vec<f64>>| -> f64 {
        all.values().flat_map(|ticks| chosen.iter().map(|at| ticks[*at])).sum()
    };
    of(other) - of(one)
}

#[test]
fn processors_are_as_busy_as_the_kernel_counts() {
    let mut cpu = collector("cpu", &[]);
    // The time that the collector compares over begins within the first pair of readings, and ends within the second.
    let before_first = ticks();
    ask(&mut *cpu).unwrap();
    let after_first = ticks();
    let since = Instant::now();
    let mut spin = 0u64;
    while since.elapsed() < Duration::from_millis(400) {
        spin = std::hint::black_box(spin + 1);
    }
    let before_second = ticks();
    let value = ask(&mut *cpu).unwrap();
    let after_second = ticks();
    if before_first.keys().ne(after_second.keys()) {
        return; // A processor came or went; the collector's own tests have that.
    }
    let all: Vec<usize> = (0..8).collect();
    // Estimates of idle time may be corrected downwards between two readings, by a tick for each processor.
    let slack = 2.0 * after_second.len() as f64;
    let parts: [(&str, &[usize]); 6] = [
        ("/usageFraction", &[0, 1, 2, 5, 6, 7]),
        ("/userFraction", &[0, 1]),
        ("/systemFraction", &[2, 5, 6]),
        ("/iowaitFraction", &[4]),
        ("/stealFraction", &[7]),
        ("/freeFraction", &[3, 4]),
    ];
    let (least_all, most_all) =
        (spent(&after_first, &before_second, &all), spent(&before_first, &after_second, &all));
    for (field, chosen) in parts {
        let least = (spent(&after_first, &before_second, chosen) - slack) / (most_all + slack);
        let most = (spent(&before_first, &after_second, chosen) + slack) / (least_all - slack);
        within(field, &least, &number(&value, field), &most);
    }
    assert!(number(&value, "/usageFraction") > 0.0, "this test itself was busy: {value}");
    let online: usize = output("getconf", &["_NPROCESSORS_ONLN"]).trim().parse().unwrap();
    assert_eq!(number(&value, "/count"), online as f64);
    let names: Vec<&String> = value["cores"].as_object().unwrap().keys().collect();
    assert_eq!(names.len(), ticks().len());
}

fn meminfo(name: &str) -> f64 {
    let text = read("/proc/meminfo");
    let line = text.lines().find(|line| line.split(':').next() == Some(name));
    line.map_or(0.0, |line| line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() * 1024.0)
}

#[test]
fn memory_is_as_the_kernel_has_it() {
    let value = collect("memory");
    assert_eq!(number(&value, "/totalBytes"), meminfo("MemTotal"));
    assert_eq!(number(&value, "/swap/totalBytes"), meminfo("SwapTotal"));
    let free: Vec<f64> = output("free", &["-b"])
        .lines()
        .find_map(|line| line.strip_prefix("Mem:"))
        .map(|line| line.split_whitespace().map(|word| word.parse().unwrap()).collect())
        .unwrap();
    assert_eq!(number(&value, "/totalBytes"), free[0]);
    let mut memory = collector("memory", &[]);
    ask(&mut *memory).unwrap();
    let mut told = |path| number(&ask(&mut *memory).unwrap(), path);
    sometimes_within("available", || meminfo("MemAvailable"), || told("/availableBytes"));
    sometimes_within("free", || meminfo("MemFree"), || told("/freeBytes"));
    sometimes_within("cached", || meminfo("Cached"), || told("/cachedBytes"));
    sometimes_within("used", || meminfo("MemTotal") - meminfo("MemAvailable"), || told("/usedBytes"));
}

#[test]
fn load_is_as_the_kernel_has_it() {
    let look = |at: usize| read("/proc/loadavg").split_whitespace().nth(at).unwrap().parse().unwrap();
    for (at, field) in ["/one", "/five", "/fifteen"].into_iter().enumerate() {
        sometimes_within(field, || look(at), || number(&collect("load"), field));
    }
}

/// Bytes by mount: size, used and available, and inodes: total and used.
fn df() -> BTreeMap<String, Vec<f64>> {
    let text = output("df", &["--block-size=1", "--all", "--output=target,size,used,avail,itotal,iused"]);
    let parse = |line: &str| {
        // Names may have spaces; five numbers follow.
        let words: Vec<&str> = line.split_whitespace().collect();
        let numbers = words.len().checked_sub(5)?;
        let figures: Option<Vec<f64>> = words[numbers..].iter().map(|word| word.parse().ok()).collect();
        Some((words[..numbers].join(" "), figures?))
    };
    text.lines().skip(1).filter_map(parse).collect()
}

#[test]
fn disks_have_the_room_that_df_shows() {
    let value = match ask(&mut *collector("disk", &[])) {
        Ok(value) => value,
        // In some containers there is nothing but memory.
        Err(Failure::NotHere(_)) => return,
        Err(failure) => panic!("{failure}"),
    };
    let fields = ["totalBytes", "usedBytes", "availableBytes", "inodes/total", "inodes/used"];
    let names: Vec<String> = value["mounts"].as_object().unwrap().keys().cloned().collect();
    assert!(names.contains(&"/".to_owned()), "{names:?}");
    for name in names.iter().filter(|name| df().contains_key(*name)) {
        let inodes = !value["mounts"][name]["inodes"].is_null();
        for (at, field) in fields.iter().enumerate().filter(|(at, _)| inodes || *at < 3) {
            let path = format!("/mounts/{}/{field}", name.replace('~', "~0").replace('/', "~1"));
            sometimes_within(&path, || df()[name][at], || number(&collect("disk"), &path));
        }
    }
}

#[test]
fn processes_are_counted_as_the_kernel_lists_them() {
    let pids = || {
        let names = fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().file_name());
        names.filter(|name| name.to_str().is_some_and(|name| name.parse::<u32>().is_ok())).count() as f64
    };
    let mut processes = collector("processes", &[]);
    let value = ask(&mut *processes).unwrap();
    sometimes_within("total", pids, || number(&ask(&mut *processes).unwrap(), "/total"));
    assert_eq!(number(&value, "/pidMax"), read("/proc/sys/kernel/pid_max").trim().parse::<f64>().unwrap());
    let states: f64 =
        value["states"].as_object().unwrap().values().map(|count| count.as_f64().unwrap()).sum();
    assert_eq!(states, number(&value, "/total"));
}

#[test]
fn the_busiest_process_is_found() {
    // A child that does nothing but work, which needs no more than one core.
    let mut child = Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
    let mut processes = collector("processes", &[("top", json!(50))]);
    let found = (0..TRIES).any(|_| {
        let value = ask(&mut *processes).unwrap();
        let list = value["top"]["byCpu"].as_array().unwrap();
        let entry = list.iter().find(|entry| entry["pid"] == child.id());
        entry.is_some_and(|entry| {
            let cores = entry["cpuCores"].as_f64().unwrap_or(0.0);
            // Ticks of 10 ms are added to either end of at least 100 ms.
            assert!(cores <= 1.2, "{entry}");
            cores > 0.0 && entry["name"] == "sh" && entry["memoryBytes"].as_u64().unwrap() > 0
        })
    });
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(found);
}

#[test]
fn the_system_is_this_one() {
    let uptime = || read("/proc/uptime").split_whitespace().next().unwrap().parse::<f64>().unwrap();
    let (before, value, after) = (uptime(), collect("system"), uptime());
    within("uptime", &before, &number(&value, "/uptimeSeconds"), &after);
    assert_eq!(value["bootId"], read("/proc/sys/kernel/random/boot_id").trim());
    assert_eq!(value["kernel"], output("uname", &["-r"]).trim());
    assert_eq!(value["hostname"], output("uname", &["-n"]).trim());
    assert_eq!(value["architecture"], output("uname", &["-m"]).trim());
    let look = || read("/proc/sys/fs/file-nr").split_whitespace().next().unwrap().parse().unwrap();
    sometimes_within("open files", look, || number(&collect("system"), "/openFiles"));
}

#[test]
fn the_group_s_memory_is_as_the_kernel_charges_it() {
    let mut cgroup = collector("cgroup", &[]);
    let value = match ask(&mut *cgroup) {
        Ok(value) => value,
        Err(Failure::NotHere(_)) => return,
        Err(failure) => panic!("{failure}"),
    };
    // `nproc` minds the processors that a process may run on, which is what a group's set comes to.
    if let Some(cpus) = value["cpusetCount"].as_f64() {
        let allowed: f64 = output("nproc", &[]).trim().parse().unwrap();
        assert!(allowed <= cpus, "{allowed} of {cpus}");
    }
    if let Some(fraction) = value["throttledFraction"].as_f64() {
        within("throttledFraction", &0.0, &fraction, &1.0);
    }
    let path = value.pointer("/paths/memory").and_then(Value::as_str).unwrap_or("/").to_owned();
    let files = ["/sys/fs/cgroup/memory.current", "/sys/fs/cgroup/memory/memory.usage_in_bytes"];
    let file = files.into_iter().find_map(|file| {
        let (folder, name) = file.rsplit_once('/')?;
        let of_group = format!("{folder}{path}/{name}");
        [of_group, file.to_owned()].into_iter().find(|file| Path::new(file).exists())
    });
    let Some(file) = file else { return };
    let look = || read(&file).trim().parse().unwrap();
    sometimes_within("memory", look, || number(&ask(&mut *cgroup).unwrap(), "/memoryUsageBytes"));
}

#[test]
fn a_group_that_is_held_back_says_how_much() {
    let Some(limited) = Limited::new() else { return };
    let mut cgroup = collector("cgroup", &[("path", json!(format!("/{}", limited.name)))]);
    let before_first = limited.seconds();
    ask(&mut *cgroup).unwrap();
    let after_first = limited.seconds();
    // Until it has been held back for a while, however little of the machine is left for it.
    while limited.seconds().0 < after_first.0 + 0.5 {
        thread::yield_now();
    }
    let before_second = limited.seconds();
    let value = ask(&mut *cgroup).unwrap();
    let after_second = limited.seconds();
    assert_eq!((number(&value, "/cpuLimit"), number(&value, "/cpuCores")), (Limited::CORES, Limited::CORES));
    let (least_held, most_held) = (before_second.0 - after_first.0, after_second.0 - before_first.0);
    let (least_used, most_used) = (before_second.1 - after_first.1, after_second.1 - before_first.1);
    let (least, most) = (least_held / (least_held + most_used), most_held / (most_held + least_used));
    // Six digits behind the point.
    within("held back", &(least - 1e-6), &number(&value, "/throttledFraction"), &(most + 1e-6));
    within(
        "total",
        &before_second.0,
        &(number(&value, "/throttledSeconds") + 1e-6),
        &(after_second.0 + 2e-6),
    );
    assert!(number(&value, "/throttledPeriods") <= number(&value, "/periods"), "{value}");
}

#[test]
fn pressure_is_as_the_kernel_has_it() {
    if fs::read_to_string("/proc/pressure/cpu").is_err() {
        return; // This kernel has none.
    }
    for (name, resource) in [("cpu", "cpu"), ("memory", "memory"), ("disk_io", "io")] {
        let total = || {
            let text = read(format!("/proc/pressure/{resource}"));
            let total = text.lines().next().unwrap().rsplit_once("total=").unwrap().1.to_owned();
            total.parse::<f64>().unwrap() / 1e6
        };
        let before = total();
        let value = match ask(&mut *collector(name, &[])) {
            Ok(value) => value,
            Err(Failure::NotHere(_)) => continue,
            Err(failure) => panic!("{failure}"),
        };
        within(name, &before, &number(&value, "/pressure/someSeconds"), &total());
        within(name, &0.0, &number(&value, "/pressure/some10"), &1.0);
    }
}
