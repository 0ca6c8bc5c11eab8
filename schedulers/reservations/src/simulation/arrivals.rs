//! Demand of recorded arrivals: times and sizes are real, the rest is drawn.
//!
//! A line is a job with six columns between tabs: a name, the second of its submission, the gap to the one before, and
//! the bytes that it reads, moves between its stages, and writes. All other numbers are drawn or assumed, and stand in
//! the constants here.

use fastrand::Rng;

use super::recipe::window;
use crate::job::Job;
use crate::money::Money;

const TICK_SECONDS: u64 = 60;
const HOUR_SECONDS: u64 = 3_600;
const HOUR_TICKS: u64 = HOUR_SECONDS / TICK_SECONDS;
/// The bytes that one unit gets through in a tick: 2 MB a second.
const BYTES_PER_TICK: u64 = 2_000_000 * TICK_SECONDS;
/// Input is split into blocks of this size; no job is wider than it has blocks.
const BLOCK_BYTES: u64 = 128_000_000;
const MOST_WIDTH: u64 = 8;
const MOST_LENGTH: u64 = 240;
/// The classes by work in units times ticks, and the median worth of one of these, in credits.
const CLASSES: [(u64, f64); 3] = [(10, 10.0), (1_000, 3.0), (u64::MAX, 1.0)];
/// The spread of the logarithm of the worth.
const SIGMA: f64 = 0.5;

/// The half of the hours that is taken. They follow one another without the others in between.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hours {
    Even,
    Odd,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct ArrivalsError {
    pub line: usize,
    pub message: String,
}

/// The jobs of half a day, in the order of their arrival.
pub fn arrivals(text: &str, hours: Hours, seed: u64) -> Result<Vec<Job>, ArrivalsError> {
    // Worths have a stream of their own, so that another rule for windows sees the same ones.
    let (mut windows, mut values) = (Rng::with_seed(seed), Rng::with_seed(!seed));
    let mut jobs = Vec::new();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let wrong = |message: &str| ArrivalsError { line: number + 1, message: message.to_owned() };
        let columns: Vec<&str> = line.split('\t').collect();
        let [_, second, _, input, moved, output] = columns[..] else {
            return Err(wrong("a job has six columns between tabs"));
        };
        let read = |text: &str| text.trim().parse::<u64>().map_err(|_| wrong("a column is no whole number"));
        let (second, input) = (read(second)?, read(input)?);
        let bytes = input.saturating_add(read(moved)?).saturating_add(read(output)?);
        let (length_and_width, slack, worth) = (size(bytes, input), windows.fork(), normal(&mut values));
        let hour = second / HOUR_SECONDS;
        if hour.is_multiple_of(2) == (hours == Hours::Even) {
            let arrival = hour / 2 * HOUR_TICKS + second % HOUR_SECONDS / TICK_SECONDS;
            jobs.push(job(arrival, length_and_width, slack, worth));
        }
    }
    jobs.sort_by_key(|job| job.arrival);
    Ok(jobs)
}

/// The length and width of a job with so many bytes.
fn size(bytes: u64, input: u64) -> (u64, u64) {
    let work = bytes.div_ceil(BYTES_PER_TICK).max(1);
    let width = input.div_ceil(BLOCK_BYTES).clamp(1, MOST_WIDTH).min(work);
    (work.div_ceil(width).min(MOST_LENGTH), width)
}

fn job(arrival: u64, (length, width): (u64, u64), mut slack: Rng, worth: f64) -> Job {
    let class = CLASSES.iter().find(|(most, _)| width * length <= *most);
    let median = class.map_or(1.0, |(_, median)| *median);
    let unit_value = (median * (SIGMA * worth).exp() * 1_000_000.0) as u64;
    let value = Money::microcredits(unit_value * width * length);
    Job { arrival, from: arrival, width, length, deadline: arrival + window(length, &mut slack), value }
}

/// A draw of the standard normal distribution.
fn normal(rng: &mut Rng) -> f64 {
    let (one, other) = (1.0 - rng.f64(), rng.f64());
    (-2.0 * one.ln()).sqrt() * (std::f64::consts::TAU * other).cos()
}
