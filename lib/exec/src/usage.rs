//! The means that a run used: processor time, memory, and bytes of disk.
//!
//! Processor time and disk are sums of what the kernel tells of each process that has ended: of the main process with those
//! that it waited for, and of orphans, which the launcher itself waits for. A group that counts processor time has also what
//! nobody waits for. Cells are used again, so of a group's counters the difference to the run before counts.
//!
//! Memory is told without the page cache, which a run gives back when others want it: of a group where one counts memory, else
//! as the sum of what each process has for itself.

use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::cgroup;
use super::groups::{Groups, Version};
use super::orphans;

/// The statistics of a group's memory take about half of it.
const STATISTICS_BYTES: usize = 4096;

/// The means that a run used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RunUsage {
    pub processor: ProcessorTime,
    pub disk: DiskBytes,
    /// None: it ended before anything was known of it.
    pub memory: Option<MemoryUsage>,
    /// The limit on its memory.
    pub memory_limit: Option<u64>,
}

/// The memory that all processes of a run held, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct MemoryUsage {
    /// The most at once, without the page cache.
    pub peak: u64,
    /// The mean over its time, without the page cache; none: it was too short for a look.
    pub mean: Option<u64>,
    /// The most page cache that was seen.
    pub cache: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ProcessorTime {
    /// In its programs,
    pub user: Duration,
    /// and in the kernel for them.
    pub system: Duration,
}

/// Bytes that were read from disks, and that were written to be brought there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct DiskBytes {
    pub read: u64,
    pub written: u64,
}

/// A look at the memory of a run, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct MemoryLook {
    /// Without the page cache.
    pub held: u64,
    pub cache: u64,
}

/// The counters of a cell's groups, as they were when the run before ended.
#[derive(Debug, Default)]
pub(super) struct GroupCounters {
    processor: ProcessorTime,
    held: u64,
    mark: u64,
}

/// The part of a group's counters that is one run's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct GroupUsage {
    pub processor: Option<ProcessorTime>,
    /// The memory that is left at its end.
    pub left: Option<MemoryLook>,
    /// The most memory with the page cache, if it was this run that had so much.
    pub mark: Option<u64>,
}

impl ProcessorTime {
    fn total(&self) -> Duration {
        self.user + self.system
    }

    /// The one of two counts that has more: each may miss something.
    pub fn or_more(self, other: Option<ProcessorTime>) -> ProcessorTime {
        other.filter(|other| other.total() > self.total()).unwrap_or(self)
    }

    fn since(&self, before: &ProcessorTime) -> ProcessorTime {
        ProcessorTime {
            user: self.user.saturating_sub(before.user),
            system: self.system.saturating_sub(before.system),
        }
    }
}

/// The processor time and disk of a process that has ended, and of those that it waited for.
pub(super) fn of_ended(usage: &libc::rusage) -> (ProcessorTime, DiskBytes) {
    let time = |time: libc::timeval| {
        Duration::new(time.tv_sec.unsigned_abs(), time.tv_usec.unsigned_abs() as u32 * 1000)
    };
    // The kernel counts in units of 512 bytes, whatever the disk's blocks are.
    let bytes = |blocks: libc::c_long| u64::try_from(blocks).unwrap_or(0).saturating_mul(512);
    let processor = ProcessorTime { user: time(usage.ru_utime), system: time(usage.ru_stime) };
    (processor, DiskBytes { read: bytes(usage.ru_inblock), written: bytes(usage.ru_oublock) })
}

impl RunUsage {
    /// Adds the time and disk of a process that has ended.
    pub(super) fn add(&mut self, ended: (ProcessorTime, DiskBytes)) {
        let (processor, disk) = ended;
        self.processor.user += processor.user;
        self.processor.system += processor.system;
        self.disk.read = self.disk.read.saturating_add(disk.read);
        self.disk.written = self.disk.written.saturating_add(disk.written);
    }
}

impl GroupCounters {
    pub fn of(groups: &Groups) -> Self {
        let mut counters = GroupCounters::default();
        counters.advance(groups);
        counters
    }

