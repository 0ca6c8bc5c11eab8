//! Differences between two samples of counters.
//!
//! Counters of the kernel mean something only as differences. This module keeps the earlier sample, knows how long
//! ago it was taken, and turns differences into rates and fractions. Invariants: nothing is divided by zero, a
//! counter that went back gives no rate rather than a negative one, and the first answer is as good as the later ones.

use std::thread;
use std::time::{Duration, Instant};

use crate::Failure;

/// The least time between the two samples that are compared. The kernel counts processor time in ticks of 10 ms, so
/// that less would say little.
pub(crate) const GAP: Duration = Duration::from_millis(100);

/// The samples to compare with.
#[derive(Debug)]
pub(crate) struct Samples<T> {
    /// Compared with.
    base: Option<(Instant, T)>,
    /// Taken after it; becomes the base when it is old enough. Without it, collections without a pause would
    /// either see differences over no time at all, or over all the time since the first.
    next: Option<(Instant, T)>,
}

/// Two samples.
#[derive(Debug)]
pub(crate) struct Pair<'a, T> {
    pub before: &'a T,
    pub now: &'a T,
    pub elapsed: Duration,
}

impl<T> Samples<T> {
    pub fn new() -> Self {
        Samples { base: None, next: None }
    }

    /// Takes a sample and compares it with an earlier one. The first time it takes another one before, [`GAP`]
    /// earlier, as far as `until` leaves time for that.
    pub fn compare<R>(
        &mut self,
        until: Instant,
        mut take: impl FnMut() -> Result<T, Failure>,
        compare: impl FnOnce(Pair<'_, T>) -> R,
    ) -> Result<R, Failure> {
        if self.next.as_ref().is_some_and(|(at, _)| at.elapsed() >= GAP) {
            self.base = self.next.take();
        }
        let base = match self.base.take() {
            Some(base) => base,
            None => {
                let first = (Instant::now(), take()?);
                thread::sleep(GAP.min(until.saturating_duration_since(Instant::now())));
                first
            }
        };
        let (since, before) = self.base.insert(base);
        let at = Instant::now();
        let now = take()?;
        let result = compare(Pair { before, now: &now, elapsed: at - *since });
        if self.next.is_none() {
            self.next = Some((at, now));
        }
        Ok(result)
    }
}

/// The growth of a counter; none if it went back.
pub(crate) fn grown(before: u64, now: u64) -> Option<u64> {
    now.checked_sub(before)
}

/// The growth of a counter a second.
pub(crate) fn per_second(before: u64, now: u64, elapsed: Duration) -> Option<f64> {
    let seconds = elapsed.as_secs_f64();
    let grown = grown(before, now)? as f64;
    (seconds > 0.0).then(|| grown / seconds)
}

/// A part of a whole, from 0 to 1; of nothing there is no part.
pub(crate) fn fraction(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0 && part >= 0.0).then(|| (part / whole).min(1.0))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(5)
    }

    #[test]
    fn the_first_answer_has_a_sample_before_it() {
        let mut counter = 0;
        let mut samples = Samples::new();
        let take = || {
            counter += 1;
            Ok(counter)
        };
        let result =
            samples.compare(soon(), take, |pair| (*pair.before, *pair.now, pair.elapsed >= GAP)).unwrap();
        assert_eq!(result, (1, 2, true));
    }

    #[test]
    fn without_time_for_two_samples_no_time_is_waited() {
        let mut samples = Samples::new();
        let mut taken = 0;
        let take = || {
            taken += 1;
            Ok(())
        };
        samples.compare(Instant::now(), take, |pair| assert!(pair.elapsed < GAP)).unwrap();
        assert!(taken <= 2);
    }

    #[test]
    fn asked_without_a_pause_it_compares_over_a_gap_and_not_since_ever() {
        let mut samples = Samples::new();
        let begun = Instant::now();
        samples.compare(soon(), || Ok(()), |_| ()).unwrap();
        let mut longest = Duration::ZERO;
        while begun.elapsed() < 6 * GAP {
            let elapsed = samples.compare(soon(), || Ok(()), |pair| pair.elapsed).unwrap();
            assert!(elapsed >= GAP, "{elapsed:?}");
            longest = longest.max(elapsed);
        }
        // On a loaded machine a pause between two calls may add to the two gaps, but the base has to have moved on.
        assert!(longest < begun.elapsed(), "{longest:?}");
        let base = samples.base.as_ref().unwrap().0;
        assert!(base - begun > GAP, "the base is still the first");
    }

    #[test]
    fn a_failed_sample_leaves_the_earlier_ones() {
        let mut samples = Samples::new();
        samples.compare(soon(), || Ok(7), |_| ()).unwrap();
        let failed = samples.compare(soon(), || Err(Failure::Failed("no".to_owned())), |_| ());
        assert_eq!(failed, Err(Failure::Failed("no".to_owned())));
        // It does not begin anew, for then this would be the sample before.
        assert_eq!(samples.compare(soon(), || Ok(8), |pair| *pair.before).unwrap(), 7);
    }

    #[test]
    fn nothing_is_divided_by_zero() {
        assert_eq!(fraction(0.0, 0.0), None);
        assert_eq!(per_second(1, 2, Duration::ZERO), None);
        assert_eq!(per_second(2, 1, GAP), None);
        assert_eq!(per_second(1, 2, Duration::from_millis(500)), Some(2.0));
    }

    proptest! {
        #[test]
        fn rates_are_finite_and_never_negative(before: u64, now: u64, nanos: u64) {
            if let Some(rate) = per_second(before, now, Duration::from_nanos(nanos)) {
                prop_assert!(rate.is_finite() && rate >= 0.0);
            }
        }

        #[test]
        fn fractions_are_fractions(part: u64, whole: u64) {
            if let Some(fraction) = fraction(part as f64, whole as f64) {
                prop_assert!((0.0..=1.0).contains(&fraction));
            }
        }
    }
}
