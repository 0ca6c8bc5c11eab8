//! Takes only a share of a core, by pausing: for nodes that are emulated where no cgroup may be made.
//!
//! What counts is the processor time that this thread really had, so that a worker which has to share its core
//! with others isn't slowed twice.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// Which share of a core to take, above 0 and up to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share(f64);

impl Share {
    pub const ALL: Share = Share(1.0);

    pub fn parse(text: &str) -> Result<Self, String> {
        match text.parse::<f64>() {
            Ok(share) if (0.01..=1.0).contains(&share) => Ok(Share(share)),
            _ => Err("expected a share of a core, 0.01 to 1".to_owned()),
        }
    }
}

/// Of time that was not used, only this much may be made up for.
const CREDIT: Duration = Duration::from_millis(100);

/// Keeps account of what one thread used.
#[derive(Debug)]
pub struct Throttle {
    share: Share,
    last: Instant,
    last_used: Duration,
    /// How long the thread would have to pause to be at its share; negative if it may go faster.
    owed_seconds: f64,
}

impl Throttle {
    pub fn new(share: Share) -> Self {
        Throttle { share, last: Instant::now(), last_used: used(), owed_seconds: 0.0 }
    }

    /// How long the thread that has worked since the last call should pause now.
    pub fn pause(&mut self) -> Duration {
        let (now, used) = (Instant::now(), used());
        let owed = self.account(now.duration_since(self.last), used.saturating_sub(self.last_used));
        (self.last, self.last_used) = (now, used);
        owed
    }

    fn account(&mut self, passed: Duration, used: Duration) -> Duration {
        let Share(share) = self.share;
        if share >= 1.0 {
            return Duration::ZERO;
        }
        let owed = self.owed_seconds + used.as_secs_f64() / share - passed.as_secs_f64();
        self.owed_seconds = owed.max(-CREDIT.as_secs_f64());
        Duration::from_secs_f64(self.owed_seconds.max(0.0))
    }
}

/// The processor time of this thread.
fn used() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn throttle(share: &str) -> Throttle {
        Throttle::new(Share::parse(share).unwrap())
    }

    fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn the_pause_makes_up_for_what_was_used() {
        let mut throttle = throttle("0.25");
        assert_eq!(throttle.account(millis(30), millis(30)).as_millis(), 90);
        // Paused for that long, then worked again.
        assert_eq!(throttle.account(millis(120), millis(30)).as_millis(), 90);
        // A core shared with others: 30 of 60 ms.
        assert_eq!(throttle.account(millis(150), millis(30)).as_millis(), 60);
    }

    #[test]
    fn time_spent_waiting_is_not_saved_up() {
        let mut throttle = throttle("0.5");
        assert_eq!(throttle.account(millis(60_000), Duration::ZERO), Duration::ZERO);
        assert_eq!(throttle.account(millis(300), millis(300)).as_millis(), 200);
    }

    #[test]
    fn a_whole_core_needs_no_pause() {
        assert_eq!(Throttle::new(Share::ALL).account(millis(1), millis(50)), Duration::ZERO);
    }

    #[test]
    fn the_clock_is_that_of_this_thread() {
        let before = used();
        let mut number = 1u64;
        while used() - before < millis(5) {
            number = std::hint::black_box(number.wrapping_mul(3));
        }
        let other = std::thread::spawn(used).join().unwrap();
        assert!(other < used(), "{other:?} is a new thread's");
    }
}