    /// The counts since this was called last.
    pub fn advance(&mut self, groups: &Groups) -> GroupUsage {
        let processor = processor_time(groups);
        let (left, mark) = match &groups.memory_counts {
            Some(group) => (memory(group, groups.version), memory_mark(group, groups.version)),
            None => (None, None),
        };
        let usage = GroupUsage {
            processor: processor.map(|now| now.since(&self.processor)),
            left: left.map(|left| self.without_leftovers(left)),
            mark: mark.filter(|mark| *mark > self.mark),
        };
        self.processor = processor.unwrap_or_default();
        (self.held, self.mark) = (left.map_or(0, |left| left.held), mark.unwrap_or(0));
        usage
    }

    /// The memory of the run that is in these groups.
    pub fn look(&self, groups: &Groups) -> Option<MemoryLook> {
        let group = groups.memory_counts.as_deref()?;
        memory(group, groups.version).map(|look| self.without_leftovers(look))
    }

    /// A file in memory that an earlier run has left is not this one's.
    fn without_leftovers(&self, look: MemoryLook) -> MemoryLook {
        MemoryLook { held: look.held.saturating_sub(self.held), ..look }
    }
}

fn processor_time(groups: &Groups) -> Option<ProcessorTime> {
    let group = groups.processor_counts.as_deref()?;
    let (user, system) = match groups.version {
        Version::V1 => {
            let nanos = |file| cgroup::number(group, file, None).map(Duration::from_nanos);
            (nanos("cpuacct.usage_user")?, nanos("cpuacct.usage_sys")?)
        }
        Version::V2 => {
            let mut buffer = [0_u8; 512];
            let text = orphans::read_small(&group.join("cpu.stat"), &mut buffer)?;
            let micros = |key| field(text, key).map(Duration::from_micros);
            (micros("user_usec ")?, micros("system_usec ")?)
        }
    };
    Some(ProcessorTime { user, system })
}

fn memory(group: &Path, version: Version) -> Option<MemoryLook> {
    let (usage, cache) = match version {
        // Totals have the groups that were made inside, too.
        Version::V1 => ("memory.usage_in_bytes", ["total_cache ", "total_shmem "]),
        Version::V2 => ("memory.current", ["file ", "shmem "]),
    };
    let usage = cgroup::number(group, usage, None)?;
    let mut buffer = [0_u8; STATISTICS_BYTES];
    let text = orphans::read_small(&group.join("memory.stat"), &mut buffer)?;
    Some(without_cache(usage, text, cache))
}

/// Memory that is shared, and files in memory, are counted by the kernel as page cache, and are none: nothing else has
/// their content.
fn without_cache(usage: u64, statistics: &str, [cache, shared]: [&str; 2]) -> MemoryLook {
    let cache = field(statistics, cache).unwrap_or(0);
    let cache = cache.saturating_sub(field(statistics, shared).unwrap_or(0));
    MemoryLook { held: usage.saturating_sub(cache), cache }
}

fn memory_mark(group: &Path, version: Version) -> Option<u64> {
    let file = match version {
        Version::V1 => "memory.max_usage_in_bytes",
        // Kernels before 5.19 have none.
        Version::V2 => "memory.peak",
    };
    cgroup::number(group, file, None)
}

fn field(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(key)?.trim().parse().ok())
}

/// The memory of processes, each by itself.
pub(super) fn memory_of(pids: impl IntoIterator<Item = i32>) -> Option<MemoryLook> {
    let mut buffer = [0_u8; 4096];
    let looks = pids.into_iter().filter_map(|pid| {
        let status = orphans::read_small(Path::new(&format!("/proc/{pid}/status")), &mut buffer)?;
        of_status(status)
    });
    looks.reduce(|all, one| MemoryLook { held: all.held + one.held, cache: all.cache + one.cache })
}

