//! The planner: who is promised an end in time, and which width each job has until the next round.
//!
//! A *round* gives widths anew. Each promised job has a plan, its minimum satisfactory share, and all plans fit the pool
//! together: they are the witness that every promise can be kept. A plan of all that is made anew counts only if it keeps
//! them all; else the standing one is followed. Jobs that are not promised run on what is left over, last of all, and are
//! tested again at each round.

use std::sync::Arc;

use crate::leftover::{Candidate, LeftOvers, give};
use crate::profile::{Profile, Stretch};
use crate::share::Grid;
use crate::throughput::Speeds;

pub type JobId = u64;

/// Widths have exponents below this.
const EXPONENTS: usize = 17;

/// A job: so much work by a deadline.
#[derive(Debug, Clone)]
pub struct Job {
    pub id: JobId,
    pub speeds: Arc<Speeds>,
    /// Nanoiterations that are left.
    pub work: u64,
    pub deadline: u64,
}

/// Milliseconds without progress that a round costs a running job, by the exponent of its width.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Costs {
    pub by_width: [u64; EXPONENTS],
}

impl Costs {
    /// The cost, whatever the width.
    pub fn flat(cost: u64) -> Costs {
        Costs { by_width: [cost; EXPONENTS] }
    }

    pub fn of(&self, width: u32) -> u64 {
        if width == 0 { 0 } else { self.by_width[(width.ilog2() as usize).min(EXPONENTS - 1)] }
    }

    pub fn is_nothing(&self) -> bool {
        *self == Costs::default()
    }
}

#[derive(Debug, Clone, Copy)]
pub struct Settings {
    pub accelerators: u32,
    pub grid: Grid,
    /// Plans end by so many milliseconds before their deadlines: an end exactly at one is lost to rounding at the next look.
    pub early: u64,
    pub left_overs: LeftOvers,
    pub margin: Margin,
    /// Rounds that no plan needs are at least so many milliseconds apart, if rounds cost anything.
    pub patience: u64,
}

/// The margin of plans for the cost of rounds that are not known yet. Without any cost there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Margin {
    /// Each job has time for so many rounds.
    pub rounds: u64,
    /// And so many thousandths more work than it has.
    pub work_permille: u64,
    /// So many hundredths of the pool are not promised to newcomers.
    pub pool_percent: u32,
}

impl Default for Margin {
    fn default() -> Self {
        Margin { rounds: 2, work_permille: 10, pool_percent: 4 }
    }
}

impl Settings {
    pub fn new(accelerators: u32) -> Settings {
        Settings {
            accelerators,
            grid: Grid { slot: 20_000 },
            early: 1_000,
            left_overs: LeftOvers::Work,
            margin: Margin::default(),
            patience: 300_000,
        }
    }
}

/// A job with what the planner decided about it.
#[derive(Debug, Clone)]
pub struct Entry {
    pub job: Job,
    pub is_promised: bool,
    /// The minimum satisfactory share, in the order of time; empty for jobs that are not promised.
    pub plan: Vec<Stretch>,
    pub width: u32,
    /// Milliseconds without progress that are still to be paid.
    pub owes: u64,
}

impl Entry {
    /// The width that the plan has at an instant.
    fn planned(&self, now: u64) -> u32 {
        let at = self.plan.iter().find(|stretch| stretch.from <= now && now < stretch.to);
        at.map_or(0, |stretch| stretch.width)
    }

    /// The smallest remaining work goes first where there is no deadline to keep.
    fn size(&self) -> u64 {
        self.job.work / self.job.speeds.narrowest().rate
    }

    /// Whether the job would end in time on an empty pool.
    fn can_end(&self, now: u64) -> bool {
        now + self.owes + self.job.work.div_ceil(self.job.speeds.fastest().rate) <= self.job.deadline
    }
}

/// Decisions of a step.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Jobs that are promised from now on, also ones that were declined before.
    pub promised: Vec<JobId>,
    /// Promises that cannot be kept any more. These jobs go on without one.
    pub broken: Vec<JobId>,
    /// Whether widths were given anew.
    pub is_round: bool,
}

