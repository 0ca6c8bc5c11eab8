//! Milliseconds beside the ledger's ticks. Each is turned into the other here only, so neither is taken for the other.

use std::ops::{Add, Sub};
use std::time::Duration;

use estimand_capacity::Tick;
use serde::{Deserialize, Serialize};

/// The length of a tick of the ledger, which is a second, in the services as in the simulator.
const MILLIS_A_TICK: u64 = 1_000;

/// Milliseconds of the one clock: an instant, or a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Millis(pub u64);

impl Millis {
    /// The instant at which a tick begins.
    pub const fn of_tick(tick: Tick) -> Millis {
        Millis(tick.saturating_mul(MILLIS_A_TICK))
    }

    /// The tick that an instant is in.
    pub const fn tick(self) -> Tick {
        self.0 / MILLIS_A_TICK
    }

    /// The first tick that begins then or later.
    pub const fn next_tick(self) -> Tick {
        self.0.div_ceil(MILLIS_A_TICK)
    }

    /// Microseconds, as services store instants.
    pub fn micros(self) -> i64 {
        i64::try_from(self.0.saturating_mul(1_000)).unwrap_or(i64::MAX)
    }

    #[must_use]
    pub const fn saturating_sub(self, other: Millis) -> Millis {
        Millis(self.0.saturating_sub(other.0))
    }
}

/// Sums end with the last instant that there is.
impl Add for Millis {
    type Output = Millis;
    fn add(self, other: Millis) -> Millis {
        Millis(self.0.saturating_add(other.0))
    }
}

impl Sub for Millis {
    type Output = Millis;
    fn sub(self, other: Millis) -> Millis {
        Millis(self.0 - other.0)
    }
}

impl From<Duration> for Millis {
    fn from(span: Duration) -> Millis {
        Millis(u64::try_from(span.as_millis()).unwrap_or(u64::MAX))
    }
}

impl From<Millis> for Duration {
    fn from(span: Millis) -> Duration {
        Duration::from_millis(span.0)
    }
}
