//! Milliseconds that only grow: leases, terms of leadership and losses are measured with them.
//!
//! They go on while the machine sleeps. A manager that wakes up after a minute must know that its term is
//! over, although for its timers no time has passed.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

pub use crate::core::Millis;

/// Milliseconds since this machine was started.
pub fn now() -> Millis {
    let since_boot = clock_gettime(ClockId::Boottime);
    // The clock counts from zero, and nanoseconds are less than a second.
    let (seconds, nanos) = (since_boot.tv_sec.unsigned_abs(), since_boot.tv_nsec.unsigned_abs());
    seconds * 1_000 + nanos / 1_000_000
}

/// Sleeps until `at`, or a little longer.
pub async fn sleep_until(at: Millis) {
    tokio::time::sleep(Duration::from_millis(at.saturating_sub(now()))).await;
}

pub fn millis(span: Duration) -> Millis {
    Millis::try_from(span.as_millis()).unwrap_or(Millis::MAX)
}