#[derive(Debug, Clone)]
pub struct Planner {
    pub(crate) settings: Settings,
    pub(crate) costs: Costs,
    /// In the order of their deadlines.
    pub(crate) entries: Vec<Entry>,
    /// Accelerators that the standing plan leaves free.
    pub(crate) profile: Profile,
    pub(crate) now: u64,
    last_round: Option<u64>,
    /// Something changed that a round would use.
    is_dirty: bool,
}

impl Planner {
    pub fn new(settings: Settings) -> Planner {
        let profile = Profile::new(0, settings.accelerators);
        let costs = Costs::default();
        Planner { settings, costs, entries: Vec::new(), profile, now: 0, last_round: None, is_dirty: false }
    }

    /// Entries in the order of their deadlines.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    pub fn now(&self) -> u64 {
        self.now
    }

    /// Sets the cost of the next round.
    pub fn set_costs(&mut self, costs: Costs) {
        self.costs = costs;
    }

    /// Lets time pass: running jobs progress at the speeds of their widths.
    pub fn advance(&mut self, now: u64) {
        let passed = now.saturating_sub(self.now);
        for entry in self.entries.iter_mut().filter(|entry| entry.width > 0) {
            let paid = entry.owes.min(passed);
            entry.owes -= paid;
            let done = entry.job.speeds.rate(entry.width).saturating_mul(passed - paid);
            entry.job.work = entry.job.work.saturating_sub(done);
        }
        self.now += passed;
        self.profile.advance(self.now);
    }

    /// The next end of a running job.
    pub fn next_end(&self) -> Option<(u64, JobId)> {
        let end = |entry: &Entry| {
            let rate = entry.job.speeds.rate(entry.width);
            self.now + entry.owes + entry.job.work.div_ceil(rate)
        };
        let running = self.entries.iter().filter(|entry| entry.width > 0);
        running.map(|entry| (end(entry), entry.job.id)).min()
    }

    /// Charges jobs for a round, in the order of the entries.
    pub fn charge(&mut self, costs: &[u64]) {
        for (entry, cost) in self.entries.iter_mut().zip(costs) {
            entry.owes = entry.owes.max(*cost);
        }
    }

    /// Takes out a job that ended, or whose user does not want it any more.
    pub fn remove(&mut self, id: JobId) -> Option<Entry> {
        let at = self.entries.iter().position(|entry| entry.job.id == id)?;
        let entry = self.entries.remove(at);
        self.profile.give(&entry.plan);
        self.is_dirty = true;
        Some(entry)
    }

    /// When the planner has to be asked again though nothing happens.
    pub fn wake(&self) -> Option<u64> {
        let rise = |entry: &Entry| {
            let mut wider = entry.plan.iter().filter(|stretch| stretch.width > entry.width);
            wider.find(|stretch| stretch.to > self.now).map(|stretch| stretch.from.max(self.now))
        };
        let must = self.entries.iter().filter(|entry| entry.is_promised).filter_map(rise).min();
        let patience = if self.costs.is_nothing() { 0 } else { self.settings.patience };
        let may = self.is_dirty.then(|| self.last_round.map_or(self.now, |last| last + patience));
        [must, may].into_iter().flatten().min()
    }

    /// Tests newcomers, each by itself, and holds a round if a plan needs one, a newcomer does, or enough time has passed
    /// since something changed.
    pub fn step(&mut self, newcomers: Vec<Job>) -> Outcome {
        let mut outcome = Outcome { broken: self.give_up(), ..Outcome::default() };
        let mut untested = self.enter(newcomers);
        if !self.costs.is_nothing() {
            untested.retain(|id| {
                let waits = self.promise_later(*id);
                outcome.promised.extend(waits.then_some(*id));
                !waits
            });
        }
        let must =
            self.entries.iter().any(|entry| entry.is_promised && entry.planned(self.now) > entry.width);
        let patience = if self.costs.is_nothing() { 0 } else { self.settings.patience };
        let may = self.is_dirty && self.last_round.is_none_or(|last| last + patience <= self.now);
        if !must && !may && untested.is_empty() {
            return outcome;
        }
        let before = (self.entries.clone(), self.profile.clone());
        self.owe_a_round();
        let anew = self.plan_all(None);
        let tight = anew.as_ref().map(|plans| plans.tight);
        let holds = match anew {
            Some(plans) => {
                self.adopt(plans);
                true
            }
            None => self.plan_each(),
        };
        let promised = if holds || must { self.test(&untested, tight) } else { Vec::new() };
        let owed: Vec<u64> = before.0.iter().map(|entry| entry.owes).collect();
        if (!holds && !must) || (!must && !may && promised.is_empty()) {
            (self.entries, self.profile) = before;
            return outcome;
        }
        for (entry, owed) in self.entries.iter_mut().zip(owed) {
            entry.owes = owed;
        }
        outcome.promised.extend(promised);
        self.give_widths();
        self.last_round = Some(self.now);
        self.is_dirty = false;
        outcome.is_round = true;
        outcome
    }

    /// Jobs that cannot end in time any more lose their promise, so that they decide nothing about others.
    fn give_up(&mut self) -> Vec<JobId> {
        let mut broken = Vec::new();
        for entry in self.entries.iter_mut().filter(|entry| entry.is_promised) {
            if !entry.can_end(self.now) {
                entry.is_promised = false;
                self.profile.give(&entry.plan);
                entry.plan.clear();
                broken.push(entry.job.id);
            }
        }
        broken
    }

    fn enter(&mut self, newcomers: Vec<Job>) -> Vec<JobId> {
        let ids = newcomers.iter().map(|job| job.id).collect();
        for job in newcomers {
            let key = (job.deadline, job.id);
            let at = self.entries.partition_point(|entry| (entry.job.deadline, entry.job.id) < key);
            let entry = Entry { job, is_promised: false, plan: Vec::new(), width: 0, owes: 0 };
            self.entries.insert(at, entry);
            self.is_dirty = true;
        }
        ids
    }

    /// Running jobs pay for a round.
    fn owe_a_round(&mut self) {
        for entry in self.entries.iter_mut().filter(|entry| entry.width > 0) {
            let width = entry.width.max(entry.planned(self.now));
            entry.owes = entry.owes.max(self.costs.of(width));
        }
    }

    /// Tests who is not promised: newcomers first, then the smallest.
    fn test(&mut self, untested: &[JobId], tight: Option<usize>) -> Vec<JobId> {
        let waiting = self.entries.iter().filter(|entry| !entry.is_promised && entry.can_end(self.now));
        let rank = |entry: &Entry| (!untested.contains(&entry.job.id), entry.size(), entry.job.id);
        let mut tests: Vec<(bool, u64, JobId)> = waiting.map(rank).collect();
        tests.sort_unstable();
        tests.retain(|(_, _, id)| self.promise(*id, tight));
        tests.into_iter().map(|(_, _, id)| id).collect()
    }

    /// Gives each promised job its plan's width, then left-overs to these, then to the others what still is free.
    fn give_widths(&mut self) {
        let now = self.now;
        let next = |entry: &Entry| {
            let changes = entry.plan.iter().flat_map(|stretch| [stretch.from, stretch.to]);
            changes.filter(|at| *at > now).min()
        };
        let promised = self.entries.iter().filter(|entry| entry.is_promised);
        let horizon = promised.clone().filter_map(next).min().unwrap_or(now + self.settings.patience);
        let candidates: Vec<Candidate<'_>> = promised.map(|entry| candidate(entry, now)).collect();
        let planned: u32 = candidates.iter().map(|candidate| candidate.width).sum();
        let free = self.settings.accelerators.saturating_sub(planned);
        let horizon = horizon.max(now + self.settings.grid.slot);
        let widths = give(self.settings.left_overs, &candidates, free, now, horizon);
        let mut free = (planned + free).saturating_sub(widths.iter().sum());
        let mut widths = widths.into_iter();
        let mut rest = Vec::new();
        for (at, entry) in self.entries.iter_mut().enumerate() {
            entry.width = if entry.is_promised { widths.next().unwrap_or(0) } else { 0 };
            if !entry.is_promised {
                rest.push((!entry.can_end(now), entry.size(), at));
            }
        }
        rest.sort_unstable();
        for (_, _, at) in rest {
            let entry = &mut self.entries[at];
            if let Some(step) = entry.job.speeds.within(free) {
                entry.width = step.width;
                free -= step.width;
            }
        }
    }
}

fn candidate(entry: &Entry, now: u64) -> Candidate<'_> {
    let job = &entry.job;
    Candidate { speeds: &job.speeds, work: job.work, plan: &entry.plan, width: entry.planned(now) }
}
