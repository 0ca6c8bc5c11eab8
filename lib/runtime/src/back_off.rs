//! Pauses between attempts: they double up to a limit, and each is shortened at random, so that processes that failed
//! together do not come back together. The one formula of every retry.

use std::time::Duration;

/// The pauses of one thing that is tried again and again.
#[derive(Debug, Clone)]
pub struct BackOff {
    first: Duration,
    longest: Duration,
    next: Duration,
}

impl BackOff {
    pub const fn new(first: Duration, longest: Duration) -> Self {
        BackOff { first, longest, next: first }
    }

    /// The pause before the next attempt: between half of the nominal one and all of it.
    pub fn pause(&mut self) -> Duration {
        let nominal = self.next.min(self.longest);
        self.next = nominal.saturating_mul(2);
        jittered(nominal)
    }

    /// An attempt succeeded: the next pause is the first one again.
    pub fn reset(&mut self) {
        self.next = self.first;
    }

    pub fn first(&self) -> Duration {
        self.first
    }
}

/// A random time between half of a span and all of it.
pub fn jittered(span: Duration) -> Duration {
    span.mul_f64(0.5 + fastrand::f64() / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest_and_begin_anew() {
        let within = |pause: Duration, millis: u64| {
            let nominal = Duration::from_millis(millis);
            assert!(pause >= nominal / 2 && pause <= nominal, "{pause:?} for {nominal:?}");
        };
        let mut back_off = BackOff::new(Duration::from_millis(100), Duration::from_millis(350));
        for millis in [100, 200, 350, 350] {
            within(back_off.pause(), millis);
        }
        back_off.reset();
        within(back_off.pause(), 100);
    }
}