/// From the text of `/proc/PID/status`. A process that has ended has no memory any more.
fn of_status(status: &str) -> Option<MemoryLook> {
    let bytes = |key: &str| {
        let value = status.lines().find_map(|line| line.strip_prefix(key))?;
        value.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1024)
    };
    Some(MemoryLook { held: bytes("RssAnon:")? + bytes("RssShmem:")?, cache: bytes("RssFile:")? })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs;

    use super::*;

    const MIB: u64 = 1 << 20;

    fn written(files: &[(&str, String)]) -> (tempfile::TempDir, Groups, Version) {
        let place = tempfile::tempdir().unwrap();
        files.iter().for_each(|(name, text)| fs::write(place.path().join(name), text).unwrap());
        let version = if files[0].0 == "cpu.stat" { Version::V2 } else { Version::V1 };
        let group = place.path().to_owned();
        let groups = Groups {
            main: group.clone(),
            others: Vec::new(),
            memory: None,
            memory_counts: Some(group.clone()),
            processor_counts: Some(group),
            version,
        };
        (place, groups, version)
    }

    fn v1(user_ns: u64, usage: u64, mark: u64, cache: u64) -> Vec<(&'static str, String)> {
        vec![
            ("cpuacct.usage_user", format!("{user_ns}\n")),
            ("cpuacct.usage_sys", "2000\n".to_owned()),
            ("memory.usage_in_bytes", format!("{usage}\n")),
            ("memory.max_usage_in_bytes", format!("{mark}\n")),
            (
                "memory.stat",
                format!("cache 1\nshmem 1\ntotal_cache {cache}\ntotal_rss 0\ntotal_shmem {MIB}\n"),
            ),
        ]
    }

    fn v2(user_us: u64, usage: u64, mark: u64, cache: u64) -> Vec<(&'static str, String)> {
        vec![
            ("cpu.stat", format!("usage_usec 9\nuser_usec {user_us}\nsystem_usec 2\n")),
            ("memory.current", format!("{usage}\n")),
            ("memory.peak", format!("{mark}\n")),
            ("memory.stat", format!("anon 1\nfile {cache}\nkernel 5\nshmem {MIB}\n")),
        ]
    }

    #[test]
    fn the_page_cache_is_told_apart_from_what_is_held() {
        for files in [v1(0, 10 * MIB, 0, 5 * MIB), v2(0, 10 * MIB, 0, 5 * MIB)] {
            let (_place, groups, version) = written(&files);
            let look = memory(groups.memory_counts.as_deref().unwrap(), version).unwrap();
            assert_eq!(look, MemoryLook { held: 6 * MIB, cache: 4 * MIB }, "a file in memory is held");
        }
        let status = "Name:\tx\nVmHWM:\t 99 kB\nRssAnon:\t    30 kB\nRssFile:\t  7 kB\nRssShmem:\t   2 kB\n";
        assert_eq!(of_status(status), Some(MemoryLook { held: 32 << 10, cache: 7 << 10 }));
        assert_eq!(of_status("Name:\tRssAnon\nState:\tZ (zombie)\n"), None);
    }

    #[test]
    fn of_a_cell_that_is_used_again_the_difference_counts() {
        type Files = fn(u64, u64, u64, u64) -> Vec<(&'static str, String)>;
        for (files, unit) in [(v1 as Files, 1_000), (v2 as Files, 1)] {
            let write = |groups: &Groups, written: &[(&str, String)]| {
                written.iter().for_each(|(name, text)| fs::write(groups.main.join(name), text).unwrap());
            };
            let (_place, groups, _) = written(&files(7 * unit, 3 * MIB, 20 * MIB, MIB));
            let mut counters = GroupCounters::of(&groups);
            write(&groups, &files(12 * unit, 9 * MIB, 20 * MIB, 2 * MIB));
            assert_eq!(counters.look(&groups).unwrap().held, 5 * MIB, "less what was left before");
            let usage = counters.advance(&groups);
            let processor = usage.processor.unwrap();
            assert_eq!((processor.user, processor.system), (Duration::from_micros(5), Duration::ZERO));
            assert_eq!(usage.mark, None, "the mark is that of a run before");
            write(&groups, &files(12 * unit, 9 * MIB, 21 * MIB, 2 * MIB));
            assert_eq!(counters.advance(&groups).mark, Some(21 * MIB));
        }
    }

    #[test]
    fn the_fuller_count_of_processor_time_is_told() {
        let time = |user, system| ProcessorTime {
            user: Duration::from_millis(user),
            system: Duration::from_millis(system),
        };
        assert_eq!(time(5, 1).or_more(Some(time(4, 3))), time(4, 3));
        assert_eq!(time(5, 1).or_more(Some(time(3, 1))), time(5, 1));
        assert_eq!(time(5, 1).or_more(None), time(5, 1));
    }
}
