//! The kernel's own figures of the machine, to compare plugins' values with.

use std::fs;

pub type Figure = fn() -> f64;

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The number in the given column of a file's first line that begins so.
fn column(path: &str, start: &str, at: usize) -> f64 {
    let text = read(path);
    let line = text.lines().find(|line| line.starts_with(start));
    let word = line.and_then(|line| line.split_whitespace().nth(at));
    word.and_then(|word| word.parse().ok())
        .unwrap_or_else(|| panic!("{path} has no number {at} at {start:?}"))
}

/// The number below a title, in files of two lines each, titles and numbers.
fn below(path: &str, start: &str, title: &str) -> f64 {
    let text = read(path);
    let mut lines = text.lines().filter(|line| line.starts_with(start));
    let titles = lines.next().unwrap_or_default();
    let at = titles.split_whitespace().position(|word| word == title);
    let at = at.unwrap_or_else(|| panic!("{path} has no {title} at {start:?}"));
    lines.next().and_then(|line| line.split_whitespace().nth(at)?.parse().ok()).unwrap()
}

pub fn load1() -> f64 {
    column("/proc/loadavg", "", 0)
}

pub fn load5() -> f64 {
    column("/proc/loadavg", "", 1)
}

pub fn load15() -> f64 {
    column("/proc/loadavg", "", 2)
}

pub fn uptime_days() -> f64 {
    uptime_minutes() / 1_440.0
}

pub fn uptime_minutes() -> f64 {
    column("/proc/uptime", "", 0) / 60.0
}

pub fn memory_total_kib() -> f64 {
    column("/proc/meminfo", "MemTotal:", 1)
}

pub fn memory_available_kib() -> f64 {
    column("/proc/meminfo", "MemAvailable:", 1)
}

pub fn memory_active_bytes() -> f64 {
    column("/proc/meminfo", "Active:", 1) * 1_024.0
}

pub fn swap_total_kib() -> f64 {
    column("/proc/meminfo", "SwapTotal:", 1)
}

pub fn user_ticks() -> f64 {
    column("/proc/stat", "cpu ", 1)
}

pub fn idle_ticks() -> f64 {
    column("/proc/stat", "cpu ", 4)
}

pub fn forks() -> f64 {
    column("/proc/stat", "processes ", 1)
}

pub fn context_switches() -> f64 {
    column("/proc/stat", "ctxt ", 1)
}

pub fn interrupts() -> f64 {
    column("/proc/stat", "intr ", 1)
}

pub fn entropy_bits() -> f64 {
    column("/proc/sys/kernel/random/entropy_avail", "", 0)
}

pub fn open_files() -> f64 {
    column("/proc/sys/fs/file-nr", "", 0)
}

pub fn swapped_in_pages() -> f64 {
    column("/proc/vmstat", "pswpin ", 1)
}

pub fn loopback_bytes() -> f64 {
    column("/sys/class/net/lo/statistics/rx_bytes", "", 0)
}

pub fn packets_received() -> f64 {
    below("/proc/net/snmp", "Ip:", "InReceives")
}

pub fn connections_opened() -> f64 {
    below("/proc/net/snmp", "Tcp:", "ActiveOpens")
}

/// Processes that there are, kernel's own too.
pub fn processes() -> f64 {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries.filter(|entry| entry.file_name().to_string_lossy().parse::<u32>().is_ok()).count() as f64
}
