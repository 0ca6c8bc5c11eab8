//! The minimum satisfactory share: the least accelerator time that lets a job end by its deadline.
//!
//! The least width that suffices has the time before the deadline, the next narrower one the time before that. Where less
//! is free, the job has the widest allowed width of what is free.

use crate::profile::{Profile, Stretch};
use crate::throughput::{Speeds, Step};

/// The instants at which plans may begin or change: multiples of a slot. Ends are held until the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grid {
    pub slot: u64,
}

impl Grid {
    pub fn down(self, at: u64) -> u64 {
        at - at % self.slot.max(1)
    }

    pub fn up(self, at: u64) -> u64 {
        at.next_multiple_of(self.slot.max(1))
    }
}

const NOTHING: Step = Step { width: 0, rate: 0 };

/// The plan of a job with so much work that loses so much time, in the order of time, or none if no width suffices.
pub fn minimum_share(
    speeds: &Speeds,
    work: u64,
    lost: u64,
    (now, deadline): (u64, u64),
    grid: Grid,
    profile: &Profile,
) -> Option<Vec<Stretch>> {
    if deadline <= now {
        return None;
    }
    let mut below = None;
    for step in speeds.steps() {
        let needed = work.saturating_add(lost.saturating_mul(step.rate));
        let done = work_of(speeds, *step, now, deadline, profile, needed);
        if done >= needed {
            return Some(mixture(speeds, below, *step, needed, (now, deadline), grid, profile));
        }
        below = Some((*step, done));
    }
    None
}

fn allowed(speeds: &Speeds, step: Step, free: u32) -> Step {
    if step.width <= free { step } else { speeds.within(free).unwrap_or(NOTHING) }
}

/// The work that a width does until the deadline; no more is counted than is enough.
fn work_of(speeds: &Speeds, step: Step, now: u64, deadline: u64, profile: &Profile, enough: u64) -> u64 {
    let mut done = 0u64;
    for stretch in profile.back_from(deadline) {
        let from = stretch.from.max(now);
        if stretch.to <= from {
            break;
        }
        let rate = allowed(speeds, step, stretch.width).rate;
        done = done.saturating_add(rate.saturating_mul(stretch.to - from));
        if done >= enough {
            break;
        }
    }
    done
}

/// The wide width from a point on, the narrow one before it: the latest point that suffices.
fn mixture(
    speeds: &Speeds,
    below: Option<(Step, u64)>,
    step: Step,
    work: u64,
    (now, deadline): (u64, u64),
    grid: Grid,
    profile: &Profile,
) -> Vec<Stretch> {
    let (narrow, done) = below.unwrap_or((NOTHING, 0));
    let mut missing = work - done;
    let mut plan: Vec<Stretch> = Vec::new();
    let mut push = |from: u64, to: u64, width: u32| {
        if from < to && width > 0 {
            match plan.last_mut() {
                Some(last) if last.width == width && last.from == to => last.from = from,
                _ => plan.push(Stretch { from, to, width }),
            }
        }
    };
    for stretch in profile.back_from(deadline) {
        let (from, to) = (stretch.from.max(now), stretch.to);
        if to <= from {
            break;
        }
        let less = if narrow.width == 0 { NOTHING } else { allowed(speeds, narrow, stretch.width) };
        let more = allowed(speeds, step, stretch.width);
        if missing == 0 {
            if narrow.width == 0 {
                break;
            }
            push(from, to, less.width);
            continue;
        }
        let gain = more.rate - less.rate;
        if gain.saturating_mul(to - from) <= missing {
            missing -= gain * (to - from);
            push(from, to, more.width);
            continue;
        }
        let point = grid.down(to - missing.div_ceil(gain)).max(from);
        missing = 0;
        push(point, to, more.width);
        push(from, point, less.width);
    }
    plan.reverse();
    plan
}

/// When a plan ends that does so much work, if it does.
pub fn end_of(speeds: &Speeds, mut work: u64, plan: &[Stretch]) -> Option<u64> {
    for stretch in plan {
        let rate = speeds.rate(stretch.width);
        let done = rate.saturating_mul(stretch.to - stretch.from);
        if rate > 0 && done >= work {
            return Some(stretch.from + work.div_ceil(rate));
        }
        work -= done;
    }
    None
}
