//! The resources that the process itself uses, read from `/proc` at each scrape.
//!
//! Where there is no `/proc`, or a line of it has an unexpected form, the figure is left out:
//! a scrape never fails for it.

use std::fs;
use std::time::Duration;

use super::text::{Exposition, Kind};
use crate::open_files::open_files;

/// Linux counts processor time towards user space in hundredths of a second, on every architecture we serve.
const TICKS_PER_SECOND: f64 = 100.0;

#[derive(Debug, PartialEq)]
struct Usage {
    cpu_seconds: f64,
    threads: f64,
    /// After the boot of the machine.
    started_seconds: f64,
}

pub(super) fn write(out: &mut Exposition<'_>, uptime: Duration) {
    use Kind::{Counter, Gauge};
    let up = uptime.as_secs_f64();
    out.single("estimand_uptime_seconds", Gauge, "Time since the service was set up.", up);

    if let Some(usage) = fs::read_to_string("/proc/self/stat").ok().as_deref().and_then(parse_stat) {
        let help = "Processor time used, user and system.";
        out.single("process_cpu_seconds_total", Counter, help, usage.cpu_seconds);
        out.single("process_threads", Gauge, "Threads of the process.", usage.threads);
        if let Some(boot) = fs::read_to_string("/proc/stat").ok().as_deref().and_then(parse_boot_time) {
            let help = "When the process started, in seconds since the epoch.";
            out.single("process_start_time_seconds", Gauge, help, boot + usage.started_seconds);
        }
    }
    if let Some(bytes) = fs::read_to_string("/proc/self/status").ok().as_deref().and_then(parse_resident) {
        out.single("process_resident_memory_bytes", Gauge, "Memory resident in RAM.", bytes);
    }
    if let Ok(open) = open_files() {
        out.single("process_open_fds", Gauge, "Open file descriptors.", open as f64);
    }
}

/// The fields are counted after the command's name, which stands in parentheses and may hold anything.
fn parse_stat(stat: &str) -> Option<Usage> {
    let (_, fields) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
    let number = |place: usize| fields.get(place)?.parse::<f64>().ok();
    Some(Usage {
        cpu_seconds: (number(11)? + number(12)?) / TICKS_PER_SECOND,
        threads: number(17)?,
        started_seconds: number(19)? / TICKS_PER_SECOND,
    })
}

fn parse_boot_time(stat: &str) -> Option<f64> {
    stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

fn parse_resident(status: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_the_command_may_hold_anything() {
        let stat = "42 (a) b (c) S 1 42 42 0 -1 4194560 100 0 0 0 150 50 0 0 20 0 7 0 12345 1000 200 0";
        let expected = Usage { cpu_seconds: 2.0, threads: 7.0, started_seconds: 123.45 };
        assert_eq!(parse_stat(stat), Some(expected));
        assert_eq!(parse_stat("42 (a) S 1"), None);
    }

    #[test]
    fn single_lines() {
        assert_eq!(parse_resident("Name:\tx\nVmRSS:\t    2048 kB\n"), Some(2_097_152.0));
        assert_eq!(parse_boot_time("cpu 1 2\nbtime 1700000000\n"), Some(1.7e9));
    }
}
