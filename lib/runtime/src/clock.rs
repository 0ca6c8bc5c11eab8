//! The source of the time of day: code that depends on it can be tested by turning a clock.
//!
//! A clock gives wall-clock microseconds since the Unix epoch, the unit in which instants are stored. That is
//! not for measuring durations: the wall clock may be set back. Durations are measured with the steady clock.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The beginning of the steady clock.
static BEGAN: LazyLock<Instant> = LazyLock::new(Instant::now);

pub trait Clock: Send + Sync {
    /// The time of day, in microseconds since the epoch.
    fn now_micros(&self) -> i64;

    /// Microseconds since some beginning, on a clock that is never set.
    fn steady_micros(&self) -> i64;
}

/// The clock of the machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now_micros(&self) -> i64 {
        let micros = match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(since) => i128::try_from(since.as_micros()).unwrap_or(i128::MAX),
            Err(before) => -i128::try_from(before.duration().as_micros()).unwrap_or(i128::MAX),
        };
        i64::try_from(micros).unwrap_or(if micros < 0 { i64::MIN } else { i64::MAX })
    }

    fn steady_micros(&self) -> i64 {
        i64::try_from(BEGAN.elapsed().as_micros()).unwrap_or(i64::MAX)
    }
}

/// A clock that stands still until it is turned.
#[derive(Debug, Default)]
pub struct ManualClock(AtomicI64);

impl ManualClock {
    pub fn at(micros: i64) -> Self {
        ManualClock(AtomicI64::new(micros))
    }

    pub fn set(&self, micros: i64) {
        self.0.store(micros, Ordering::SeqCst);
    }

    /// Turns the clock on (or back, if negative) and gives the new time.
    pub fn advance(&self, micros: i64) -> i64 {
        self.0.fetch_add(micros, Ordering::SeqCst) + micros
    }
}

impl Clock for ManualClock {
    fn now_micros(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }

    /// Turning the clock makes that time pass.
    fn steady_micros(&self) -> i64 {
        self.now_micros()
    }
}
