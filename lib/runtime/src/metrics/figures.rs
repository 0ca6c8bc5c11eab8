//! The three kinds of figures: plain atomics, cheap enough for any path.
//!
//! A figure knows its value and nothing about its name or labels; those are said when it is rendered. Reading
//! while others write gives a value of each cell that was true at some moment, which is all that monitoring
//! needs.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

/// Counts up.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    pub const fn new() -> Self {
        Counter(AtomicU64::new(0))
    }

    pub fn increment(&self) {
        self.add(1);
    }

    pub fn add(&self, amount: u64) {
        self.0.fetch_add(amount, Ordering::Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Goes up and down.
#[derive(Debug, Default)]
pub struct Gauge(AtomicI64);

impl Gauge {
    pub const fn new() -> Self {
        Gauge(AtomicI64::new(0))
    }

    pub fn set(&self, value: i64) {
        self.0.store(value, Ordering::Relaxed);
    }

    pub fn add(&self, amount: i64) {
        self.0.fetch_add(amount, Ordering::Relaxed);
    }

    pub fn get(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Durations are kept in nanoseconds and rendered in seconds.
const NANOS: f64 = 1e9;

/// The numbers of durations in fixed buckets.
#[derive(Debug)]
pub struct Histogram {
    /// The upper ends of the buckets, ascending.
    bounds: Box<[u64]>,
    /// One cell a bucket, and one for observations above the last.
    cells: Box<[AtomicU64]>,
    sum: AtomicU64,
}

/// The counts of a histogram at one moment. Readings of the same shape can be added up.
#[derive(Debug, Clone, PartialEq)]
pub struct HistogramReading {
    pub(super) bounds: Vec<f64>,
    pub(super) counts: Vec<u64>,
    pub(super) sum: f64,
}

impl Histogram {
    pub fn of_durations(bounds: &[Duration]) -> Self {
        let bounds: Box<[u64]> = bounds.iter().copied().map(nanos).collect();
        debug_assert!(bounds.is_sorted_by(|low, high| low < high), "the bounds of a histogram must ascend");
        let cells = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Histogram { bounds, cells, sum: AtomicU64::new(0) }
    }

    pub fn observe_duration(&self, duration: Duration) {
        let nanos = nanos(duration);
        // Most observations fall into the first few buckets, so looking from the low end is fastest.
        let cell = self.bounds.iter().position(|bound| nanos <= *bound).unwrap_or(self.bounds.len());
        self.cells[cell].fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add(nanos, Ordering::Relaxed);
    }

    pub fn read(&self) -> HistogramReading {
        HistogramReading {
            bounds: self.bounds.iter().map(|bound| *bound as f64 / NANOS).collect(),
            counts: self.cells.iter().map(|cell| cell.load(Ordering::Relaxed)).collect(),
            sum: self.sum.load(Ordering::Relaxed) as f64 / NANOS,
        }
    }
}

impl HistogramReading {
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Adds another reading of a histogram with the same bounds.
    pub fn add(&mut self, other: &HistogramReading) {
        debug_assert_eq!(self.bounds, other.bounds, "only histograms of one shape can be added up");
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.sum += other.sum;
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_belongs_to_its_bucket() {
        let histogram = Histogram::of_durations(&[Duration::from_millis(1), Duration::from_millis(10)]);
        for micros in [1, 1_000, 1_001, 10_000, 10_001] {
            histogram.observe_duration(Duration::from_micros(micros));
        }
        let mut reading = histogram.read();
        assert_eq!(reading.counts, [2, 2, 1]);
        assert_eq!(reading.bounds, [0.001, 0.01]);
        reading.add(&histogram.read());
        assert_eq!(reading.count(), 10);
        assert!((reading.sum - 0.044_006).abs() < 1e-9, "{}", reading.sum);
    }
}
