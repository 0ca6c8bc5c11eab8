//! The fractional optimum of the past: the most value that a capacity could have had, if jobs could be split into units of
//! one tick.
//!
//! It is the linear programme: maximise the sum of `v_j y_jt`, where `y_jt` is at most the width of job j and 0 outside
//! of its window, the `y_jt` of a job sum up to at most its work, and those of a tick to at most the capacity. The amounts
//! that jobs can get together form a polymatroid (they are flows into one sink), so taking the jobs by falling value per
//! unit, each with the most that it can get beside those before it, is optimal, and all amounts are integers.
//!
//! The most that it can get is found by augmenting paths: a unit goes to a tick that has room, or to a full tick
//! from which another job's unit moves on. Ticks from which nothing can move on are full for good and are left out later.
//!
//! With a `grain` of more than one tick, so many ticks count as one that has all their room together. The programme is
//! smaller then, and its value can only be greater.

use std::collections::VecDeque;

use super::GoesOn;
use crate::job::Job;

/// The units of each job at each tick of its window.
#[derive(Debug, Clone, PartialEq)]
pub struct Allocation {
    pub units: Vec<Vec<f64>>,
    /// The worth of all units, in microcredits.
    pub value: u128,
}

/// How much a job may have, and has, of each grain that its window touches.
struct Share {
    first: usize,
    most: Vec<u64>,
    units: Vec<u64>,
}

struct Flow {
    shares: Vec<Share>,
    /// By grain.
    free: Vec<u64>,
    closed: Vec<bool>,
    /// The jobs that were given something and may use the grain.
    users: Vec<Vec<u32>>,
    search: Search,
}

/// The search of one augmentation: how each grain and each job was reached.
#[derive(Default)]
struct Search {
    /// The job whose unit goes to the grain.
    from_job: Vec<Option<u32>>,
    /// The grain that the job's unit leaves; None for the job that the search is for.
    from_grain: Vec<Option<u32>>,
    is_seen: Vec<bool>,
    /// Marks that are removed after the search.
    reached: Vec<u32>,
    seen: Vec<u32>,
    queue: VecDeque<u32>,
}

pub fn optimum(jobs: &[Job], capacity: u64, grain: u64) -> Allocation {
    optimum_while(jobs, capacity, grain, &|| true)
}

/// The same, as long as it may go on.
pub(super) fn optimum_while(jobs: &[Job], capacity: u64, grain: u64, goes_on: GoesOn<'_>) -> Allocation {
    let grain = grain.max(1);
    let first = jobs.iter().map(|job| job.from).min().unwrap_or_default() / grain;
    let last = jobs.iter().map(|job| job.deadline).max().unwrap_or_default().div_ceil(grain);
    let grains = usize::try_from(last.saturating_sub(first)).unwrap_or_default();
    let mut flow = Flow {
        shares: jobs.iter().map(|job| Share::of(job, first, grain)).collect(),
        free: vec![capacity.saturating_mul(grain); grains],
        closed: vec![capacity == 0; grains],
        users: vec![Vec::new(); grains],
        search: Search {
            from_job: vec![None; grains],
            from_grain: vec![None; jobs.len()],
            is_seen: vec![false; jobs.len()],
            ..Search::default()
        },
    };
    let mut order: Vec<usize> = (0..jobs.len()).filter(|job| jobs[*job].is_possible()).collect();
    // By the exact value per unit, as a fraction.
    order.sort_by(|one, other| {
        let scaled = |one: usize, other: usize| {
            u128::from(jobs[one].value.as_microcredits()) * u128::from(jobs[other].work())
        };
        scaled(*other, *one).cmp(&scaled(*one, *other))
    });
    let mut value = 0_u128;
    for job in order {
        let units = flow.give(job, jobs[job].work(), goes_on);
        value +=
            u128::from(jobs[job].value.as_microcredits()) * u128::from(units) / u128::from(jobs[job].work());
    }
    let units = jobs.iter().zip(&flow.shares).map(|(job, share)| share.by_tick(job, first, grain));
    Allocation { units: units.collect(), value }
}

/// The ticks that a job may use of a grain.
fn overlap(job: &Job, at: u64, grain: u64) -> u64 {
    job.deadline.min((at + 1) * grain) - job.from.max(at * grain)
}

impl Share {
    fn of(job: &Job, first: u64, grain: u64) -> Share {
        let grains = job.from / grain..job.deadline.div_ceil(grain);
        let most: Vec<u64> = match job.is_possible() {
            true => grains.clone().map(|at| job.width.saturating_mul(overlap(job, at, grain))).collect(),
            false => Vec::new(),
        };
        Share { first: (grains.start - first) as usize, units: vec![0; most.len()], most }
    }

