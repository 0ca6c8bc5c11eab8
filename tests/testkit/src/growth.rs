//! How the work of a parser grows with its input: with its size, and not with the square of it.
//!
//! Work is the processor time of this thread, so that a busy machine does not count; the least of several attempts, so
//! that caches and interrupts hardly do.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Sixteen times the input may take this much longer: for sorting, for caches that are too small, for a large allocation.
/// The square would be 256.
const MOST: f64 = 80.0;
const ATTEMPTS: usize = 5;
/// Anything shorter is not worth measuring: the input is made larger.
const LEAST: Duration = Duration::from_micros(300);
const MOST_UNITS: usize = 20_000;

/// Parses inputs of 1, 4 and 16 times a number of units, and panics if the time grows out of proportion.
#[track_caller]
pub fn is_linear<I: ?Sized, T>(what: &str, input: impl Fn(usize) -> Box<I>, parse: impl Fn(&I) -> T) {
    let (mut units, mut one) = (250, Duration::ZERO);
    while units <= MOST_UNITS && one < LEAST {
        one = time(&*input(units), &parse);
        units *= 2;
    }
    let units = units / 2;
    let [four, sixteen] = [4, 16].map(|times| time(&*input(times * units), &parse));
    let grown = sixteen.as_secs_f64() / one.as_secs_f64().max(1e-6);
    println!("{what}: {units} units {one:?}, 4 times {four:?}, 16 times {sixteen:?}: {grown:.1}");
    assert!(grown <= MOST, "{what}: 16 times the input took {grown:.0} times as long ({one:?}, {sixteen:?})");
}

fn time<I: ?Sized, T>(input: &I, parse: impl Fn(&I) -> T) -> Duration {
    let once = || {
        let began = processor_time();
        std::hint::black_box(parse(std::hint::black_box(input)));
        processor_time().saturating_sub(began)
    };
    (0..ATTEMPTS).map(|_| once()).min().unwrap_or_default()
}

fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}
