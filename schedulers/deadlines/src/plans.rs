//! The plans of promised jobs: of each by itself beside the others, and of all anew.

use crate::planner::{Entry, JobId, Planner};
use crate::profile::{Profile, Stretch};
use crate::share::{end_of, minimum_share};

/// A plan of all promised jobs that was made anew.
pub(crate) struct Plans {
    plans: Vec<(usize, Vec<Stretch>)>,
    profile: Profile,
    /// Jobs for which there is no margin.
    pub tight: usize,
}

/// Whether a job may be planned without a margin. Only those that have a promise may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Need {
    WithMargin,
    Whatever,
}

impl Planner {
    /// The plan of one job in a profile, and whether it has no margin.
    fn plan(&self, entry: &Entry, profile: &Profile, need: Need) -> Option<(Vec<Stretch>, bool)> {
        let (settings, job) = (&self.settings, &entry.job);
        let due = job.deadline.saturating_sub(settings.early);
        let share = |work: u64, lost: u64| {
            minimum_share(&job.speeds, work, lost, (self.now, due), settings.grid, profile)
        };
        let mut found = None;
        if !self.costs.is_nothing() {
            let margin = &settings.margin;
            let lost = entry.owes + margin.rounds * self.costs.of(job.speeds.fastest().width);
            found = share(job.work + job.work / 1_000 * margin.work_permille, lost);
            if found.is_none() && need == Need::WithMargin {
                return None;
            }
        }
        let is_tight = found.is_none() && !self.costs.is_nothing();
        let mut plan = found.or_else(|| share(job.work, entry.owes))?;
        if self.costs.is_nothing()
            && let Some(end) = end_of(&job.speeds, job.work, &plan)
        {
            plan.retain(|stretch| stretch.from < end);
            if let Some(last) = plan.last_mut() {
                last.to = end;
            }
        }
        if let Some(last) = plan.last_mut() {
            last.to = settings.grid.up(last.to);
        }
        Some((plan, is_tight))
    }

    /// The accelerators that newcomers leave for the cost of rounds to come.
    fn reserve(&self) -> u32 {
        let percent = if self.costs.is_nothing() { 0 } else { self.settings.margin.pool_percent };
        u32::try_from(u64::from(self.settings.accelerators) * u64::from(percent) / 100).unwrap_or(0)
    }

    /// Plans promised jobs, and perhaps one more, anew in the order of their deadlines, if that keeps every promise.
    pub(crate) fn plan_all(&self, newcomer: Option<usize>) -> Option<Plans> {
        let reserve = if newcomer.is_some() { self.reserve() } else { 0 };
        let mut profile = Profile::new(self.now, self.settings.accelerators.saturating_sub(reserve));
        let mut plans = Vec::new();
        let mut tight = 0;
        for (at, entry) in self.entries.iter().enumerate() {
            let need = if newcomer == Some(at) { Need::WithMargin } else { Need::Whatever };
            if entry.is_promised || need == Need::WithMargin {
                let (plan, is_tight) = self.plan(entry, &profile, need)?;
                tight += usize::from(is_tight);
                profile.take(&plan);
                plans.push((at, plan));
            }
        }
        profile.raise(reserve);
        Some(Plans { plans, profile, tight })
    }

    pub(crate) fn adopt(&mut self, anew: Plans) {
        for (at, plan) in anew.plans {
            self.entries[at].plan = plan;
            self.entries[at].is_promised = true;
        }
        self.profile = anew.profile;
    }

    /// Plans each promised job anew beside the standing plans of the others. A job for which that fails keeps its plan.
    /// Returns whether it never failed.
    pub(crate) fn plan_each(&mut self) -> bool {
        let mut is_kept = true;
        for at in 0..self.entries.len() {
            if self.entries[at].is_promised {
                let standing = std::mem::take(&mut self.entries[at].plan);
                self.profile.give(&standing);
                let anew = self.plan(&self.entries[at], &self.profile, Need::Whatever);
                is_kept &= anew.is_some();
                let plan = anew.map_or(standing, |(plan, _)| plan);
                self.profile.take(&plan);
                self.entries[at].plan = plan;
            }
        }
        is_kept
    }

    /// The plan of a newcomer in what the standing plan leaves free.
    fn beside(&self, at: usize) -> Option<Vec<Stretch>> {
        let free = self.profile.without(self.reserve());
        self.plan(&self.entries[at], &free, Need::WithMargin).map(|(plan, _)| plan)
    }

    fn stand(&mut self, at: usize, plan: Vec<Stretch>) {
        self.profile.take(&plan);
        self.entries[at].plan = plan;
        self.entries[at].is_promised = true;
    }

    fn place_of(&self, id: JobId) -> Option<usize> {
        self.entries.iter().position(|entry| entry.job.id == id)
    }

    /// Promises a job its end if its plan begins later, so that no round is needed for it now.
    pub(crate) fn promise_later(&mut self, id: JobId) -> bool {
        let later = self.place_of(id).and_then(|at| Some((at, self.beside(at)?)));
        match later {
            Some((at, plan)) if plan.first().is_some_and(|first| first.from > self.now) => {
                self.stand(at, plan);
                true
            }
            _ => false,
        }
    }

    /// Promises a job its end if there is a plan of all with it, or room beside the standing plan. No other job may lose
    /// its margin for that: not more than `tight` have none.
    pub(crate) fn promise(&mut self, id: JobId, tight: Option<usize>) -> bool {
        let Some(at) = self.place_of(id) else { return false };
        if let Some(plan) = self.beside(at) {
            self.stand(at, plan);
            return true;
        }
        let Some(tight) = tight else { return false };
        match self.plan_all(Some(at)) {
            Some(anew) if anew.tight <= tight => {
                self.adopt(anew);
                true
            }
            _ => false,
        }
    }
}
