//! Background load: threads that take a number of cores, measured by their own processor time.
//!
//! A thread that gets less than its share makes up for it later, but only for a moment's worth, as a service with
//! waiting requests would. Over a second the load is as set, if the group's limit leaves room for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// So long is worked between two looks at the clocks.
const PIECE: Duration = Duration::from_micros(500);
/// Processor time that was not got is made up for up to this.
const MOST_OWED: f64 = 0.05;
/// Without a load this is how soon a new one is noticed.
const IDLE: Duration = Duration::from_millis(50);

/// A load that may be changed.
#[derive(Debug, Default)]
pub struct LoadGenerator {
    /// The bits of the cores that each thread takes.
    threads: Vec<Arc<AtomicU64>>,
}

impl LoadGenerator {
    /// Takes so many cores from now on.
    pub fn set(&mut self, cores: f64) {
        let cores = if cores.is_finite() { cores.max(0.0) } else { 0.0 };
        while (self.threads.len() as f64) < cores {
            let share = Arc::new(AtomicU64::new(0));
            let own = Arc::clone(&share);
            // Without a thread there is less load, and the demo goes on.
            if thread::Builder::new().name("load".to_owned()).spawn(move || burn(&own)).is_err() {
                break;
            }
            self.threads.push(share);
        }
        for (i, share) in self.threads.iter().enumerate() {
            share.store((cores - i as f64).clamp(0.0, 1.0).to_bits(), Ordering::Relaxed);
        }
    }
}

fn burn(share: &AtomicU64) {
    let mut account = Account { owed: 0.0 };
    let (mut looked_at, mut used_then) = (Instant::now(), used());
    loop {
        let share = f64::from_bits(share.load(Ordering::Relaxed));
        match account.pause(share) {
            None => work(PIECE),
            Some(pause) => thread::sleep(pause),
        }
        let (now, used_now) = (Instant::now(), used());
        account.add(share, now - looked_at, used_now.saturating_sub(used_then));
        (looked_at, used_then) = (now, used_now);
    }
}

/// How much processor time a thread has yet to take.
struct Account {
    owed: f64,
}

impl Account {
    fn add(&mut self, share: f64, passed: Duration, used: Duration) {
        self.owed = (self.owed + passed.as_secs_f64() * share - used.as_secs_f64()).min(MOST_OWED);
    }

    /// How long nothing is to be taken.
    fn pause(&self, share: f64) -> Option<Duration> {
        if share <= 0.0 {
            return Some(IDLE);
        }
        (self.owed <= 0.0).then(|| Duration::from_secs_f64((-self.owed / share).clamp(0.0005, 0.05)))
    }
}

fn work(least: Duration) {
    let end = Instant::now() + least;
    let mut number = 1_u64;
    while Instant::now() < end {
        for _ in 0..200 {
            number = std::hint::black_box(number.wrapping_mul(3));
        }
    }
}

/// The processor time of this thread.
fn used() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: Duration = Duration::from_millis(10);

    /// Of each tick the thread gets as much as is there, if it wants any: the share that it gets over a while.
    fn share_got(share: f64, there: f64, ticks: u32) -> f64 {
        let (mut account, mut got) = (Account { owed: 0.0 }, 0.0);
        for _ in 0..ticks {
            let used = if account.pause(share).is_none() { TICK.mul_f64(there) } else { Duration::ZERO };
            got += used.as_secs_f64();
            account.add(share, TICK, used);
        }
        got / (TICK * ticks).as_secs_f64()
    }

    #[test]
    fn a_share_is_taken_over_time_if_it_is_there() {
        for (share, there, expected) in
            [(0.25, 1.0, 0.25), (0.9, 1.0, 0.9), (0.25, 0.5, 0.25), (0.5, 0.2, 0.2)]
        {
            let got = share_got(share, there, 1000);
            assert!((got - expected).abs() < 0.02, "{share} of {there}: {got}");
        }
    }

    #[test]
    fn only_a_moment_is_made_up_for() {
        let mut account = Account { owed: 0.0 };
        account.add(1.0, Duration::from_secs(60), Duration::ZERO);
        assert_eq!(account.owed, MOST_OWED);
        assert_eq!(account.pause(0.0), Some(IDLE), "no load, no work, whatever is owed");
    }
}
