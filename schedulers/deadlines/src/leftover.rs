//! Left-overs: what no plan needs until the next round goes, one allowed width at a time, to whoever gains most by it.

use std::collections::BinaryHeap;
use std::str::FromStr;

use serde::Serialize;

use crate::profile::Stretch;
use crate::share::end_of;
use crate::throughput::{Speeds, Step};

/// How left-overs are given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LeftOvers {
    /// The paper's: to the job that ends sooner by most, by accelerator.
    Time,
    /// Ours: to the job that is spared most accelerator time later, by accelerator. A job whose plan ends wide and
    /// inefficient is helped before one that is planned narrow.
    Work,
}

impl FromStr for LeftOvers {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "time" => Ok(LeftOvers::Time),
            "work" => Ok(LeftOvers::Work),
            _ => Err(format!("{text:?} is no way to give left-overs; there are time and work")),
        }
    }
}

/// A job that may be given more until the next round.
#[derive(Debug, Clone, Copy)]
pub struct Candidate<'a> {
    pub speeds: &'a Speeds,
    pub work: u64,
    pub plan: &'a [Stretch],
    /// The width that its plan has now.
    pub width: u32,
}

/// The widths of all candidates from now until a horizon, none below its plan's.
pub fn give(
    rule: LeftOvers,
    candidates: &[Candidate<'_>],
    mut free: u32,
    now: u64,
    horizon: u64,
) -> Vec<u32> {
    let mut widths: Vec<u32> = candidates.iter().map(|candidate| candidate.width).collect();
    let next = |at: usize, width: u32| {
        let candidate = &candidates[at];
        let steps = candidate.speeds.steps();
        let step = *steps.get(steps.partition_point(|step| step.width <= width))?;
        let gain = gain(rule, candidate, width, step, now, horizon);
        // Ties go to the earlier one.
        Some((gain, std::cmp::Reverse(at), step.width))
    };
    let mut heap: BinaryHeap<_> = (0..widths.len()).filter_map(|at| next(at, widths[at])).collect();
    while free > 0
        && let Some((_, std::cmp::Reverse(at), width)) = heap.pop()
    {
        let more = width - widths[at];
        if more <= free {
            free -= more;
            widths[at] = width;
            heap.extend(next(at, width));
        }
    }
    widths
}

/// The gain of the next allowed width, by accelerator.
fn gain(rule: LeftOvers, candidate: &Candidate<'_>, width: u32, step: Step, now: u64, horizon: u64) -> u64 {
    let more = u64::from(step.width - width);
    let rate = candidate.speeds.rate(width);
    match rule {
        LeftOvers::Time => {
            let end = |rate| end_with(candidate, rate, now, horizon);
            end(rate).saturating_sub(end(step.rate)).saturating_mul(1_000) / more
        }
        LeftOvers::Work => {
            let Some(last) = candidate.plan.last() else { return 0 };
            let planned = candidate.speeds.rate(last.width).max(1);
            let spared = u128::from(step.rate - rate) * u128::from(last.width) * 1_000_000;
            u64::try_from(spared / u128::from(planned) / u128::from(more)).unwrap_or(u64::MAX)
        }
    }
}

/// When a candidate ends that has one rate until the horizon, and its plan from then on.
fn end_with(candidate: &Candidate<'_>, rate: u64, now: u64, horizon: u64) -> u64 {
    let done = rate.saturating_mul(horizon - now);
    if done >= candidate.work {
        return now + candidate.work.div_ceil(rate.max(1));
    }
    let mut left = candidate.work - done;
    let mut last = candidate.plan.last().map_or(horizon, |stretch| stretch.to.max(horizon));
    for stretch in candidate.plan.iter().filter(|stretch| stretch.to > horizon) {
        let rest = [Stretch { from: stretch.from.max(horizon), ..*stretch }];
        if let Some(end) = end_of(candidate.speeds, left, &rest) {
            return end;
        }
        left -= candidate.speeds.rate(stretch.width) * (rest[0].to - rest[0].from);
        last = stretch.to;
    }
    last
}
