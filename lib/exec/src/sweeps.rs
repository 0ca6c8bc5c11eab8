//! The times at which the process table is scanned, and looked at again.

use std::time::{Duration, Instant};

use super::orphans;

/// The pause before looking again whether killed processes are gone; doubled each time.
pub(super) const FIRST_PAUSE: Duration = Duration::from_millis(1);
/// The pause before looking whether a run that goes on has executed its program.
pub(super) const CONFIRM_AFTER: Duration = Duration::from_millis(5);
/// How often the process table is scanned at most.
const SWEEP_EVERY: Duration = Duration::from_millis(250);
/// On a machine with so many processes that a scan takes long, scans take one part in this of the time.
const SWEEP_SHARE: u32 = 50;

/// The pause between looks at the machine's number of processes: a fork bomb makes ten thousand a second, and the
/// more there are the later the next scan would have its turn.
const PULSE: Duration = Duration::from_millis(10);
/// This many more processes are reason enough to scan at once.
const SURGE: u64 = 64;
/// Scans for a surge take one part in this of the time.
const SURGE_SHARE: u32 = 4;

/// The times of the next scans.
#[derive(Debug)]
pub(super) struct Sweeps {
    /// Something ran since a scan last found nothing that should not be there.
    pub dirty: bool,
    pub next: Instant,
    /// The next scan for those that wait for one that finds nothing.
    pub again: Instant,
    pub pulse: Instant,
    /// The machine's threads at the last scan, or the least since.
    threads: u64,
}

impl Sweeps {
    pub fn new() -> Self {
        let now = Instant::now();
        Sweeps { dirty: false, next: now, again: now, pulse: now, threads: orphans::machine_threads() }
    }

    pub fn something_ran(&mut self, now: Instant) {
        if !self.dirty {
            self.dirty = true;
            self.next = self.next.max(now + SWEEP_EVERY);
        }
    }

    /// Scans at once if the machine has many more threads than before.
    pub fn feel_pulse(&mut self, now: Instant) {
        if self.dirty && self.pulse <= now {
            let threads = orphans::machine_threads();
            if threads > self.threads + SURGE {
                self.next = now;
            }
            self.threads = self.threads.min(threads);
            self.pulse = now + PULSE;
        }
    }

    pub fn done(&mut self, began: Instant, clean: bool) {
        self.dirty = !clean;
        self.next = began + SWEEP_EVERY.max(began.elapsed() * SWEEP_SHARE);
        // As long as the scan took, at least: killed processes need the processor to be gone.
        self.again = Instant::now() + began.elapsed().max(FIRST_PAUSE * 5);
        self.threads = orphans::machine_threads();
        self.pulse = Instant::now() + PULSE.max(began.elapsed() * SURGE_SHARE);
    }
}