    /// The units of each tick of the window: those of a grain evenly over its ticks.
    fn by_tick(&self, job: &Job, first: u64, grain: u64) -> Vec<f64> {
        let ticks = job.from..if self.units.is_empty() { job.from } else { job.deadline };
        let units = ticks.map(|at| {
            let units = self.units[(at / grain - first) as usize - self.first];
            units as f64 / overlap(job, at / grain, grain) as f64
        });
        units.collect()
    }

    fn window(&self) -> std::ops::Range<usize> {
        self.first..self.first + self.units.len()
    }

    fn units(&self, at: usize) -> u64 {
        self.units[at - self.first]
    }

    fn room(&self, at: usize) -> u64 {
        self.most[at - self.first] - self.units[at - self.first]
    }
}

impl Flow {
    /// Gives a job the most that it can get, and answers how much that is.
    fn give(&mut self, job: usize, work: u64, goes_on: GoesOn<'_>) -> u64 {
        let mut wanted = work;
        let window = self.shares[job].window();
        for at in window.clone() {
            let units = wanted.min(self.free[at]).min(self.shares[job].room(at));
            self.shares[job].units[at - window.start] = units;
            self.free[at] -= units;
            wanted -= units;
        }
        while wanted > 0 && goes_on() {
            let given = self.augment(job, wanted);
            if given == 0 {
                break;
            }
            wanted -= given;
        }
        if wanted < work {
            for at in window.filter(|at| !self.closed[*at]) {
                self.users[at].push(job as u32);
            }
        }
        work - wanted
    }

    /// Looks for the grains that units of the job can reach, and moves units along the paths to those that have room.
    fn augment(&mut self, job: usize, wanted: u64) -> u64 {
        self.reach(job, wanted);
        let reached = std::mem::take(&mut self.search.reached);
        let mut given = 0;
        for at in reached.iter().map(|at| *at as usize) {
            if self.free[at] > 0 && given < wanted {
                given += self.push(at, wanted - given);
            }
        }
        for at in &reached {
            self.closed[*at as usize] |= given == 0;
            self.search.from_job[*at as usize] = None;
        }
        for seen in self.search.seen.drain(..) {
            self.search.is_seen[seen as usize] = false;
        }
        given
    }

    /// Searches until grains are reached that have as much room as is wanted, or no more can be reached.
    fn reach(&mut self, job: usize, wanted: u64) {
        let mut room = 0;
        self.search.queue.clear();
        self.leave(job, None);
        while let Some(at) = self.search.queue.pop_front() {
            let at = at as usize;
            room += self.free[at];
            if room >= wanted {
                return;
            }
            if self.free[at] > 0 {
                continue;
            }
            for place in 0..self.users[at].len() {
                let user = self.users[at][place] as usize;
                if !self.search.is_seen[user] && self.shares[user].units(at) > 0 {
                    self.leave(user, Some(at as u32));
                }
            }
        }
    }

    /// Marks the grains to which a unit of a job can go.
    fn leave(&mut self, job: usize, from: Option<u32>) {
        let Flow { shares, closed, search, .. } = self;
        search.is_seen[job] = true;
        search.seen.push(job as u32);
        search.from_grain[job] = from;
        for at in shares[job].window() {
            if search.from_job[at].is_none() && !closed[at] && shares[job].room(at) > 0 {
                search.from_job[at] = Some(job as u32);
                search.reached.push(at as u32);
                search.queue.push_back(at as u32);
            }
        }
    }

    /// The path that led to a grain: each job with the grain that its unit comes to, and the one that it leaves.
    fn path(&self, end: usize) -> Vec<(usize, usize, Option<usize>)> {
        let mut path = Vec::new();
        let mut at = end;
        while let Some(job) = self.search.from_job[at] {
            let left = self.search.from_grain[job as usize].map(|left| left as usize);
            path.push((job as usize, at, left));
            let Some(left) = left else { break };
            at = left;
        }
        path
    }

    fn push(&mut self, end: usize, wanted: u64) -> u64 {
        let path = self.path(end);
        let mut units = wanted.min(self.free[end]);
        for (job, to, from) in &path {
            let share = &self.shares[*job];
            units = units.min(share.room(*to)).min(from.map_or(u64::MAX, |from| share.units(from)));
        }
        for (job, to, from) in &path {
            let share = &mut self.shares[*job];
            share.units[to - share.first] += units;
            if let Some(from) = from {
                share.units[from - share.first] -= units;
            }
        }
        self.free[end] -= units;
        units
    }
}
