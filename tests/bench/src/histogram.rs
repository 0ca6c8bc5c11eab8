//! Latencies in buckets that are each about 3 % wide, from nanoseconds to hours, in 15 KiB.

use std::time::Duration;

/// Each power of two is split into 2^5 buckets.
const SPLIT_BITS: u32 = 5;
const SPLIT: usize = 1 << SPLIT_BITS;
const BUCKETS: usize = (65 - SPLIT_BITS as usize) * SPLIT;

#[derive(Debug, Clone)]
pub struct Histogram {
    counts: Vec<u64>,
    total: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram { counts: vec![0; BUCKETS], total: 0 }
    }
}

impl Histogram {
    pub fn record(&mut self, latency: Duration) {
        self.counts[bucket(latency.as_nanos() as u64)] += 1;
        self.total += 1;
    }

    pub fn count(&self) -> u64 {
        self.total
    }

    pub fn add(&mut self, other: &Histogram) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.total += other.total;
    }

    /// The latency that a share of all did not exceed, to the width of a bucket; zero if there were none.
    pub fn quantile(&self, share: f64) -> Duration {
        let wanted = (self.total as f64 * share).ceil() as u64;
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted && *count > 0 {
                return Duration::from_nanos(upper_end(bucket));
            }
        }
        Duration::ZERO
    }
}

fn bucket(nanos: u64) -> usize {
    let nanos = nanos.max(SPLIT as u64);
    let shift = nanos.ilog2() - SPLIT_BITS;
    shift as usize * SPLIT + (nanos >> shift) as usize - SPLIT
}

fn upper_end(bucket: usize) -> u64 {
    let (shift, step) = (bucket / SPLIT, bucket % SPLIT + SPLIT);
    ((step as u64 + 1) << shift) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_latency_falls_into_a_bucket_that_ends_at_most_a_thirtysecond_above_it() {
        for nanos in [32, 33, 63, 64, 65, 999, 1_000_000, 123_456_789, u64::MAX >> 2] {
            let end = upper_end(bucket(nanos));
            assert!(end >= nanos && end - nanos <= nanos / 32, "{nanos} ends at {end}");
        }
    }

    #[test]
    fn quantiles_count_from_the_shortest() {
        let mut histogram = Histogram::default();
        (1..=100).for_each(|micros| histogram.record(Duration::from_micros(micros)));
        let near = |share, micros: f64| {
            let found = histogram.quantile(share).as_nanos() as f64 / 1000.0;
            assert!((found / micros - 1.0).abs() < 0.04, "{share}: {found} instead of {micros}");
        };
        near(0.5, 50.0);
        near(0.99, 99.0);
        near(1.0, 100.0);
    }
}
