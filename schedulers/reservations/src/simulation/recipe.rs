//! Generated demand: a day of six classes of jobs, five of small ones and one of large ones.

use estimand_capacity::Tick;
use fastrand::Rng;

use crate::job::Job;
use crate::money::Money;

/// The ticks of a day.
pub const DAY: u64 = 1_440;
const SMALL_CLASSES: u64 = 5;
/// The large class has this part of all work, as so many times that of the small ones.
const LARGE_WORK: f64 = 9.0;
/// The window is so many times as long as the job.
const LEAST_SLACK: f64 = 1.5;
const MOST_SLACK: f64 = 6.0;
const CREDIT: f64 = 1_000_000.0;

#[derive(Debug, Clone, Copy)]
pub struct Recipe {
    /// The jobs of each class.
    pub jobs: u64,
    /// Nothing may run after the day: later deadlines are its end. A job that does not fit any more stays, and can't be done.
    pub closes: bool,
}

impl Default for Recipe {
    fn default() -> Recipe {
        Recipe { jobs: 1_450, closes: false }
    }
}

struct Draft {
    arrival: Tick,
    width: u64,
    length: f64,
    large: bool,
}

impl Recipe {
    /// Jobs in the order of their arrival. Another seed is another draw.
    pub fn draw(self, seed: u64) -> Vec<Job> {
        let mut rng = Rng::with_seed(seed);
        let mut drafts = Vec::new();
        for class in 0..=SMALL_CLASSES {
            let large = class == SMALL_CLASSES;
            for _ in 0..self.jobs {
                let width = if large { rng.u64(20..=60) } else { rng.u64(1..=20) };
                let length = rng.u64(2..=20) as f64;
                drafts.push(Draft { arrival: rng.u64(0..DAY), width, length, large });
            }
        }
        let work = |large: bool| -> f64 {
            let of = drafts.iter().filter(|draft| draft.large == large);
            of.map(|draft| draft.width as f64 * draft.length).sum()
        };
        let scale = LARGE_WORK * work(false) / work(true).max(1.0);
        // The order of those that arrive together is by lot.
        rng.shuffle(&mut drafts);
        drafts.sort_by_key(|draft| draft.arrival);
        let jobs = drafts.iter().map(|draft| draft.job(scale, &mut rng));
        let last = if self.closes { DAY } else { u64::MAX };
        jobs.map(|job| Job { deadline: job.deadline.min(last), ..job }).collect()
    }
}

impl Draft {
    fn job(&self, scale: f64, rng: &mut Rng) -> Job {
        let scaled = if self.large { self.length * scale } else { self.length };
        let length = (scaled.round() as u64).max(1);
        let deadline = self.arrival + window(length, rng);
        let unit_value = (0.5 + rng.f64()) * if self.large { 1.0 } else { 10.0 };
        let value = (unit_value * CREDIT) as u64 * self.width * length;
        let (arrival, width) = (self.arrival, self.width);
        Job { arrival, from: arrival, width, length, deadline, value: Money::microcredits(value) }
    }
}

/// The time between arrival and deadline of a job of this length.
pub(super) fn window(length: u64, rng: &mut Rng) -> u64 {
    let slack = LEAST_SLACK + (MOST_SLACK - LEAST_SLACK) * rng.f64();
    ((length as f64 * slack).round() as u64).max(length)
}
