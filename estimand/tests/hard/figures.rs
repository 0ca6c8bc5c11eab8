//! How long reads take, as ratios within one run: machines differ, and are busy.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use estimand_testkit::http::Http;

/// Answered times of one kind, sorted.
pub struct Times(Vec<Duration>);

impl Times {
    /// Reads `path` one after the other until `done`, and at least so many times. Each answer must be 200.
    pub fn of_reads(http: &Http, path: &str, at_least: usize, done: &AtomicBool) -> Self {
        let mut times = Vec::new();
        while times.len() < at_least || !done.load(Ordering::Acquire) {
            let began = Instant::now();
            http.get(path).expect_status(200);
            times.push(began.elapsed());
        }
        times.sort_unstable();
        Times(times)
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn median(&self) -> Duration {
        self.0[self.0.len() / 2]
    }

    pub fn p99(&self) -> Duration {
        self.0[self.0.len() * 99 / 100]
    }
}

impl std::fmt::Display for Times {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{} reads, median {:?}, p99 {:?}", self.len(), self.median(), self.p99())
    }
}

pub fn mebibytes(bytes: u64) -> u64 {
    bytes >> 20
}
