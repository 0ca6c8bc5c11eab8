//! Algorithm 1 first, then weighted factoring with a stealing tail, by speeds that are measured on the way.
//!
//! Decides how many items each node gets and when; [`Ledger`] tracks where items are. Each node gets a chunk of its
//! planned part and then another. Chunks shrink with the remaining work, so that errors of the estimate shrink too. A
//! node that has finished its own part takes from the node that is expected to finish last: first items not given yet,
//! in the end items that it has. Every report is answered at once.

use super::ledger::{Ledger, Source};
use super::{Action, Error, ItemId, Policy};

/// How [`DynamicPolicy`] hands out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DynamicSettings {
    /// The fewest items of a chunk, as long as there are that many.
    pub min_chunk: usize,
    /// A node gets its next chunk when its items last no longer than this, so that it need not wait.
    pub ahead_seconds: f64,
    /// The weight of the latest measurement in a node's speed, above 0 and at most 1.
    pub smoothing: f64,
}

impl Default for DynamicSettings {
    fn default() -> Self {
        DynamicSettings { min_chunk: 1, ahead_seconds: 0.0, smoothing: 0.4 }
    }
}

impl DynamicSettings {
    fn check(&self) -> Result<(), Error> {
        let DynamicSettings { ahead_seconds, smoothing, .. } = *self;
        if !(ahead_seconds >= 0.0 && ahead_seconds.is_finite()) {
            let expected = "a finite number, 0 or more";
            return Err(Error::Setting { what: "ahead_seconds", value: ahead_seconds, expected });
        }
        if !(smoothing > 0.0 && smoothing <= 1.0) {
            let expected = "a number above 0 and at most 1";
            return Err(Error::Setting { what: "smoothing", value: smoothing, expected });
        }
        Ok(())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WorkerPhase {
    /// Expected; it has not started yet.
    Awaited,
    Working,
    Lost,
}

#[derive(Debug, Clone)]
struct Worker {
    name: String,
    capability: f64,
    /// Items a second.
    measured: Option<f64>,
    /// Seconds that it has reported since it last completed an item.
    silent: f64,
    phase: WorkerPhase,
}

impl Worker {
    fn new(name: String, capability: f64) -> Worker {
        let capability = if capability.is_finite() { capability.max(0.0) } else { 0.0 };
        Worker { name, capability, measured: None, silent: 0.0, phase: WorkerPhase::Awaited }
    }
}

/// The policy `dynamic`.
#[derive(Debug, Clone)]
pub struct DynamicPolicy {
    ledger: Ledger,
    workers: Vec<Worker>,
    settings: DynamicSettings,
    finished: bool,
}

impl DynamicPolicy {
    /// Nodes with their names and capabilities, and what Algorithm 1 planned for each.
    pub fn new(
        nodes: Vec<(String, f64)>,
        parts: Vec<Vec<ItemId>>,
        settings: DynamicSettings,
    ) -> Result<DynamicPolicy, Error> {
        if nodes.len() != parts.len() {
            let what = format!("there are {} parts for {} nodes", parts.len(), nodes.len());
            return Err(Error::NotAPartition { what });
        }
        settings.check()?;
        let ledger = Ledger::new(parts)?;
        let workers = nodes.into_iter().map(|(name, capability)| Worker::new(name, capability)).collect();
        Ok(DynamicPolicy { ledger, workers, settings, finished: false })
    }

    /// The speeds by which it divides now: measured, else the capability in the unit of what is measured elsewhere.
    /// Those of lost nodes are 0; if all are 0, those of the others are 1.
    pub fn rates(&self) -> Vec<f64> {
        let (mut measured, mut claimed) = (0.0, 0.0);
        for worker in &self.workers {
            if let Some(rate) = worker.measured.filter(|_| worker.capability > 0.0) {
                measured += rate;
                claimed += worker.capability;
            }
        }
        let unit = (measured > 0.0).then(|| measured / claimed);
        let rate = |worker: &Worker| {
            let rate = worker.measured.or(unit.map(|unit| worker.capability * unit));
            match rate {
                // In so long it would have done one, were it faster than that.
                Some(rate) if worker.silent > 0.0 => rate.min(1.0 / worker.silent),
                Some(rate) => rate,
                None => worker.capability,
            }
        };
        let mut rates: Vec<f64> = self
            .workers
            .iter()
            .map(|worker| if worker.phase == WorkerPhase::Lost { 0.0 } else { rate(worker) })
            .collect();
        if rates.iter().all(|rate| *rate <= 0.0) {
            for (rate, worker) in rates.iter_mut().zip(&self.workers) {
                *rate = f64::from(u8::from(worker.phase != WorkerPhase::Lost));
            }
        }
        rates
    }

    /// Items that are not done yet.
    pub fn undone(&self) -> usize {
        self.ledger.undone()
    }

    /// Gives items to every node that is short of work; reports the end of the job.
    fn feed(&mut self, actions: &mut Vec<Action>) {
        if self.ledger.undone() == 0 {
            if !self.finished {
                self.finished = true;
                actions.push(Action::Finished);
            }
            return;
        }
        let rates = self.rates();
        for node in 0..self.workers.len() {
            if self.is_short(node, rates[node]) {
                self.feed_one(node, &rates, actions);
            }
        }
    }

    fn is_short(&self, node: usize, rate: f64) -> bool {
        let worker = &self.workers[node];
        // Before anything is measured the rate may be in any unit, so that no time follows from it.
        let ahead = worker.measured.map_or(0.0, |_| rate * self.settings.ahead_seconds);
        worker.phase == WorkerPhase::Working && rate > 0.0 && self.ledger.given(node) as f64 <= ahead
    }

    fn feed_one(&mut self, node: usize, rates: &[f64], actions: &mut Vec<Action>) {
        let source = if self.ledger.reserved(node) > 0 {
            Source::Own
        } else if self.ledger.pooled() > 0 {
            Source::Pool
        } else if let Some(last) = self.last(node, rates, |ledger, other| ledger.reserved(other)) {
            Source::Reserve(last)
        } else {
            return self.steal(node, rates, actions);
        };
        let all: f64 = rates.iter().sum();
        let fair = self.ledger.waiting() as f64 * rates[node] / (2.0 * all);
        let chunk = (fair.ceil() as usize).max(self.settings.min_chunk).max(1);
        let items = self.ledger.give(node, source, chunk);
        actions.push(Action::Give { node, items });
    }

    /// The other node that is expected to be done last of those that have something to take.
    fn last(&self, node: usize, rates: &[f64], has: impl Fn(&Ledger, usize) -> usize) -> Option<usize> {
        (0..self.workers.len())
            .filter(|other| *other != node && has(&self.ledger, *other) > 0)
            .map(|other| (other, self.time_left(other, rates)))
            .max_by(|(a, a_left), (b, b_left)| a_left.total_cmp(b_left).then(b.cmp(a)))
            .map(|(other, _)| other)
    }

    fn time_left(&self, node: usize, rates: &[f64]) -> f64 {
        (self.ledger.given(node) + self.ledger.reserved(node)) as f64 / rates[node]
    }

    /// Nothing waits any more: takes so many from the node that is expected to be done last that both end together.
    fn steal(&mut self, node: usize, rates: &[f64], actions: &mut Vec<Action>) {
        let Some(last) = self.last(node, rates, |ledger, other| ledger.given(other)) else { return };
        let (mine, theirs) = (self.ledger.given(node) as f64, self.ledger.given(last) as f64);
        let even = (theirs * rates[node] - mine * rates[last]) / (rates[node] + rates[last]);
        let mut count = even.max(0.0) as usize;
        // A last item is most likely being worked on. To begin it anew pays only if that takes half of the time.
        if count == 0 && mine == 0.0 && 2.0 / rates[node] <= theirs / rates[last] {
            count = 1;
        }
        if count == 0 {
            return;
        }
        let items = self.ledger.shift(last, node, count);
        actions.push(Action::TakeBack { node: last, items: items.clone() });
        actions.push(Action::Give { node, items });
    }

    fn measure(&mut self, node: usize, count: usize, seconds: f64) {
        if !(seconds > 0.0 && seconds.is_finite()) {
            return;
        }
        let smoothing = self.settings.smoothing;
        let worker = &mut self.workers[node];
        if count == 0 {
            worker.silent += seconds;
            return;
        }
        let rate = count as f64 / (seconds + std::mem::take(&mut worker.silent));
        worker.measured = Some(match worker.measured {
            None => rate,
            Some(before) => before + smoothing * (rate - before),
        });
    }
}

impl Policy for DynamicPolicy {
    fn started(&mut self, node: usize) -> Vec<Action> {
        let mut actions = Vec::new();
        if let Some(worker) = self.workers.get_mut(node) {
            worker.phase = WorkerPhase::Working;
            self.feed(&mut actions);
        }
        actions
    }

    fn done(&mut self, node: usize, items: &[ItemId], seconds: f64) -> Vec<Action> {
        let mut actions = Vec::new();
        if node >= self.workers.len() {
            return actions;
        }
        self.measure(node, items.len(), seconds);
        for (node, items) in self.ledger.done(node, items) {
            actions.push(Action::TakeBack { node, items });
        }
        self.feed(&mut actions);
        actions
    }

    fn lost(&mut self, node: usize) -> Vec<Action> {
        let mut actions = Vec::new();
        if let Some(worker) = self.workers.get_mut(node) {
            worker.phase = WorkerPhase::Lost;
            self.ledger.lose(node);
            self.feed(&mut actions);
        }
        actions
    }

    fn joined(&mut self, name: &str, capability: f64) -> (usize, Vec<Action>) {
        let mut worker = Worker::new(name.to_owned(), capability);
        let node = match self.workers.iter().position(|worker| worker.name == name) {
            Some(node) => {
                // A measured speed is more reliable than a capability.
                worker.measured = self.workers[node].measured;
                self.workers[node] = worker;
                self.ledger.lose(node);
                node
            }
            None => {
                self.workers.push(worker);
                self.ledger.add_node()
            }
        };
        let mut actions = Vec::new();
        self.feed(&mut actions);
        (node, actions)
    }

    fn merged(&self) -> Vec<Option<usize>> {
        self.ledger.merged()
    }
}
