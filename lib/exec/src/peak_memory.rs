//! The most memory that a process of a run held.
//!
//! The kernel reports it with the end of the main process, and counts in what that held before it executed its program,
//! which is the launcher's memory or a copy of it; the child says how much that was. A run that held more is reported
//! to the letter. Of a smaller one the kernel's mark of its program alone is read from time to time while it lives. One
//! that ended before the first look, and held less than the launcher, is not told.

use std::path::Path;
use std::time::{Duration, Instant};

use super::orphans;

/// After the first look, the pause before the next; doubled each time.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// The kernel counts roughly: so much more than what it began with is surely the program's own.
const ROUGHNESS: u64 = 256 * 1024;

#[derive(Debug, Default)]
pub(super) struct PeakMemory {
    /// Before it executed its program.
    inherited: Option<u64>,
    seen: Option<u64>,
    next_look: Option<(Instant, Duration)>,
}

impl PeakMemory {
    /// The program was executed by a process that held so much.
    pub fn inherits(&mut self, bytes: Option<u64>) {
        self.inherited = bytes;
    }

    /// When to look next.
    pub fn next_look(&self) -> Option<Instant> {
        self.next_look.map(|(at, _)| at)
    }

    /// Looks at what the main process has held since it executed its program.
    pub fn look(&mut self, pid: i32, now: Instant) {
        let mut buffer = [0_u8; 4096];
        let status = orphans::read_small(Path::new(&format!("/proc/{pid}/status")), &mut buffer);
        self.saw(status.and_then(high_water_mark), now);
    }

    fn saw(&mut self, bytes: Option<u64>, now: Instant) {
        self.seen = self.seen.max(bytes);
        let pause = self.next_look.map_or(FIRST_PAUSE, |(_, pause)| (pause * 2).min(LONGEST_PAUSE));
        let told_anyway = self.seen.is_some_and(|seen| self.is_own(seen));
        self.next_look = (!told_anyway).then_some((now + pause, pause));
    }

    /// The figure that is reported, given the mark that the kernel left with the end.
    pub fn of_run(&self, mark: u64) -> Option<u64> {
        if self.is_own(mark) { Some(mark) } else { self.seen }
    }

    fn is_own(&self, mark: u64) -> bool {
        self.inherited.is_some_and(|inherited| mark > inherited + inherited / 8 + ROUGHNESS)
    }
}

/// From the text of `/proc/PID/status`, which a process that has ended does not have any more.
fn high_water_mark(status: &str) -> Option<u64> {
    let mark = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    mark.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn the_mark_is_read_from_the_status_of_a_process() {
        assert_eq!(high_water_mark("Name:\tsh\nVmHWM:\t    1536 kB\nVmRSS:\t 9 kB\n"), Some(1536 * 1024));
        assert_eq!(high_water_mark("Name:\tVmHWM\nState:\tZ (zombie)\n"), None);
    }

    #[test]
    fn what_the_launcher_held_is_not_the_programs() {
        let now = Instant::now();
        let mut memory = PeakMemory::default();
        assert_eq!(memory.of_run(50 * MIB), None, "nothing is known of the memory that it began with");
        memory.inherits(Some(8 * MIB));
        assert_eq!((memory.of_run(8 * MIB), memory.of_run(50 * MIB)), (None, Some(50 * MIB)));
        memory.saw(Some(MIB), now);
        memory.saw(Some(2 * MIB), now);
        memory.saw(None, now);
        assert_eq!((memory.of_run(8 * MIB), memory.of_run(50 * MIB)), (Some(2 * MIB), Some(50 * MIB)));
    }

    #[test]
    fn looks_become_rare_and_end_when_the_kernel_tells_anyway() {
        let now = Instant::now();
        let mut memory = PeakMemory::default();
        memory.inherits(Some(8 * MIB));
        let pauses: Vec<Duration> = (0..3)
            .map(|_| {
                memory.saw(Some(MIB), now);
                memory.next_look().unwrap() - now
            })
            .collect();
        assert_eq!(pauses, [10, 20, 40].map(Duration::from_millis));
        memory.saw(Some(20 * MIB), now);
        assert_eq!(memory.next_look(), None);
    }
}
