//! ElasticFlow's policy as its published simulator has it, written from the description in `data/README.md`.
//!
//! Each round plans all jobs anew, the earliest deadline first: the least width that suffices before the deadline, the
//! next narrower one before that. Newcomers of a round are accepted or declined together.

use super::charge::Charge;
use crate::profile::Stretch;
use crate::simulation::setup::{Ending, Setup};
use crate::simulation::trace::TraceJob;
use crate::throughput::{ITERATION, Step, time_for};

/// A time that no plan gets to.
const NEVER: u64 = u64::MAX / 4;

struct Job<'a> {
    at: usize,
    deadline: u64,
    left: u64,
    steps: &'a [Step],
    plan: Vec<Stretch>,
    end: u64,
}

/// The free accelerators by time: each mark begins a stretch.
struct Free(Vec<(u64, u32)>);

impl Free {
    fn take(&mut self, stretch: Stretch) {
        if stretch.from < stretch.to && stretch.width > 0 {
            let (from, to) = (self.cut(stretch.from), self.cut(stretch.to));
            for mark in &mut self.0[from..to] {
                mark.1 = mark.1.saturating_sub(stretch.width);
            }
        }
    }

    fn cut(&mut self, at: u64) -> usize {
        self.0.binary_search_by_key(&at, |mark| mark.0).unwrap_or_else(|next| {
            let free = self.0[next - 1].1;
            self.0.insert(next, (at, free));
            next
        })
    }

    fn stretches(&self, until: u64) -> Vec<Stretch> {
        let ends = self.0.iter().skip(1).map(|mark| mark.0).chain([u64::MAX]);
        let all = self.0.iter().zip(ends);
        let all = all.map(|(mark, to)| Stretch { from: mark.0, to: to.min(until), width: mark.1 });
        all.filter(|stretch| stretch.from < stretch.to).collect()
    }
}

/// The widest of the steps within so many accelerators.
fn within(steps: &[Step], free: u32) -> Step {
    let widest = steps.iter().rev().find(|step| step.width <= free);
    widest.copied().unwrap_or(Step { width: 0, rate: 0 })
}

fn rounded_up(now: u64, at: u64, slot: u64) -> u64 {
    now + (at - now).div_ceil(slot) * slot
}

impl Job<'_> {
    /// Cuts a plan off where the job ends. Returns that end, if the plan suffices.
    fn cut(&self, plan: &mut Vec<Stretch>) -> Option<u64> {
        let mut left = self.left;
        for at in 0..plan.len() {
            let Stretch { from, to, width } = plan[at];
            let rate = within(self.steps, width).rate;
            if rate > 0 && time_for(left, rate) <= to - from {
                plan[at].to = from + time_for(left, rate);
                plan.truncate(at + 1);
                return Some(plan[at].to);
            }
            left -= rate.saturating_mul(to - from).min(left);
        }
        None
    }

    fn follow(&mut self, mut plan: Vec<Stretch>) -> bool {
        let end = self.cut(&mut plan);
        self.end = end.unwrap_or(NEVER);
        self.plan = if end.is_some() { plan } else { Vec::new() };
        end.is_some()
    }

    /// The least width that suffices from the deadline backwards, and the next narrower one before.
    fn fill(&mut self, free: &Free) -> bool {
        let stretches = free.stretches(self.deadline);
        let mut below = 0;
        for step in self.steps {
            let mut missing = self.left;
            for (at, stretch) in stretches.iter().enumerate().rev() {
                let rate = within(self.steps, step.width.min(stretch.width)).rate;
                let done = rate.saturating_mul(stretch.to - stretch.from);
                if done < missing {
                    missing -= done;
                    continue;
                }
                let point = stretch.to - time_for(missing, rate);
                let halves = [Stretch { to: point, ..*stretch }, Stretch { from: point, ..*stretch }];
                let before = stretches[..at].iter().chain(&halves[..1]).map(|part| (*part, below));
                let after = halves[1..].iter().chain(&stretches[at + 1..]);
                let parts = before.chain(after.map(|part| (*part, step.width)));
                let plan = parts.map(|(part, most)| self.part(part, most)).collect();
                return self.follow(plan);
            }
            below = step.width;
        }
        false
    }

    fn part(&self, part: Stretch, most: u32) -> Stretch {
        Stretch { width: within(self.steps, most.min(part.width)).width, ..part }
    }

    /// The widest that is free from now on: the plan of a job that is late.
    fn hurry(&mut self, free: &Free) {
        let plan = free.stretches(NEVER).into_iter().map(|part| self.part(part, u32::MAX)).collect();
        self.follow(plan);
    }

    fn width(&self, now: u64) -> u32 {
        self.plan.first().filter(|first| first.from <= now).map_or(0, |first| first.width)
    }

    /// When the plan changes the width or, in whole slots, ends.
    fn change(&self, now: u64, slot: u64) -> u64 {
        let Some(first) = self.plan.first() else { return NEVER };
        let other = self.plan.iter().find(|stretch| stretch.width != first.width);
        other.map_or_else(|| rounded_up(now, self.end, slot), |other| other.from.max(now + slot))
    }

    fn accelerator_time(&self) -> u128 {
        accelerator_time(&self.plan)
    }
}

fn accelerator_time(plan: &[Stretch]) -> u128 {
    plan.iter().map(|stretch| u128::from(stretch.to - stretch.from) * u128::from(stretch.width)).sum()
}

