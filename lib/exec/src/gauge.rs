//! The gauge of one run: looks at its memory while it lives, from which its peak and its mean follow.
//!
//! Looks begin early and become rare, and a look that takes long makes the next one later, so that together they cost a
//! hundredth of a processor at most. The peak between two looks is the kernel's own mark, less the page cache that is in it.

use std::time::{Duration, Instant};

use super::usage::{MemoryLook, MemoryUsage};

/// Until the first look; a shorter run has none.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// Looks take one part in this of the time.
const SHARE: u32 = 100;

#[derive(Debug)]
pub(super) struct Gauge {
    began: Instant,
    /// The last look, and when it was.
    last: Option<(MemoryLook, Instant)>,
    peak: u64,
    cache: u64,
    /// The sum of bytes and microseconds up to the last look.
    held_for: u128,
    next: Instant,
    pause: Duration,
}

impl Gauge {
    pub fn new(began: Instant) -> Self {
        let (next, pause) = (began + FIRST_PAUSE, FIRST_PAUSE);
        Gauge { began, last: None, peak: 0, cache: 0, held_for: 0, next, pause }
    }

    /// When to look next.
    pub fn next_look(&self) -> Instant {
        self.next
    }

    /// Takes a look that was begun at an instant and is over now; none: there was nothing to be seen.
    pub fn take(&mut self, look: Option<MemoryLook>, begun: Instant, now: Instant) {
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        self.next = now + self.pause.max((now - begun) * SHARE);
        let Some(look) = look else { return };
        // The first look counts for the time before it, too.
        let since = self.last.map_or(self.began, |(_, at)| at);
        self.held_for += u128::from(look.held) * begun.saturating_duration_since(since).as_micros();
        self.peak = self.peak.max(look.held);
        self.cache = self.cache.max(look.cache);
        self.last = Some((look, begun));
    }

    /// The memory of the run, which ended at an instant. `mark` is the most that the kernel saw, page cache included; `left` is what
    /// its group has after its end.
    pub fn memory(
        &self,
        ended: Instant,
        mark: Option<u64>,
        left: Option<MemoryLook>,
        starved: bool,
    ) -> Option<MemoryUsage> {
        let cache = self.cache.max(left.map_or(0, |left| left.cache));
        // The kernel kills for want of memory when there is no page cache left to give back.
        let beside = if starved { 0 } else { cache };
        let peak = mark.map(|mark| mark.saturating_sub(beside));
        let mean = self.last.map(|(look, at)| {
            let rest = u128::from(look.held) * ended.saturating_duration_since(at).as_micros();
            let time = ended.saturating_duration_since(self.began).as_micros().max(1);
            u64::try_from((self.held_for + rest) / time).unwrap_or(u64::MAX)
        });
        if peak.is_none() && mean.is_none() {
            return None;
        }
        let peak = peak.unwrap_or(0).max(self.peak);
        Some(MemoryUsage { peak, mean: mean.map(|mean| mean.min(peak)), cache })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn look(held: u64, cache: u64) -> Option<MemoryLook> {
        Some(MemoryLook { held: held * MIB, cache: cache * MIB })
    }

    #[test]
    fn a_mean_is_over_time_and_a_peak_between_looks_is_the_kernels() {
        let began = Instant::now();
        let at = |millis| began + Duration::from_millis(millis);
        let mut gauge = Gauge::new(began);
        gauge.take(look(10, 0), at(100), at(100));
        gauge.take(look(30, 4), at(300), at(300));
        gauge.take(None, at(350), at(350));
        let memory = gauge.memory(at(400), None, None, false).unwrap();
        // 10 for a quarter of its time, 30 for the rest.
        assert_eq!(memory, MemoryUsage { peak: 30 * MIB, mean: Some(25 * MIB), cache: 4 * MIB });
        let peak =
            |mark, left, starved| gauge.memory(at(400), Some(mark * MIB), left, starved).unwrap().peak / MIB;
        assert_eq!(peak(50, None, false), 46, "with as much page cache as was seen");
        assert_eq!(peak(50, look(0, 9), false), 41, "or is left");
        assert_eq!(peak(32, None, false), 30, "but never less than was seen");
        assert_eq!(peak(50, None, true), 50);
    }

    #[test]
    fn a_run_that_nobody_looked_at_has_its_mark_alone() {
        let began = Instant::now();
        let gauge = Gauge::new(began);
        assert_eq!(gauge.memory(began, None, look(0, 3), false), None);
        let memory = gauge.memory(began, Some(8 * MIB), look(0, 3), false).unwrap();
        assert_eq!(memory, MemoryUsage { peak: 5 * MIB, mean: None, cache: 3 * MIB });
    }

    #[test]
    fn looks_become_rare_and_cost_a_hundredth_at_most() {
        let now = Instant::now();
        let mut gauge = Gauge::new(now);
        let pauses: Vec<Duration> = (0..8)
            .map(|_| {
                let began = gauge.next_look();
                gauge.take(look(1, 0), began, began);
                gauge.next_look() - began
            })
            .collect();
        assert_eq!(pauses, [40, 80, 160, 320, 640, 1000, 1000, 1000].map(Duration::from_millis));
        let began = gauge.next_look();
        let ended = began + Duration::from_millis(50);
        gauge.take(look(1, 0), began, ended);
        assert_eq!(gauge.next_look() - ended, Duration::from_secs(5));
    }
}