/// Plans all jobs. Returns which of them end in time, and what is free.
fn plan(jobs: &mut [Job<'_>], now: u64, setup: &Setup) -> (Vec<bool>, Free) {
    let mut free = Free(vec![(now, setup.accelerators)]);
    let mut in_time = Vec::new();
    for job in jobs {
        in_time.push(job.deadline > now && job.fill(&free));
        if in_time.last() == Some(&false) {
            job.hurry(&free);
        }
        if let Some((last, before)) = job.plan.split_last() {
            before.iter().for_each(|stretch| free.take(*stretch));
            free.take(Stretch { to: rounded_up(now, job.end, setup.slot), ..*last });
        }
    }
    (in_time, free)
}

/// Gives what is free now, a step at a time, to the job whose plan then uses most more time of accelerators.
fn left_overs(jobs: &mut [Job<'_>], now: u64, horizon: u64, mut free: u32) {
    while free > 0 {
        let mut best: Option<(bool, u128, usize, u32, Vec<Stretch>)> = None;
        for (at, job) in jobs.iter().enumerate().filter(|(_, job)| !job.plan.is_empty()) {
            let width = job.width(now);
            let Some(step) = job.steps.iter().find(|step| step.width > width) else { continue };
            let more = step.width - width;
            if more > free {
                continue;
            }
            let later = job.plan.iter().filter(|stretch| stretch.to > horizon);
            let later = later.map(|stretch| Stretch { from: stretch.from.max(horizon), ..*stretch });
            let first = Stretch { from: now, to: horizon, width: step.width };
            let mut plan: Vec<Stretch> = std::iter::once(first).chain(later).collect();
            if job.cut(&mut plan).is_some() {
                let gain = accelerator_time(&plan).saturating_sub(job.accelerator_time()) / u128::from(more);
                if best.as_ref().is_none_or(|best| (width == 0, gain) > (best.0, best.1)) {
                    best = Some((width == 0, gain, at, more, plan));
                }
            }
        }
        let Some((_, _, at, more, plan)) = best else { return };
        free -= more;
        jobs[at].follow(plan);
    }
}

/// Runs a trace. Newcomers are tested if `admission` says so.
pub fn run(trace: &[TraceJob], setup: &Setup, admission: bool) -> Vec<Ending> {
    let mut endings = vec![Ending::default(); trace.len()];
    let mut charge = setup.charge();
    let mut jobs: Vec<Job<'_>> = Vec::new();
    let (mut now, mut next) = (0, 0);
    while next < trace.len() || !jobs.is_empty() {
        if jobs.is_empty() {
            now = now.max(trace[next].submitted);
        }
        let first = next;
        while let Some(job) = trace.get(next).filter(|job| job.submitted <= now) {
            let steps = job.speeds.rising();
            let fitting = steps.iter().take_while(|step| step.width <= setup.accelerators).count();
            let left = job.iterations * ITERATION;
            let steps = &steps[..fitting];
            jobs.push(Job { at: next, deadline: job.deadline, left, steps, plan: Vec::new(), end: NEVER });
            next += 1;
        }
        jobs.sort_by_key(|job| (job.deadline, job.at));
        let (in_time, mut free) = plan(&mut jobs, now, setup);
        if admission && next > first && in_time.contains(&false) {
            jobs.retain(|job| job.at < first);
            free = plan(&mut jobs, now, setup).1;
        } else {
            endings[first..next].iter_mut().for_each(|ending| ending.is_accepted = true);
        }
        let arrival = trace.get(next).map_or(NEVER, |job| job.submitted.max(now + setup.slot));
        let change = |jobs: &[Job<'_>]| {
            let changes = jobs.iter().map(|job| job.change(now, setup.slot));
            changes.min().unwrap_or(NEVER).max(now + setup.slot).min(arrival)
        };
        let horizon = change(&jobs);
        left_overs(&mut jobs, now, horizon, free.0[0].1);
        let until = change(&jobs);
        if until >= NEVER {
            break;
        }
        pass(&mut jobs, (now, until), setup, charge.as_mut(), &mut endings);
        now = until;
    }
    endings
}

/// Lets the time until the next round pass. A job ends when its plan says so.
fn pass(
    jobs: &mut Vec<Job<'_>>,
    (now, until): (u64, u64),
    setup: &Setup,
    charge: Option<&mut Charge>,
    endings: &mut [Ending],
) {
    let widths: Vec<u32> = jobs.iter().map(|job| job.width(now)).collect();
    let costs = charge.map_or_else(|| vec![0; widths.len()], |charge| charge.round(&widths));
    let mut costs = costs.into_iter();
    jobs.retain_mut(|job| {
        let mut cost = costs.next().unwrap_or(0);
        if job.end < NEVER && rounded_up(now, job.end, setup.slot) <= until {
            endings[job.at].end = Some(job.end);
            return false;
        }
        for stretch in job.plan.iter().filter(|stretch| stretch.from < until && stretch.width > 0) {
            let passed = stretch.to.min(until) - stretch.from;
            let paid = cost.min(passed);
            cost -= paid;
            let done = within(job.steps, stretch.width).rate.saturating_mul(passed - paid);
            job.left = job.left.saturating_sub(done).max(1);
        }
        true
    });
}
